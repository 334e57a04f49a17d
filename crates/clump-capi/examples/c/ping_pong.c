/* Ping-pong: rank 0 sends each other rank a thousand requests, and prints the time of a round trip.
 *
 *   clump-cc -O2 ping_pong.c -o ping_pong && clump run -n 2 --nodes 2 ./ping_pong
 */
#include <clump.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG 0x5eed
enum { PING = 1, PONG = 2, ROUNDS = 1000 };

static uint64_t seen;

static void ping(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    clump_reply(t, PONG, a[0] + 1);
}
static void pong(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)n, (void)d, (void)len;
    seen = a[0];
}
static int is_seen(void *wanted) { return seen == *(uint64_t *)wanted; }

/* Prints the error and exits on failure. */
static void check(int status) {
    if (status < 0) {
        fprintf(stderr, "%s\n", clump_error_text());
        exit(1);
    }
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    if (cl == NULL) check(clump_error());
    clump_ep *ep = clump_ep_open(cl, TAG); /* the tag is the right to send to it */
    if (ep == NULL) check(clump_error());
    check(clump_ep_handler(ep, PING, ping));
    check(clump_ep_handler(ep, PONG, pong));
    int nranks = clump_nranks(cl);
    clump_name *names = calloc((size_t)nranks, sizeof *names);
    if (names == NULL) return 1;
    check(clump_all_gather_u64(cl, clump_ep_name(ep), names)); /* all ranks' endpoints */

    if (clump_rank(cl) == 0) {
        for (int peer = 1; peer < nranks; peer++) {
            int dest = clump_ep_map(ep, names[peer], TAG);
            check(dest);
            uint64_t start = clump_wall_ns();
            for (uint64_t i = 1; i <= ROUNDS; i++) {
                uint64_t wanted = i + 1;
                check(clump_request(ep, dest, PING, i));
                check(clump_poll_until(ep, is_seen, &wanted));
            }
            printf("rank %d on node %d answers in %" PRIu64 " ns\n", peer, clump_node_of(cl, peer),
                   (clump_wall_ns() - start) / ROUNDS);
        }
    }
    check(clump_barrier(cl)); /* a rank that waits here replies meanwhile */
    free(names);
    return clump_finalize(cl) < 0;
}
