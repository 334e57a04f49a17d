/* Measures a round trip of a short message from C, and a put and a get within a node: run on two
 * ranks, by `cargo xtask c-speed`, which compares with Rust. */
#include <clump.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG 0x5eed
enum { PING = 1, PONG, BATCHES = 200, ROUNDS = 1000, WORDS = 512 };

static uint64_t seen, last;

static void ping(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    last = a[0];
    clump_reply(t, PONG, a[0]);
}
static void pong(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)n, (void)d, (void)len;
    seen = a[0];
}
static void check(int status) {
    if (status < 0) {
        fprintf(stderr, "%s\n", clump_error_text());
        exit(1);
    }
}
static int by_size(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
static double median(uint64_t *times, int count) {
    qsort(times, (size_t)count, sizeof *times, by_size);
    return (double)times[count / 2];
}

/* Puts and gets of words of its own node, beside plain stores and loads of the same words. */
static void words(clump_target *target) {
    volatile uint64_t *plain = clump_target_near(target, 0, WORDS * 8);
    uint64_t times[4][BATCHES], sum = 0, value = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = clump_wall_ns();
        for (int r = 0; r < 100; r++)
            for (uint64_t i = 0; i < WORDS; i++) clump_rma_put_u64(target, i * 8, i);
        uint64_t put = clump_wall_ns();
        for (int r = 0; r < 100; r++)
            for (uint64_t i = 0; i < WORDS; i++) plain[i] = i;
        uint64_t stored = clump_wall_ns();
        for (int r = 0; r < 100; r++)
            for (uint64_t i = 0; i < WORDS; i++) clump_rma_get_u64(target, i * 8, &value), sum += value;
        uint64_t got = clump_wall_ns();
        for (int r = 0; r < 100; r++)
            for (uint64_t i = 0; i < WORDS; i++) sum += plain[i];
        uint64_t loaded = clump_wall_ns();
        times[0][batch] = put - start, times[1][batch] = stored - put;
        times[2][batch] = got - stored, times[3][batch] = loaded - got;
    }
    double each = 100.0 * WORDS;
    fprintf(stderr, "put %.2f ns, plain store %.2f ns, get %.2f ns, plain load %.2f ns (%d)\n",
            median(times[0], BATCHES) / each, median(times[1], BATCHES) / each,
            median(times[2], BATCHES) / each, median(times[3], BATCHES) / each, (int)(sum & 1));
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    if (cl == NULL || clump_nranks(cl) != 2) {
        fprintf(stderr, "run it by clump run -n 2: %s\n", clump_error_text());
        return 1;
    }
    clump_ep *ep = clump_ep_open(cl, TAG);
    check(clump_ep_handler(ep, PING, ping));
    check(clump_ep_handler(ep, PONG, pong));
    clump_name names[2];
    check(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    clump_rma *rma = argc > 1 ? clump_rma_open(cl) : NULL;
    clump_target *all[2];
    if (rma != NULL && clump_allocate(cl, rma, WORDS * 8, all) == NULL) check(clump_error());
    check(clump_barrier(cl));
    if (clump_rank(cl) == 0) {
        int dest = clump_ep_map(ep, names[1], TAG);
        check(dest);
        uint64_t times[BATCHES], at = 0;
        for (int batch = 0; batch < BATCHES; batch++) {
            uint64_t start = clump_wall_ns();
            for (int i = 0; i < ROUNDS; i++) {
                check(clump_request(ep, dest, PING, ++at));
                while (seen != at) check(clump_poll(ep));
            }
            times[batch] = clump_wall_ns() - start;
        }
        printf("%.1f\n", median(times, BATCHES) / ROUNDS);
        check(clump_request(ep, dest, PING, UINT64_MAX));
    } else {
        while (last != UINT64_MAX) check(clump_poll(ep));
    }
    check(clump_barrier(cl));
    if (rma != NULL && clump_target_is_near(all[1]) && clump_rank(cl) == 0) words(all[1]);
    check(clump_barrier(cl));
    return clump_finalize(cl) < 0;
}
