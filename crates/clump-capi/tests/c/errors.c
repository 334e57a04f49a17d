/* Errors that take more than a wrong argument: settings, the system, ranks that finalize or die,
 * nodes that are lost, messages returned for other reasons than a wrong address, peers that write
 * invalid data. The first argument selects one; the test starts each as it needs. */
#define _POSIX_C_SOURCE 200809L
#include "expect.h"
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define TAG 0x5eed
enum { TAKE = 1, ANSWER, FAIL };

static clump_t *cl;
static int rank, nranks;
static int taken, back, reason, was_reply;

static void returned(const clump_returned *m) {
    reason = m->reason, was_reply = m->is_reply;
    back++;
}
static void take(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
    taken++;
}
static void answer(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)n, (void)d, (void)len;
    OK(clump_reply(t, TAKE, 1));
    taken++;
}
static void fail(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)a, (void)n, (void)d, (void)len;
    taken++;
    OK(clump_token_fail(t, "it was planned"));
}
static clump_ep *with_handlers(clump_ep *ep) {
    EXPECT(ep != NULL);
    OK(clump_ep_handler(ep, TAKE, take));
    OK(clump_ep_handler(ep, ANSWER, answer));
    OK(clump_ep_on_returned(ep, returned, NULL));
    return ep;
}
static int map(clump_ep *from, clump_ep *to) {
    int dest = clump_ep_map(from, clump_ep_name(to), TAG);
    EXPECT(dest >= 0);
    return dest;
}
static int is_back(void *times) { return back >= *(int *)times; }
static void until_back(clump_ep *ep, int times, int why, int reply) {
    OK(clump_poll_until(ep, is_back, &times));
    EXPECT(back == times && reason == why && was_reply == reply);
}
static void goes_on(void) {
    printf("rank %d goes on\n", rank);
    fflush(stdout);
}

/* Only errors, before there is a job and after one could not be joined. */
static void not_running(void) {
    uint64_t all[1];
    FAILS(CLUMP_ERR_ARGUMENT, clump_barrier(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_finalize(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_all_gather_u64(NULL, 1, all));
    FAILS(CLUMP_ERR_ARGUMENT, clump_poll(NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_ep_open(NULL, TAG));
    NULLS(CLUMP_ERR_ARGUMENT, clump_rma_open(NULL));
}

/* An invalid setting: the text names it. */
static void setting(void) {
    not_running();
    NULLS(CLUMP_ERR_SETTING, clump_init(NULL, NULL));
    EXPECT(strstr(clump_error_text(), "CLUMP_SEND_TIMEOUT_MS") && strstr(clump_error_text(), "soon"));
    not_running();
}

/* No file can be opened any more. */
static void no_files(void) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
    NULLS(CLUMP_ERR_SYSTEM, clump_init(NULL, NULL));
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    not_running();
}

/* Memory is there, but none of it can be allocated. */
static void no_memory(void) {
    clump_rma *rma = clump_rma_open(cl);
    EXPECT(rma != NULL);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_AS, &limit) == 0 && setrlimit(RLIMIT_AS, &none) == 0);
    clump_error_clear();
    const void *segment = clump_segment_export(rma, 1 << 20, 0);
    EXPECT(segment == NULL && clump_error() == CLUMP_ERR_SYSTEM && clump_error_text()[0] != '\0');
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    EXPECT(clump_segment_export(rma, 1 << 20, 0) != NULL);
}

/* The last rank finalizes; the others wait for it in vain, and get an error. */
static void left(void) {
    if (rank == nranks - 1) return;
    FAILS(CLUMP_ERR_RANK_LEFT, clump_barrier(cl));
    goes_on();
}

/* Messages returned although their address was right. */
static void comes_back(void) {
    clump_ep *ep = with_handlers(clump_ep_open(cl, TAG));
    /* Calls on others do not poll a shared endpoint. */
    clump_ep *sink = with_handlers(clump_ep_open_shared(cl, TAG));
    int dest = map(ep, sink), sent = 0;
    while (back == 0) OK(clump_request(ep, dest, TAKE, sent++));
    until_back(ep, 1, CLUMP_RETURNED_CONGESTION, 0);
    while (taken < sent - 1) OK(clump_poll(sink));
    OK(clump_request(ep, dest, TAKE, 1));
    OK(clump_ep_close(sink));
    until_back(ep, 2, CLUMP_RETURNED_ENDPOINT_GONE, 0);
    OK(clump_ep_unmap(ep, dest));
    /* A requester that does not wait for its reply: it closes before it gets it, or before it is
     * sent. */
    for (int late = 0; late < 2; late++) {
        clump_ep *asker = with_handlers(clump_ep_open_shared(cl, TAG));
        int before = back;
        taken = 0;
        OK(clump_request(asker, map(asker, ep), ANSWER));
        while (!late && taken == 0) OK(clump_poll(ep));
        OK(clump_ep_close(asker));
        until_back(ep, before + 1, CLUMP_RETURNED_REPLY_REJECTED, 1);
        EXPECT(taken == 1);
    }
    OK(clump_ep_close(ep));
    puts("rank 0 goes on");
}

/* Rank 2 of four, the first of the other node, dies while it holds a lock; the job continues. */
static void deaths(void) {
    clump_ep *ep = with_handlers(clump_ep_open(cl, TAG));
    clump_name names[4];
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    int dest = clump_ep_map(ep, names[2], TAG);
    clump_rma *rma = clump_rma_open(cl);
    clump_target *all[4];
    clump_segment *locks = clump_locks_export(rma, 1);
    EXPECT(clump_allocate(cl, rma, 4096, all) != NULL && locks != NULL);
    clump_segment_id homes[4];
    OK(clump_all_gather_u64(cl, clump_segment_name(locks), homes));
    clump_lock *lock = clump_lock_open(rma, homes[3], 0);
    EXPECT(lock != NULL);
    uint64_t seen = 0;
    if (rank == 2) OK(clump_lock_acquire(lock));
    OK(clump_barrier(cl));
    if (rank == 2) {
        /* The others have left the barrier. */
        OK(clump_rma_wait_until_u64(all[2], 0, CLUMP_EQUAL, 3, NULL));
        kill(getpid(), SIGKILL);
    }
    OK(clump_rma_signal(all[2], 0, 1, 1));
    FAILS(CLUMP_ERR_HOLDER_DIED, clump_lock_acquire(lock));
    /* Its memory on its own node is there as long as a process has it mapped. */
    if (!clump_target_is_near(all[2])) {
        int got;
        while ((got = clump_rma_get(all[2], 8, &seen, 8)) == 0) {}
        EXPECT(got == CLUMP_ERR_OWNER_DIED && clump_error() == got);
        FAILS(CLUMP_ERR_OWNER_DIED, clump_rma_get(all[2], 8, &seen, 8));
    }
    OK(clump_rma_get(all[3], 8, &seen, 8));
    while (back == 0) {
        OK(clump_request(ep, dest, TAKE, 1));
        OK(clump_poll(ep));
    }
    EXPECT(reason == CLUMP_RETURNED_PEER_LOST);
    goes_on();
    /* Rank 3 serves the others until they have all seen that. */
    OK(clump_rma_signal(all[3], 16, 1, 1));
    if (rank == 3) OK(clump_rma_wait_until_u64(all[3], 16, CLUMP_EQUAL, 3, NULL));
    OK(clump_rma_quiet(rma));
}

/* The node of the last rank is lost, once rank 0 has made the file. */
static void lost(const char *folder) {
    clump_rma *rma = clump_rma_open(cl);
    clump_target *all[2];
    EXPECT(clump_allocate(cl, rma, 4096, all) != NULL);
    clump_segment *locks = clump_locks_export(rma, 1);
    clump_segment_id homes[2];
    OK(clump_all_gather_u64(cl, clump_segment_name(locks), homes));
    clump_lock *lock = clump_lock_open(rma, homes[1], 0);
    uint64_t value = 0;
    if (rank == 1) {
        OK(clump_rma_wait_until_u64(all[1], 0, CLUMP_EQUAL, 77, NULL));
        return;
    }
    OK(clump_rma_get(all[1], 0, &value, 8));
    char path[4096];
    snprintf(path, sizeof path, "%s/ready-0", folder);
    FILE *ready = fopen(path, "w");
    EXPECT(ready != NULL && fclose(ready) == 0);
    int got;
    while ((got = clump_rma_get(all[1], 8, &value, 8)) == 0) {}
    EXPECT(got == CLUMP_ERR_NODE_LOST && clump_error() == got && clump_error_text()[0] != '\0');
    FAILS(CLUMP_ERR_NODE_LOST, clump_rma_put_u64(all[1], 0, 5));
    FAILS(CLUMP_ERR_NODE_LOST, clump_lock_acquire(lock));
    goes_on();
}

/* A peer writes into a lane what no clump writes: a message of an unknown kind. */
static void rubbish(void) {
    clump_ep *from = with_handlers(clump_ep_open(cl, TAG));
    clump_ep *to = with_handlers(clump_ep_open_shared(cl, TAG));
    int dest = map(from, to);
    OK(clump_request(from, dest, TAKE, 1));
    while (taken == 0) OK(clump_poll(to));
    OK(clump_request(from, dest, TAKE, 2));
    const clump_layout_way *way = &((const clump_layout_ep *)(const void *)from)->ways[dest];
    EXPECT(way->cursor != NULL && way->cursor->at == 2);
    __atomic_fetch_or(&way->slots[1].header, (uint64_t)0xf << 16, __ATOMIC_RELAXED);
    FAILS(CLUMP_ERR_DAMAGED, clump_poll(to));
    FAILS(CLUMP_ERR_DAMAGED, clump_poll(to));
    EXPECT(taken == 1);
    puts("rank 0 goes on");
}

/* A handler of the last rank fails in a collective, and nothing asks: clump_finalize returns it. */
static void unasked(void) {
    clump_ep *ep = clump_ep_open(cl, TAG);
    EXPECT(ep != NULL);
    OK(clump_ep_handler(ep, FAIL, fail));
    clump_name names[2];
    EXPECT(nranks == 2);
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    if (rank == 0) OK(clump_request(ep, clump_ep_map(ep, names[1], TAG), FAIL));
    uint64_t all[2] = {0, 0};
    /* A collective of a result keeps the failure. */
    while (all[1] == 0) OK(clump_all_gather_u64(cl, (uint64_t)taken, all));
    if (rank == 1) {
        FAILS(CLUMP_ERR_HANDLER_FAILED, clump_finalize(cl));
        EXPECT(strstr(clump_error_text(), "it was planned") != NULL);
        /* All is closed, and it is reported once. */
        FAILS(CLUMP_ERR_NOT_RUNNING, clump_finalize(cl));
    } else {
        OK(clump_finalize(cl));
    }
    goes_on();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "setting") == 0) return setting(), puts("rank 0 goes on") < 0;
    if (strcmp(how, "files") == 0) return no_files(), puts("rank 0 goes on") < 0;
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl), nranks = clump_nranks(cl);
    if (strcmp(how, "unasked") == 0) return unasked(), 0;
    if (strcmp(how, "memory") == 0) no_memory(), goes_on();
    else if (strcmp(how, "left") == 0) left();
    else if (strcmp(how, "back") == 0) comes_back();
    else if (strcmp(how, "deaths") == 0) deaths();
    else if (strcmp(how, "lost") == 0) lost(argv[2]);
    else if (strcmp(how, "rubbish") == 0) rubbish();
    else EXPECT(!"a kind of error");
    OK(clump_finalize(cl));
    return 0;
}
