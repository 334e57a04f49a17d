/* Hello from all ranks: every rank writes its node into an array that rank 0 prints.
 *
 *   clump-cc -O2 gas_hello.c -o gas_hello && clump run -n 4 --nodes 2 ./gas_hello
 */
#include "gas_example.h"

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    int ranks = clump_nranks(cl);
    clump_spread *nodes = CHECKED(clump_spread_alloc(gas, (size_t)ranks, sizeof(uint64_t), CLUMP_BLOCK));
    /* An element lies at each rank; each writes that of the next. */
    uint64_t rank = (uint64_t)clump_rank(cl), node = (uint64_t)clump_node(cl);
    DONE(clump_pgas_put(gas, clump_spread_at(nodes, (size_t)(rank + 1) % (size_t)ranks), &node, sizeof node));
    /* What every rank has begun before has happened, everywhere. */
    DONE(clump_pgas_all_store_sync(gas));
    for (int r = 0; rank == 0 && r < ranks; r++) {
        DONE(clump_pgas_read(gas, &node, clump_spread_at(nodes, (size_t)(r + 1) % (size_t)ranks), sizeof node));
        printf("hello from rank %d of %d, on node %d\n", r, ranks, (int)node);
    }
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0;
}
