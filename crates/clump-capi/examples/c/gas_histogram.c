/* A histogram over all ranks: additions are collected, and executed where the bins are.
 *
 *   clump-cc -O2 gas_histogram.c -o gas_histogram && clump run -n 4 --nodes 2 ./gas_histogram
 */
#include "gas_example.h"

enum { DICE = 8, SIDES = 6, BINS = DICE * SIDES + 1, THROWS = 100000 };

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    clump_spread *bins = CHECKED(clump_spread_alloc(gas, BINS, sizeof(uint64_t), CLUMP_CYCLIC));
    uint64_t state = 0x9e3779b97f4a7c15u ^ (uint64_t)clump_rank(cl), counts[BINS], total = 0;
    for (int i = 0; i < THROWS; i++) {
        size_t sum = 0;
        for (int die = 0; die < DICE; die++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += state % SIDES + 1;
        }
        DONE(clump_pgas_add_u64(gas, clump_spread_at(bins, sum), 1));
    }
    DONE(clump_pgas_all_store_sync(gas)); /* every addition of every rank has landed */
    /* Begun together, waited for once. */
    for (size_t i = 0; i < BINS; i++) DONE(clump_pgas_get(gas, &counts[i], clump_spread_at(bins, i), 8));
    DONE(clump_pgas_sync(gas));
    for (size_t i = 0; i < BINS; i++) total += counts[i];
    if (clump_rank(cl) == 0) {
        for (size_t i = DICE; i < BINS; i++) printf("%3d %9llu\n", (int)i, (unsigned long long)counts[i]);
        printf("%llu throws of %d ranks\n", (unsigned long long)total, clump_nranks(cl));
    }
    DONE(clump_pgas_barrier(gas));
    int wrong = total != (uint64_t)THROWS * (uint64_t)clump_nranks(cl);
    return clump_finalize(cl) < 0 || wrong;
}
