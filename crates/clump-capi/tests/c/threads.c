/* The threads that may use an object: all for shared endpoints, its own for others; and the end of
 * a thread. */
#define _POSIX_C_SOURCE 200809L
#include "expect.h"
#include <pthread.h>

enum { COUNT = 1, COUNTED, CROSS, THREADS = 4, EACH = 200 };

static clump_t *cl;
static clump_ep *shared, *alone;
static clump_rma *rma;
static int next, rank;
static uint64_t counted, answered;
static pthread_barrier_t meet;

static void count(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    __atomic_fetch_add(&counted, a[0], __ATOMIC_RELAXED);
    FAILS(CLUMP_ERR_IN_HANDLER, clump_poll(shared));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_request(shared, next, COUNT, 1));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_wait(shared));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_barrier(cl));
    FAILS(CLUMP_ERR_IN_HANDLER, clump_finalize(cl));
    FAILS(CLUMP_ERR_BUSY, clump_ep_close(shared));
    OK(clump_reply(t, COUNTED));
}
static void counted_there(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
    __atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED);
}
static int all_answered(void *unused) {
    (void)unused;
    return __atomic_load_n(&answered, __ATOMIC_RELAXED) == THREADS * EACH;
}

/* Only calls on a shared endpoint poll it; others may need it while this rank's threads wait. */
static int over;
static int is_over(void *unused) {
    (void)unused;
    return __atomic_load_n(&over, __ATOMIC_RELAXED);
}
static void *serve(void *unused) {
    OK(clump_poll_until(shared, is_over, NULL));
    return unused;
}

static int all_counted(void *unused) {
    (void)unused;
    return __atomic_load_n(&counted, __ATOMIC_RELAXED) == THREADS * EACH;
}

static void *work(void *mine) {
    EXPECT(clump_error() == CLUMP_OK); /* failures of other threads are not this one's */
    FAILS(CLUMP_ERR_THREAD, clump_poll(alone));
    FAILS(CLUMP_ERR_THREAD, clump_poll_inline(alone));
    FAILS(CLUMP_ERR_THREAD, clump_request(alone, 0, COUNT, 1));
    FAILS(CLUMP_ERR_THREAD, clump_ep_close(alone));
    FAILS(CLUMP_ERR_THREAD, clump_rma_quiet(rma));
    FAILS(CLUMP_ERR_THREAD, clump_rma_close(rma));
    EXPECT(clump_rank(cl) == rank);
    for (int i = 0; i < EACH; i++) OK(clump_request(shared, next, COUNT, 1));
    OK(clump_poll_until(shared, all_answered, NULL));
    /* Objects of its own, which it leaves open: they are closed when it ends. */
    *(clump_ep **)mine = clump_ep_open(cl, 1);
    clump_rma *own = clump_rma_open(cl);
    clump_segment *segment = clump_segment_export(own, 4096, 0);
    EXPECT(*(clump_ep **)mine != NULL && clump_target_open(own, clump_segment_name(segment)) != NULL);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    return NULL;
}

/* Calls of a thread on objects of another are refused, and leave no trace there: `clump_ep_close`
 * would fail. */
static int stop;
static void *intrude(void *ep) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) FAILS(CLUMP_ERR_THREAD, clump_poll((clump_ep *)ep));
    return NULL;
}
static void intruders(void) {
    pthread_t threads[2];
    clump_ep *mine = clump_ep_open(cl, 5);
    EXPECT(mine != NULL);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, intrude, mine);
    for (int i = 0; i < 3000; i++) OK(clump_poll(mine));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    OK(clump_ep_close(mine));
}

/* Handlers of two shared endpoints, in two threads, that send through each other's: both would wait
 * for ever, but the second gets an error. */
static struct crossing {
    clump_ep *ep;
    int to_other, to_itself;
} crossings[2];
static int sent, refused, crossed;
static void cross(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)n, (void)d, (void)len;
    const struct crossing *other = &crossings[1 - a[0]];
    EXPECT(clump_token_context(t) == &crossings[a[0]]);
    pthread_barrier_wait(&meet);
    clump_error_clear();
    int got = clump_request(other->ep, other->to_other, COUNT);
    EXPECT(got == 0 || (got == CLUMP_ERR_BUSY && strstr(clump_error_text(), "neither would ever return")));
    __atomic_fetch_add(got == 0 ? &sent : &refused, 1, __ATOMIC_RELAXED);
}
static void crossed_over(clump_token *t, const uint64_t *a, int n, const void *d, size_t len) {
    (void)t, (void)a, (void)n, (void)d, (void)len;
    __atomic_fetch_add(&crossed, 1, __ATOMIC_RELAXED);
}
static int is_crossed(void *unused) {
    (void)unused;
    return __atomic_load_n(&crossed, __ATOMIC_RELAXED) == 1;
}
static void *go_across(void *crossing) {
    const struct crossing *own = crossing;
    OK(clump_request(own->ep, own->to_itself, CROSS, (uint64_t)(own - crossings)));
    OK(clump_poll_until(own->ep, is_crossed, NULL));
    return NULL;
}
static void crossing_handlers(void) {
    for (int i = 0; i < 2; i++) {
        crossings[i].ep = clump_ep_open_shared(cl, 4);
        EXPECT(crossings[i].ep != NULL);
        OK(clump_ep_handler_with(crossings[i].ep, CROSS, cross, &crossings[i]));
        OK(clump_ep_handler(crossings[i].ep, COUNT, crossed_over));
    }
    for (int i = 0; i < 2; i++) {
        crossings[i].to_itself = clump_ep_map(crossings[i].ep, clump_ep_name(crossings[i].ep), 4);
        crossings[i].to_other = clump_ep_map(crossings[i].ep, clump_ep_name(crossings[1 - i].ep), 4);
        EXPECT(crossings[i].to_itself >= 0 && crossings[i].to_other >= 0);
    }
    pthread_t threads[2];
    pthread_barrier_init(&meet, NULL, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, go_across, &crossings[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    EXPECT(sent == 1 && refused == 1 && crossed == 1);
    for (int i = 0; i < 2; i++) OK(clump_ep_close(crossings[i].ep));
    pthread_barrier_destroy(&meet);
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl);
    shared = clump_ep_open_shared(cl, 3), alone = clump_ep_open(cl, 3), rma = clump_rma_open(cl);
    EXPECT(shared && alone && rma);
    OK(clump_ep_handler(shared, COUNT, count));
    OK(clump_ep_handler(shared, COUNTED, counted_there));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_set_events(shared, CLUMP_EVENTS_NONE));
    FAILS(CLUMP_ERR_ARGUMENT, clump_ep_handler(shared, COUNT, NULL));
    uint64_t *names = calloc((size_t)clump_nranks(cl), 8);
    OK(clump_all_gather_u64(cl, clump_ep_name(shared), names));
    next = clump_ep_map(shared, names[(rank + 1) % clump_nranks(cl)], 3);
    free(names);
    intruders();
    crossing_handlers();
    pthread_barrier_init(&meet, NULL, THREADS + 1);
    pthread_t threads[THREADS], server;
    clump_ep *theirs[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &theirs[i]);
    pthread_create(&server, NULL, serve, NULL);
    pthread_barrier_wait(&meet);
    FAILS(CLUMP_ERR_BUSY, clump_finalize(cl)); /* threads have objects open */
    for (int i = 0; i < THREADS; i++) FAILS(CLUMP_ERR_THREAD, clump_poll(theirs[i]));
    OK(clump_poll_until(shared, all_counted, NULL));
    OK(clump_drain(shared));
    OK(clump_barrier(cl));
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(server, NULL);
    pthread_barrier_wait(&meet);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) FAILS(CLUMP_ERR_HANDLE, clump_poll(theirs[i]));
    EXPECT(counted == THREADS * EACH && answered == THREADS * EACH);
    OK(clump_finalize(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_poll(shared));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_poll(theirs[0]));
    printf("rank %d: threads are right\n", rank);
    return 0;
}
