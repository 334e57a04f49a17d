/* Ring: a page goes from rank to rank until it is back at the first; each adds one to every byte.
 *
 *   clump-cc -O2 ring.c -o ring && clump run -n 4 --nodes 2 ./ring
 */
#include <clump.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG 0x91
enum { PAGE = 1, BYTES = 4096 };

static int next, home, back;

static void page(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n;
    if (home) {
        printf("%d bytes are back after %d ranks, each now %d\n", (int)len, (int)a[0], ((const char *)d)[0]);
        back = 1;
        return;
    }
    char added[BYTES];
    for (size_t i = 0; i < len && i < BYTES; i++) added[i] = (char)(((const char *)d)[i] + 1);
    /* A handler does not wait; it queues requests to be sent after it has returned. */
    if (clump_defer_bulk(t, next, PAGE, added, len, a[0] + 1) < 0) clump_token_fail(t, clump_error_text());
    back = 1;
}
static int is_back(void *unused) {
    (void)unused;
    return back;
}
static void returned(const clump_returned *m) {
    fprintf(stderr, "rank %d: the page for rank %d came back: %s\n", m->rank, clump_name_rank(m->dest),
            clump_reason_text(m->reason));
    exit(1);
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    clump_ep *ep = cl ? clump_ep_open(cl, TAG) : NULL;
    clump_name *names = cl ? calloc((size_t)clump_nranks(cl), sizeof *names) : NULL;
    int rank = clump_rank(cl), nranks = clump_nranks(cl);
    if (ep == NULL || names == NULL || clump_ep_handler(ep, PAGE, page) < 0 ||
        clump_ep_on_returned(ep, returned, NULL) < 0 ||
        clump_all_gather_u64(cl, clump_ep_name(ep), names) < 0 ||
        (next = clump_ep_map(ep, names[(rank + 1) % nranks], TAG)) < 0 ||
        clump_barrier(cl) < 0) { /* from here on all ranks have mapped their destination */
        fprintf(stderr, "%s\n", clump_error_text());
        return 1;
    }
    home = rank == 0;
    char first[BYTES] = {0};
    if ((home && clump_request_bulk(ep, next, PAGE, first, sizeof first, 1) < 0) ||
        clump_poll_until(ep, is_back, NULL) < 0 || clump_barrier(cl) < 0 || clump_finalize(cl) < 0) {
        fprintf(stderr, "%s\n", clump_error_text());
        return 1;
    }
    free(names);
    return 0;
}
