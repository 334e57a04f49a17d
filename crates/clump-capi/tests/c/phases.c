/* Ends of phases: the requests that clump_drain waits for, and requests that are held back. */
#define _GNU_SOURCE
#include "expect.h"
#include <sched.h>

enum { TAG = 0xfa, SLOW = 1, COUNT = 2, ASK = 3, ANSWER = 4, LAST = 5, PHASES = 20, MESSAGES = 300 };

static clump_t *cl;
static clump_ep *ep;
static clump_target *targets[64];
static int dests[64], me, n;
static uint64_t counted, answered, early, phase = 1, lasts;

/* Records that it has begun, takes its time, and records that it ends. */
static void slow(clump_token *t, const uint64_t *a, int nwords, const void *d, size_t len) {
    (void)t, (void)nwords, (void)d, (void)len;
    OK(clump_rma_store_u64(targets[me], 0, a[0] * 2 + 1));
    for (int turn = 0; turn < 200; turn++) sched_yield();
    OK(clump_rma_store_u64(targets[me], 0, a[0] * 2 + 2));
}

static void count(clump_token *t, const uint64_t *a, int nwords, const void *d, size_t len) {
    (void)t, (void)nwords, (void)d, (void)len;
    counted++;
    if (a[0] != phase) early++;
}

static void ask(clump_token *t, const uint64_t *a, int nwords, const void *d, size_t len) {
    (void)nwords, (void)d, (void)len;
    OK(clump_reply(t, ANSWER, a[0]));
}

static void answer(clump_token *t, const uint64_t *a, int nwords, const void *d, size_t len) {
    (void)t, (void)a, (void)nwords, (void)d, (void)len;
    answered++;
}

static void last(clump_token *t, const uint64_t *a, int nwords, const void *d, size_t len) {
    (void)t, (void)a, (void)nwords, (void)d, (void)len;
    lasts++;
}

/* All requests have been handled, to their end, when clump_drain returns; clump_try_drain
 * agrees. */
static void drains(void) {
    for (int to = 0; to < n; to++) {
        for (uint64_t turn = 0; turn < 4; turn++) {
            uint64_t seen = 0, mark = (uint64_t)to * 100 + turn * 10 + 1;
            if (me == 0) {
                OK(clump_request(ep, dests[to], SLOW, mark));
                if (turn % 2 == 0) {
                    OK(clump_drain(ep));
                } else {
                    int drained = 0;
                    while (drained == 0) OK(drained = clump_try_drain(ep));
                    EXPECT(drained == 1);
                }
                OK(clump_rma_load_u64(targets[to], 0, &seen));
                EXPECT(seen == mark * 2 + 2);
                EXPECT(clump_try_drain(ep) == 1);
            }
            OK(clump_barrier(cl));
        }
    }
}

/* Drain and barrier end a phase: none of its messages is handled later, by a rank that holds
 * requests of the next one back while it is inside collectives. */
static void held_phases(void) {
    char payload[64] = "";
    for (phase = 1; phase <= PHASES; phase++) {
        uint64_t total = 1;
        for (int i = 0; i < MESSAGES; i++) {
            if (i % 3 != 0) {
                OK(clump_request(ep, dests[(me + i) % n], COUNT, phase));
                continue;
            }
            /* If there is space now; else as ever. */
            int sent = clump_try_request_bulk(ep, dests[(me + i) % n], COUNT, payload, sizeof payload, phase);
            OK(sent);
            if (sent == 0)
                OK(clump_request_bulk(ep, dests[(me + i) % n], COUNT, payload, sizeof payload, phase));
        }
        OK(clump_drain(ep));
        OK(clump_barrier(cl));
        EXPECT(counted == phase * MESSAGES && early == 0);
        OK(clump_ep_hold(ep));
        OK(clump_all_reduce(cl, &total, &total, 1, CLUMP_U64, CLUMP_SUM));
        EXPECT(total == (uint64_t)n);
        /* The first rank here continues with the next phase, whose messages reach others inside this
         * one. */
        OK(clump_all_reduce(cl, &total, &total, 1, CLUMP_U64, CLUMP_MAX));
        EXPECT(early == 0 && counted == phase * MESSAGES);
        OK(clump_ep_release(ep));
    }
    OK(clump_ep_release(ep));
    OK(clump_barrier(cl));
}

/* While requests are held replies are handled, and requests are not, in any call that polls. */
static void holds(void) {
    OK(clump_barrier(cl));
    if (me == 0) OK(clump_ep_hold(ep));
    OK(clump_barrier(cl));
    if (me != 0) {
        OK(clump_request(ep, dests[0], LAST));
        EXPECT(clump_try_drain(ep) == 0);
    }
    OK(clump_barrier(cl));
    if (me == 0) {
        for (int to = 1; to < n; to++) OK(clump_request(ep, dests[to], ASK, 1));
        while (answered != (uint64_t)n - 1) OK(clump_wait(ep));
        for (int turn = 0; turn < 1000; turn++) OK(clump_poll(ep) + clump_poll_inline(ep));
        OK(clump_drain(ep));
        EXPECT(lasts == 0);
    }
    OK(clump_all_gather_u64(cl, 1, (uint64_t[64]){0}));
    EXPECT(lasts == 0);
    if (me == 0) {
        OK(clump_ep_release(ep));
        while (lasts != (uint64_t)n - 1) OK(clump_wait(ep));
    } else {
        OK(clump_drain(ep));
    }
    OK(clump_barrier(cl));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    me = clump_rank(cl), n = clump_nranks(cl);
    clump_rma *rma = clump_rma_open(cl);
    ep = clump_ep_open(cl, TAG);
    EXPECT(n <= 64 && rma != NULL && ep != NULL && clump_allocate(cl, rma, 64, targets) != NULL);
    OK(clump_ep_handler(ep, SLOW, slow));
    OK(clump_ep_handler(ep, COUNT, count));
    OK(clump_ep_handler(ep, ASK, ask));
    OK(clump_ep_handler(ep, ANSWER, answer));
    OK(clump_ep_handler(ep, LAST, last));
    clump_name names[64];
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    for (int to = 0; to < n; to++) dests[to] = clump_ep_map(ep, names[to], TAG);
    OK(clump_barrier(cl));
    drains();
    held_phases();
    holds();
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_hold(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_release(NULL));
    OK(clump_barrier(cl));
    OK(clump_finalize(cl));
    printf("rank %d: phases are right\n", me);
    return 0;
}
