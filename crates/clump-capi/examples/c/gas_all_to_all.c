/* All to all: every rank stores a block at every other, and goes on once its own have arrived.
 *
 *   clump-cc -O2 gas_all_to_all.c -o gas_all_to_all && clump run -n 4 --nodes 2 ./gas_all_to_all
 */
#include "gas_example.h"

enum { COUNT = 4096 };

static uint64_t number(int from, int to, int n) {
    return (uint64_t)from * 1000000 + (uint64_t)to * 1000 + (uint64_t)n;
}

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    int me = clump_rank(cl), ranks = clump_nranks(cl);
    const size_t bytes = COUNT * sizeof(uint64_t);
    /* The inbox of a rank: a block from each. */
    size_t blocks = (size_t)ranks * (size_t)ranks;
    clump_spread *inboxes = CHECKED(clump_spread_alloc(gas, blocks, bytes, CLUMP_BLOCK));
    uint64_t *block = CHECKED(malloc(bytes));
    for (int i = 0; i < ranks; i++) {
        int to = (me + i) % ranks; /* others begin with another one */
        for (int n = 0; n < COUNT; n++) block[n] = number(me, to, n);
        DONE(clump_pgas_store(gas, clump_spread_at(inboxes, (size_t)(to * ranks + me)), block, bytes));
    }
    DONE(clump_pgas_store_sync(gas, (size_t)ranks * bytes));
    const uint64_t *here = CHECKED(clump_spread_local(inboxes));
    int wrong = 0;
    for (int from = 0; from < ranks; from++)
        for (int n = 0; n < COUNT; n++) wrong += here[from * COUNT + n] != number(from, me, n);
    DONE(clump_pgas_all_store_sync(gas));
    if (me == 0) printf("%d ranks have exchanged blocks of %d numbers\n", ranks, COUNT);
    free(block);
    return clump_finalize(cl) < 0 || wrong != 0;
}
