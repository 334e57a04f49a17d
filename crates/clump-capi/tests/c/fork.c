/* Children by fork: they are no ranks. Nothing that they do, nor how they end, affects the job. */
#define _GNU_SOURCE
#include "expect.h"
#include <clump/am2.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAG = 0xf0, COUNT = 1, ANSWER = 2, FORKS = 3, ROUNDS = 400, EACH = 40 };

extern char **environ;

static clump_t *cl;
static clump_ep *ep, *shared;
static clump_rma *rma;
static clump_target *targets[64];
static clump_lock *mutex;
static eb_t bundle;
static ep_t classic;
static int me, ranks, dests[64], own, forks;
static uint64_t counted, answered;

static void unused(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
}

/* Every call fails in a child, with a text. */
static int calls(void) {
    uint64_t word = 1;
    FAILS(CLUMP_ERR_FORKED, clump_rank(cl));
    FAILS(CLUMP_ERR_FORKED, clump_barrier(cl));
    FAILS(CLUMP_ERR_FORKED, clump_all_gather_u64(cl, 1, &word));
    FAILS(CLUMP_ERR_FORKED, clump_poll(ep));
    FAILS(CLUMP_ERR_FORKED, clump_poll_inline(ep));
    FAILS(CLUMP_ERR_FORKED, clump_wait(ep));
    FAILS(CLUMP_ERR_FORKED, clump_drain(ep));
    for (int to = 0; to < ranks; to++) {
        FAILS(CLUMP_ERR_FORKED, clump_request(ep, dests[to], COUNT, word));
        FAILS(CLUMP_ERR_FORKED, clump_try_request(ep, dests[to], COUNT, word));
        FAILS(CLUMP_ERR_FORKED, clump_request_bulk(ep, dests[to], COUNT, &word, sizeof word));
        FAILS(CLUMP_ERR_FORKED, clump_rma_put_u64(targets[to], 0, 99));
        FAILS(CLUMP_ERR_FORKED, clump_rma_add_u64(targets[to], 0, 99));
        FAILS(CLUMP_ERR_FORKED, clump_rma_get_u64(targets[to], 0, &word));
    }
    FAILS(CLUMP_ERR_FORKED, clump_poll(shared));
    FAILS(CLUMP_ERR_FORKED, clump_request(shared, 0, COUNT, word));
    FAILS(CLUMP_ERR_FORKED, clump_rma_quiet(rma));
    FAILS(CLUMP_ERR_FORKED, clump_lock_release(mutex));
    FAILS(CLUMP_ERR_FORKED, clump_ep_handler(ep, COUNT, unused));
    FAILS(CLUMP_ERR_FORKED, clump_ep_close(ep));
    FAILS(CLUMP_ERR_FORKED, clump_rma_close(rma));
    FAILS(CLUMP_ERR_FORKED, clump_finalize(cl));
    NULLS(CLUMP_ERR_FORKED, clump_ep_open(cl, TAG));
    NULLS(CLUMP_ERR_FORKED, clump_init(NULL, NULL));
    EXPECT(AM_Poll(bundle) == AM_ERR_NOT_INIT && clump_error() == CLUMP_ERR_FORKED);
    EXPECT(AM_Request0(classic, 0, 1) == AM_ERR_NOT_INIT && clump_error() == CLUMP_ERR_FORKED);
    EXPECT(AM_FreeEndpoint(classic) == AM_ERR_NOT_INIT && AM_FreeBundle(bundle) == AM_ERR_NOT_INIT);
    EXPECT(AM_AllocateBundle(AM_SEQ, &bundle) == AM_ERR_NOT_INIT && clump_am_job() == NULL);
    EXPECT(AM_Init() == AM_ERR_NOT_INIT && AM_Terminate() == AM_ERR_NOT_INIT);
    EXPECT(strcmp(clump_strerror(CLUMP_ERR_FORKED), "a child by fork is no rank") == 0);
    return 0;
}

/* Ends of a child. Those below RETURNS end here. */
enum { EXIT, AT_ONCE, EXEC, NO_EXEC, CALLS, KILLED, RAW, RETURNS, ENDS };

static void end(int how) {
    if (how == AT_ONCE) _exit(0);
    if (how == EXEC) execlp("true", "true", (char *)NULL);
    if (how == NO_EXEC) execl("/nowhere/to/be/found", "it", (char *)NULL);
    if (how == CALLS) exit(calls());
    if (how == KILLED) abort();
    if (how != RETURNS) exit(0);
}

static void ended(pid_t child, int how) {
    int status = 0;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(how == KILLED ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Forks; returns 1 in a child that is to return from main. */
static int has_child(int how) {
    fflush(stdout);
    pid_t child = how == RAW ? (pid_t)syscall(SYS_fork) : fork();
    if (child == 0) {
        end(how);
        return 1;
    }
    ended(child, how);
    return 0;
}

static void count(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    counted += a[0];
    OK(clump_reply(t, ANSWER, a[0]));
}

static void answer(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)n, (void)d, (void)len;
    answered += a[0];
}

/* A child begins in the middle of a handler: it ends there, and its token is invalid. */
static void forks_here(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    pid_t child = fork();
    if (child == 0) {
        FAILS(CLUMP_ERR_FORKED, clump_reply(t, ANSWER, a[0]));
        FAILS(CLUMP_ERR_FORKED, clump_poll(shared));
        exit(0);
    }
    ended(child, EXIT);
    forks++;
}

static void open_all(void) {
    clump_name names[64];
    me = clump_rank(cl), ranks = clump_nranks(cl);
    EXPECT(ranks <= 64);
    ep = clump_ep_open(cl, TAG), shared = clump_ep_open_shared(cl, TAG), rma = clump_rma_open(cl);
    EXPECT(ep != NULL && shared != NULL && rma != NULL);
    OK(clump_ep_handler(ep, COUNT, count));
    OK(clump_ep_handler(ep, ANSWER, answer));
    OK(clump_ep_handler(ep, FORKS, forks_here));
    OK(clump_all_gather_u64(cl, clump_ep_name(ep), names));
    for (int to = 0; to < ranks; to++) dests[to] = clump_ep_map(ep, names[to], TAG);
    own = dests[me];
    EXPECT(clump_allocate(cl, rma, 64, targets) != NULL);
    clump_segment *locks = clump_locks_export(rma, 1);
    mutex = clump_lock_open(rma, clump_segment_name(locks), 0);
    OK(clump_lock_acquire(mutex));
    en_t name;
    EXPECT(AM_Init() == AM_OK && AM_AllocateBundle(AM_SEQ, &bundle) == AM_OK);
    EXPECT(AM_AllocateEndpoint(bundle, &classic, &name) == AM_OK && AM_Poll(bundle) == AM_OK);
    OK(clump_barrier(cl));
}

static void starts_programs(void) {
    char *const words[] = {(char *)"true", NULL};
    pid_t child = 0;
    EXPECT(system("true") == 0);
    FILE *pipe = popen("echo heard", "r");
    char heard[16] = "";
    EXPECT(pipe != NULL && fgets(heard, sizeof heard, pipe) != NULL && strcmp(heard, "heard\n") == 0);
    EXPECT(pclose(pipe) == 0);
    EXPECT(posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0);
    ended(child, EXIT);
    child = vfork();
    if (child == 0) {
        execvp("true", words);
        _exit(9);
    }
    ended(child, EXIT);
    OK(clump_rank(cl));
}

/* Messages from all ranks to all ranks, with children in between; returns 1 in one that returns
 * from main. */
static int storm(void) {
    uint64_t sent = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int to = 0; to < ranks; to++, sent++) OK(clump_request(ep, dests[to], COUNT, 1));
        if (round % EACH == me % EACH && has_child(round / EACH % ENDS)) return 1;
    }
    while (answered != sent || counted != sent) OK(clump_wait(ep));
    return 0;
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    open_all();
    if (argc > 1) {
        /* A child that outlives its rank, which the job does not wait for. */
        fflush(stdout);
        if (fork() == 0) for (;;) pause();
    } else {
        for (int how = 0; how < ENDS; how++)
            if (has_child(how)) return 0;
        starts_programs();
        OK(clump_request(ep, own, FORKS, 5));
        while (forks == 0) OK(clump_poll(ep));
        OK(clump_barrier(cl));
        if (storm()) return 0;
        /* Writes of children to memory affected only their own. */
        for (int to = 0; to < ranks; to++) {
            uint64_t word = 1;
            OK(clump_rma_get_u64(targets[to], 0, &word));
            EXPECT(word == 0);
        }
    }
    EXPECT(AM_Terminate() == AM_OK);
    OK(clump_lock_release(mutex));
    OK(clump_barrier(cl));
    OK(clump_finalize(cl));
    if (me == 0) puts("rank 0: children are right");
    return 0;
}
