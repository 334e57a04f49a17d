/* Ring: a number goes from rank to rank, by one-way stores that the receiver counts.
 *
 *   clump-cc -O2 gas_ring.c -o gas_ring && clump run -n 4 --nodes 2 ./gas_ring
 */
#include "gas_example.h"

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    uint64_t me = (uint64_t)clump_rank(cl), ranks = (uint64_t)clump_nranks(cl), number = 0;
    const uint64_t rounds = 1000;
    clump_spread *places = CHECKED(clump_spread_alloc(gas, ranks, sizeof number, CLUMP_BLOCK));
    clump_gptr next = clump_spread_at(places, (me + 1) % ranks), mine = clump_spread_at(places, me);
    for (uint64_t i = 0; i < rounds; i++) {
        if (me == 0) DONE(clump_pgas_store(gas, next, &number, sizeof number));
        DONE(clump_pgas_store_sync(gas, sizeof number));
        DONE(clump_pgas_read(gas, &number, mine, sizeof number));
        number += me;
        if (me != 0) DONE(clump_pgas_store(gas, next, &number, sizeof number));
    }
    DONE(clump_pgas_all_store_sync(gas));
    if (me == 0) {
        printf("after %d rounds over %d ranks: %llu\n", (int)rounds, (int)ranks, (unsigned long long)number);
        if (number != rounds * (ranks * (ranks - 1) / 2)) return 1;
    }
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0;
}
