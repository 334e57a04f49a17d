/* Ways of ending that no program should choose, one for each name given; rank 1 (or the only one)
 * takes it. */
#include "expect.h"
#include <setjmp.h>

enum { GO = 1 };

static clump_t *cl;
static clump_ep *ep;
static const char *how;
static jmp_buf before;

static void go(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
    if (strncmp(how, "exit", 4) == 0) exit(how[4] == '0' ? 0 : 7);
    if (strcmp(how, "abort") == 0) clump_abort(cl, 9, "it was asked to");
    if (strncmp(how, "longjmp", 7) == 0) longjmp(before, 1);
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL && argc >= 2);
    how = argv[1];
    int shared = argc > 2, me = clump_rank(cl), last = clump_nranks(cl) - 1;
    ep = shared ? clump_ep_open_shared(cl, 1) : clump_ep_open(cl, 1);
    OK(clump_ep_handler(ep, GO, go));
    int self = clump_ep_map(ep, clump_ep_name(ep), 1);
    if (me == last) {
        if (strcmp(how, "leave") == 0) return 0;
        if (strcmp(how, "abort0") == 0) clump_abort(NULL, 0, NULL);
        if (setjmp(before) == 0) {
            OK(clump_request(ep, self, GO));
            for (;;) OK(clump_poll(ep));
        }
        /* Only longjmp leads here. The endpoint is lost, and fails for ever; the rest works. */
        FAILS(CLUMP_ERR_IN_HANDLER, clump_poll(ep));
        FAILS(CLUMP_ERR_IN_HANDLER, clump_request(ep, self, GO));
        FAILS(CLUMP_ERR_BUSY, clump_ep_close(ep));
        FAILS(CLUMP_ERR_IN_HANDLER, clump_barrier(cl));
        FAILS(CLUMP_ERR_IN_HANDLER, clump_finalize(cl));
        printf("rank %d: still here\n", me);
        fflush(stdout);
        return 5;
    }
    int ended = clump_barrier(cl); /* in vain */
    EXPECT(ended == CLUMP_ERR_RANK_DIED && clump_error_depth() >= 1);
    return 4;
}
