/* Parallel bundles and several threads: handlers that access each other's endpoints, threads that
 * wait for something other than messages, events that no thread has noticed, a bundle in the place
 * of another. */
#define _POSIX_C_SOURCE 200809L
#include "am2_world.h"
#include <pthread.h>

#define CROSS 1
#define ASK 2
#define ANSWER 3
#define COUNT 4

/* Two bundles with an endpoint each, for two threads. */
static struct side {
    eb_t eb;
    ep_t ep;
} sides[2];
static pthread_barrier_t inside;
static int crossed[2];

/* Both threads are in a handler of their endpoint, and access the other's. Neither waits for the
 * other. */
static void cross(void *token, int number) {
    (void)token;
    tag_t tag;
    uintptr_t bytes;
    void *address;
    ep_t other = sides[!number].ep;
    pthread_barrier_wait(&inside);
    GIVES(AM_ERR_IN_USE, AM_GetTag(other, &tag));
    GIVES(AM_ERR_IN_USE, AM_SetTag(other, 9));
    GIVES(AM_ERR_IN_USE, AM_GetSeg(other, &address, &bytes));
    GIVES(AM_ERR_IN_USE, AM_SetSeg(other, &crossed, sizeof crossed));
    GIVES(AM_ERR_IN_USE, AM_SetHandler(other, CROSS, cross));
    OK(AM_GetTag(sides[number].ep, &tag));
    EXPECT(tag == WORLD_TAG);
    pthread_barrier_wait(&inside);
    crossed[number] = 1;
}

static void *run_cross(void *it) {
    struct side *side = (struct side *)it;
    while (!crossed[side - sides]) OK(AM_Poll(side->eb));
    return NULL;
}

static void crossing(void) {
    EXPECT(pthread_barrier_init(&inside, NULL, 2) == 0);
    for (int number = 0; number < 2; number++) {
        en_t name;
        OK(AM_AllocateBundle(AM_PAR, &sides[number].eb));
        OK(AM_AllocateEndpoint(sides[number].eb, &sides[number].ep, &name));
        OK(AM_SetTag(sides[number].ep, WORLD_TAG));
        OK(AM_SetHandler(sides[number].ep, CROSS, cross));
        OK(AM_Map(ep, ranks + number, name, WORLD_TAG));
        OK(AM_Request1(ep, ranks + number, CROSS, number));
    }
    pthread_t threads[2];
    for (int at = 0; at < 2; at++) EXPECT(pthread_create(&threads[at], NULL, run_cross, &sides[at]) == 0);
    for (int at = 0; at < 2; at++) EXPECT(pthread_join(threads[at], NULL) == 0);
    for (int at = 0; at < 2; at++) {
        OK(AM_UnMap(ep, ranks + at));
        OK(AM_FreeBundle(sides[at].eb));
    }
    pthread_barrier_destroy(&inside);
}

/* A thread that has used the bundle waits in a collective: it handles messages meanwhile, though it
 * did not make the bundle, and no other thread polls it. */
static int answered;

static void ask(void *token) { OK(AM_Reply0(token, ANSWER)); }
static void answer(void *token) {
    (void)token;
    __atomic_store_n(&answered, 1, __ATOMIC_RELAXED);
}

static void *wait_elsewhere(void *unused) {
    OK(AM_Poll(eb));
    /* All ranks come here; the last one only when all others have replied to it. */
    if (me == ranks - 1)
        for (int rank = 0; rank < ranks - 1; rank++) {
            __atomic_store_n(&answered, 0, __ATOMIC_RELAXED);
            OK(AM_Request0(ep, rank, ASK));
            while (!__atomic_load_n(&answered, __ATOMIC_RELAXED)) OK(AM_Poll(eb));
        }
    EXPECT(clump_barrier(job) == 0);
    return unused;
}

static void collectives_of_other_threads(void) {
    pthread_t thread;
    EXPECT(clump_barrier(job) == 0);
    EXPECT(pthread_create(&thread, NULL, wait_elsewhere, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

/* Events belong to a bundle: those of a freed one do not count for the next in its place. */
static int counted;

static void count(void *token) {
    (void)token;
    __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
}

static eb_t fresh;
static ep_t fresh_ep;

static void count_three(eb_t bundle, ep_t to) {
    int before = __atomic_load_n(&counted, __ATOMIC_RELAXED);
    en_t name;
    OK(clump_am_name(to, &name));
    OK(AM_Map(ep, ranks, name, WORLD_TAG));
    for (int at = 0; at < 3; at++) OK(AM_Request0(ep, ranks, COUNT));
    OK(AM_UnMap(ep, ranks));
    while (__atomic_load_n(&counted, __ATOMIC_RELAXED) < before + 3) OK(AM_Poll(bundle));
}

static void *count_elsewhere(void *unused) {
    count_three(fresh, fresh_ep);
    return unused;
}

static void open_fresh(int with_other) {
    eb_t other = NULL;
    ep_t taken;
    OK(AM_AllocateBundle(AM_PAR, &fresh));
    if (with_other) {
        OK(AM_AllocateBundle(AM_SEQ, &other));
        OK(AM_AllocateEndpoint(other, &taken, NULL));
    }
    OK(AM_AllocateEndpoint(fresh, &fresh_ep, NULL));
    OK(AM_SetTag(fresh_ep, WORLD_TAG));
    OK(AM_SetHandler(fresh_ep, COUNT, count));
    OK(AM_SetEventMask(fresh, AM_NOTEMPTY));
    if (with_other) OK(AM_FreeBundle(other));
}

static void places_are_used_again(void) {
    open_fresh(0);
    count_three(fresh, fresh_ep);
    OK(AM_FreeBundle(fresh));
    /* Its endpoint is another one, so that both have counted the same. */
    open_fresh(1);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, count_elsewhere, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    /* Three events that this thread has not noticed. */
    OK(AM_WaitSema(fresh));
    /* One that it has not noticed, though an endpoint with as many messages came and one went. */
    ep_t moved = fresh_ep;
    eb_t elsewhere;
    OK(AM_AllocateBundle(AM_PAR, &elsewhere));
    OK(AM_MoveEndpoint(moved, fresh, elsewhere));
    OK(AM_AllocateEndpoint(fresh, &fresh_ep, NULL));
    OK(AM_SetTag(fresh_ep, WORLD_TAG));
    OK(AM_SetHandler(fresh_ep, COUNT, count));
    EXPECT(pthread_create(&thread, NULL, count_elsewhere, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    OK(AM_WaitSema(fresh));
    OK(AM_FreeBundle(fresh));
    OK(AM_FreeBundle(elsewhere));
}

/* A returned message without a handler 0 is reported once, by the thread that finds it. */
static int told;

static void *find(void *unused) {
    while (!__atomic_load_n(&told, __ATOMIC_RELAXED)) {
        clump_error_clear();
        int got = AM_Poll(eb);
        if (got == AM_OK) continue;
        EXPECT(got == AM_ERR_NOT_SENT && strstr(clump_error_text(), "handler 77") != NULL);
        EXPECT(__atomic_add_fetch(&told, 1, __ATOMIC_RELAXED) == 1);
    }
    return unused;
}

static void told_once(void) {
    for (int round = 0; round < 50; round++) {
        pthread_t threads[3];
        told = 0;
        for (int at = 0; at < 3; at++) EXPECT(pthread_create(&threads[at], NULL, find, NULL) == 0);
        int sent = AM_Request0(ep, me, 77);
        if (sent == AM_ERR_NOT_SENT) __atomic_add_fetch(&told, 1, __ATOMIC_RELAXED);
        for (int at = 0; at < 3; at++) EXPECT(pthread_join(threads[at], NULL) == 0);
        EXPECT(told == 1);
    }
}

static void set_handlers(void) {
    OK(AM_SetHandler(ep, ASK, ask));
    OK(AM_SetHandler(ep, ANSWER, answer));
}

int main(void) {
    world_begin(AM_PAR, set_handlers);
    crossing();
    collectives_of_other_threads();
    places_are_used_again();
    told_once();
    world_end();
    return 0;
}
