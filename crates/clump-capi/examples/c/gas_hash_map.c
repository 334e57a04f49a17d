/* A hash map over all ranks: slots of a spread array, claimed by compare-and-swap. (The example in
 * Rust uses remote calls, which C has as clump_call_begin.)
 *
 *   clump-cc -O2 gas_hash_map.c -o gas_hash_map && clump run -n 4 --nodes 2 ./gas_hash_map
 */
#include "gas_example.h"

enum { SLOTS = 1 << 10, KEYS = 97, WORDS = 1000 };

static clump_pgas *gas;
static clump_spread *keys, *counts;

/* Returns the slot of a key, which is not 0; claims one if there is none. */
static size_t slot_of(uint64_t key) {
    for (size_t slot = key * 0x9e3779b97f4a7c15u >> 54;; slot = (slot + 1) % SLOTS) {
        uint64_t there = 0;
        DONE(clump_pgas_compare_swap_u64(gas, clump_spread_at(keys, slot), 0, key, &there));
        if (there == 0 || there == key) return slot;
    }
}

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    gas = CHECKED(clump_pgas_open(cl));
    keys = CHECKED(clump_spread_alloc(gas, SLOTS, sizeof(uint64_t), CLUMP_CYCLIC));
    counts = CHECKED(clump_spread_alloc(gas, SLOTS, sizeof(uint64_t), CLUMP_CYCLIC));
    /* A slot is found once; additions to it are collected. */
    size_t known[KEYS];
    for (uint64_t key = 0; key < KEYS; key++) known[key] = slot_of(key + 1);
    for (int i = 0; i < WORDS; i++) DONE(clump_pgas_add_u64(gas, clump_spread_at(counts, known[i % KEYS]), 1));
    DONE(clump_pgas_all_store_sync(gas));
    uint64_t total = 0, count = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        DONE(clump_pgas_read(gas, &count, clump_spread_at(counts, slot_of(key + 1)), sizeof count));
        total += count;
    }
    int wrong = total != (uint64_t)WORDS * (uint64_t)clump_nranks(cl);
    if (clump_rank(cl) == 0) printf("%d words of %d ranks, %d distinct\n", (int)total, clump_nranks(cl), KEYS);
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0 || wrong;
}
