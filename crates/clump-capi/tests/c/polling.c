/* A token around a ring of ranks that wait for it in a loop of their own, which polls: by
 * clump_poll_inline, or by clump_poll if there is an argument. */
#include "expect.h"

#define TAG 0x5eed
#define ROUNDS 100
enum { TOKEN = 1 };

static int seen;

static void token(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)d;
    EXPECT(n == 0 && len == 0);
    seen++;
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    const int rank = clump_rank(cl), nranks = clump_nranks(cl), by_call = argc > 1;
    clump_ep *ep = clump_ep_open(cl, TAG);
    EXPECT(ep != NULL && nranks <= 64);
    OK(clump_ep_handler(ep, TOKEN, token));
    clump_name mine = clump_ep_name(ep), names[64];
    OK(clump_all_gather(cl, &mine, sizeof mine, names));
    const int next = clump_ep_map(ep, names[(rank + 1) % nranks], TAG);
    OK(next);
    OK(clump_barrier(cl));
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0) OK(clump_request(ep, next, TOKEN));
        while (seen < round) OK(by_call ? clump_poll(ep) : clump_poll_inline(ep));
        EXPECT(seen == round);
        if (rank > 0) OK(clump_request(ep, next, TOKEN));
    }
    OK(clump_barrier(cl));
    if (rank == 0) puts("rank 0: the token went around");
    OK(clump_finalize(cl));
    return 0;
}
