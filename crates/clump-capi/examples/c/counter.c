/* Remote counter: every rank takes tickets from a word of rank 0's memory, while rank 0 computes
 * and never polls. Each ticket is taken once, by any rank.
 *
 *   clump-cc -O2 counter.c -o counter && clump run -n 4 --nodes 2 ./counter
 */
#include <clump.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEXT = 0, DONE = 8, BYTES = 128, TICKETS = 1000 };

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    clump_rma *rma = cl ? clump_rma_open(cl) : NULL;
    int rank = clump_rank(cl), nranks = clump_nranks(cl), failed = rma == NULL;
    clump_target **all = failed ? NULL : calloc((size_t)nranks, sizeof *all);
    clump_segment *mine = all ? clump_allocate(cl, rma, BYTES, all) : NULL;
    if (mine == NULL) {
        fprintf(stderr, "%s\n", clump_error_text());
        return 1;
    }
    if (rank == 0) {
        /* Loads of its own memory, and no call of clump. */
        const uint64_t *done = (const uint64_t *)clump_segment_base(mine) + DONE / 8;
        uint64_t computed = 1;
        do computed = computed * 6364136223846793005u + 1442695040888963407u;
        while (__atomic_load_n(done, __ATOMIC_ACQUIRE) < (uint64_t)(nranks - 1));
        printf("rank 0 has computed %016" PRIx64 " meanwhile\n", computed);
    } else {
        uint64_t ticket = 0, last = 0;
        for (int i = 0; i < TICKETS && !failed; i++) {
            failed = clump_rma_fetch_add_u64(all[0], NEXT, 1, &ticket) < 0 || (i > 0 && ticket <= last);
            last = ticket;
        }
        failed |= clump_rma_add_u64(all[0], DONE, 1) < 0; /* without a result: not waited for */
        failed |= clump_rma_quiet(rma) < 0;               /* now it is complete */
    }
    failed |= clump_barrier(cl) < 0;
    if (rank == 0) {
        uint64_t taken = 0;
        failed |= clump_rma_load_u64(all[0], NEXT, &taken) < 0;
        printf("%" PRIu64 " tickets were taken, each by one\n", taken);
    }
    if (failed || clump_finalize(cl) < 0) {
        fprintf(stderr, "rank %d: %s\n", rank, clump_error_text());
        return 1;
    }
    free(all);
    return 0;
}
