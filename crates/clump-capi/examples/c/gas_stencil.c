/* Stencil with halo rows: heat spreads over a plate whose upper edge is hot. Neighbours store copies
 * of their rows, in two sets that take turns, so that nobody stores into what others still read.
 *
 *   clump-cc -O2 gas_stencil.c -o gas_stencil && clump run -n 4 --nodes 2 ./gas_stencil
 */
#include "gas_example.h"
#include <string.h>

enum { WIDTH = 64, ROWS = 16, STEPS = 200 };

static double plate[ROWS + 2][WIDTH], old[ROWS + 2][WIDTH];

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    int me = clump_rank(cl), ranks = clump_nranks(cl);
    const size_t row = sizeof plate[0];
    /* For each rank two sets of two rows: the one above its own, and the one below. */
    clump_spread *copies = CHECKED(clump_spread_alloc(gas, 4 * (size_t)ranks, row, CLUMP_BLOCK));
    for (int j = 0; me == 0 && j < WIDTH; j++) plate[0][j] = 100;
    double change = 0, hottest = 0;
    for (size_t step = 0; step < STEPS; step++) {
        size_t set = step % 2 * 2;
        if (me > 0) DONE(clump_pgas_store(gas, clump_spread_at(copies, 4 * (size_t)me - 3 + set), plate[1], row));
        if (me + 1 < ranks)
            DONE(clump_pgas_store(gas, clump_spread_at(copies, 4 * (size_t)me + 4 + set), plate[ROWS], row));
        DONE(clump_pgas_all_store_sync(gas));
        clump_gptr mine = clump_spread_at(copies, 4 * (size_t)me + set);
        if (me > 0) DONE(clump_pgas_read(gas, plate[0], mine, row));
        if (me + 1 < ranks) DONE(clump_pgas_read(gas, plate[ROWS + 1], clump_gptr_add(mine, (int64_t)row), row));
        memcpy(old, plate, sizeof old);
        change = 0;
        for (int i = 1; i <= ROWS; i++)
            for (int j = 1; j < WIDTH - 1; j++) {
                plate[i][j] = (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]) / 4;
                double by = plate[i][j] > old[i][j] ? plate[i][j] - old[i][j] : old[i][j] - plate[i][j];
                if (by > change) change = by;
            }
    }
    for (int j = 0; j < WIDTH; j++) hottest = plate[1][j] > hottest ? plate[1][j] : hottest;
    DONE(clump_all_reduce(cl, &change, &change, 1, CLUMP_F64, CLUMP_MAX));
    if (me == 0) printf("after %d steps: largest change %.6f, hottest below the edge %.3f\n", STEPS, change, hottest);
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0 || (me == 0 && !(hottest > 50 && hottest < 100));
}
