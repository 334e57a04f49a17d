/* Bundles and threads: one bundle for many threads (AM_PAR), one for each (AM_SEQ), endpoints that
 * move between them, threads that wait for events. */
#include "am2_world.h"
#include <pthread.h>

#define THREADS 4
#define EACH_SENDS 500

#define ASK 1
#define ANSWER 2
#define COUNT 3

/* A thread's own endpoint in the shared bundle, or in one of its own. */
static struct worker {
    eb_t eb;
    ep_t ep;
    en_t *names; /* of the workers of that number of all ranks, by rank */
    int number;
    int asked, answered;
    int next;
} workers[THREADS];

static struct worker *worker_of(void *token) {
    ep_t at;
    OK(AM_GetDestEndpoint(token, &at));
    for (int number = 0; number < THREADS; number++) {
        if (workers[number].ep == at) return &workers[number];
    }
    EXPECT(!"an endpoint of a worker");
    return NULL;
}

static void ask(void *token, int number, int value) {
    struct worker *worker = worker_of(token);
    EXPECT(worker->number == number);
    __atomic_add_fetch(&worker->asked, 1, __ATOMIC_RELAXED);
    OK(AM_Reply1(token, ANSWER, value + 1));
}

static void answer(void *token, int value) {
    struct worker *worker = worker_of(token);
    /* Handlers of one endpoint run one at a time. */
    EXPECT(value == worker->answered + 1);
    __atomic_store_n(&worker->answered, value, __ATOMIC_RELAXED);
}

static int answered(struct worker *worker) { return __atomic_load_n(&worker->answered, __ATOMIC_RELAXED); }

static void nothing_comes_back(int status, op_t opcode, void *token) {
    (void)token;
    fprintf(stderr, "rank %d: a message came back: status %d, opcode %d\n", me, status, opcode);
    exit(3);
}

static void set_handlers(void) {}

static void open_workers(int shared) {
    for (int number = 0; number < THREADS; number++) {
        struct worker *worker = &workers[number];
        worker->number = number;
        worker->eb = eb;
        worker->asked = worker->answered = 0;
        if (!shared) OK(AM_AllocateBundle(AM_SEQ, &worker->eb));
        OK(AM_SetEventMask(worker->eb, AM_NOTEMPTY));
        en_t name;
        OK(AM_AllocateEndpoint(worker->eb, &worker->ep, &name));
        OK(AM_SetTag(worker->ep, WORLD_TAG + (tag_t)number));
        OK(AM_SetHandler(worker->ep, 0, nothing_comes_back));
        OK(AM_SetHandler(worker->ep, ASK, ask));
        OK(AM_SetHandler(worker->ep, ANSWER, answer));
        worker->names = (en_t *)calloc((size_t)ranks, sizeof name);
        EXPECT(worker->names && clump_all_gather(job, &name, sizeof name, worker->names) == 0);
        for (int rank = 0; rank < ranks; rank++)
            OK(AM_Map(worker->ep, rank, worker->names[rank], WORLD_TAG + (tag_t)number));
    }
    EXPECT(clump_barrier(job) == 0);
}

/* The thread of a worker: sends its requests, and polls until all ranks have sent theirs. */
static void *work(void *it) {
    struct worker *worker = (struct worker *)it;
    for (int value = 0; value < EACH_SENDS; value++) {
        OK(AM_Request2(worker->ep, (me + value) % ranks, ASK, worker->number, value));
        while (answered(worker) != value + 1) OK(value % 2 ? AM_WaitSema(worker->eb) : AM_Poll(worker->eb));
    }
    /* Replies to others until all are done: as many requests come as this worker sent. */
    while (__atomic_load_n(&worker->asked, __ATOMIC_RELAXED) < EACH_SENDS) OK(AM_Poll(worker->eb));
    return NULL;
}

static void run_workers(int shared) {
    open_workers(shared);
    pthread_t threads[THREADS];
    for (int number = 0; number < THREADS; number++)
        EXPECT(pthread_create(&threads[number], NULL, work, &workers[number]) == 0);
    for (int number = 0; number < THREADS; number++) EXPECT(pthread_join(threads[number], NULL) == 0);
    EXPECT(clump_barrier(job) == 0);
    for (int number = 0; number < THREADS; number++) {
        EXPECT(workers[number].asked == EACH_SENDS && workers[number].answered == EACH_SENDS);
        free(workers[number].names);
        OK(shared ? AM_FreeEndpoint(workers[number].ep) : AM_FreeBundle(workers[number].eb));
    }
}

/* Threads that all send from one endpoint and handle each other's messages. */
static int counted, woken;

static void count(void *token, int by) {
    (void)token;
    __atomic_add_fetch(&counted, by, __ATOMIC_RELAXED);
}

static void *send_counts(void *unused) {
    for (int at = 0; at < EACH_SENDS; at++) OK(AM_Request1(ep, (me + at) % ranks, COUNT, 1));
    while (__atomic_load_n(&counted, __ATOMIC_RELAXED) < THREADS * EACH_SENDS) OK(AM_Poll(eb));
    return unused;
}

static void share_one_endpoint(void) {
    OK(AM_SetHandler(ep, COUNT, count));
    EXPECT(clump_barrier(job) == 0);
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) EXPECT(pthread_create(&threads[at], NULL, send_counts, NULL) == 0);
    for (int at = 0; at < THREADS; at++) EXPECT(pthread_join(threads[at], NULL) == 0);
    EXPECT(counted == THREADS * EACH_SENDS);
    EXPECT(clump_barrier(job) == 0);
}

/* A thread that waits in a bundle while another handles its message, or sends it one. */
static void *wait_for_event(void *unused) {
    OK(AM_WaitSema(eb));
    __atomic_store_n(&woken, 1, __ATOMIC_RELAXED);
    return unused;
}

static void events(void) {
    int mask;
    OK(AM_SetEventMask(eb, AM_NOEVENTS));
    OK(AM_GetEventMask(eb, &mask));
    EXPECT(mask == AM_NOEVENTS);
    GIVES(AM_ERR_BAD_ARG, AM_WaitSema(eb));
    OK(AM_SetEventMask(eb, AM_NOTEMPTY));
    OK(AM_GetEventMask(eb, &mask));
    EXPECT(mask == AM_NOTEMPTY);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, wait_for_event, NULL) == 0);
    /* Sent until it has begun to wait, at an unknown time. */
    while (!__atomic_load_n(&woken, __ATOMIC_RELAXED)) OK(AM_Request1(ep, me, COUNT, 1));
    EXPECT(pthread_join(thread, NULL) == 0);
    /* Messages that were sent while it ended. */
    OK(AM_Poll(eb));
    EXPECT(clump_barrier(job) == 0);
}

/* An endpoint that moves from bundle to bundle, and from thread to thread, with all its state. */
static void *poll_moved(void *it) {
    struct worker *worker = (struct worker *)it;
    OK(AM_Request2(worker->ep, me, ASK, 0, worker->answered));
    while (answered(worker) != worker->next) OK(AM_WaitSema(worker->eb));
    return NULL;
}

static void moves(void) {
    eb_t bundles[3];
    struct worker *worker = &workers[0];
    open_workers(1);
    char memory[10];
    OK(AM_SetSeg(worker->ep, memory, sizeof memory));
    for (int at = 0; at < 3; at++) {
        OK(AM_AllocateBundle(at == 1 ? AM_PAR : AM_SEQ, &bundles[at]));
        OK(AM_SetEventMask(bundles[at], AM_NOTEMPTY));
    }
    for (int round = 0; round < 9; round++) {
        eb_t from = worker->eb;
        worker->eb = bundles[round % 3];
        OK(AM_MoveEndpoint(worker->ep, from, worker->eb));
        GIVES(AM_ERR_BAD_ARG, AM_MoveEndpoint(worker->ep, from, worker->eb));
        worker->next = worker->answered + 1;
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, poll_moved, worker) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        /* That thread has ended, so its bundle is unowned again. */
    }
    void *address;
    uintptr_t bytes;
    tag_t tag;
    OK(AM_GetSeg(worker->ep, &address, &bytes));
    EXPECT(address == memory && bytes == sizeof memory);
    OK(AM_GetTranslationInuse(worker->ep, me));
    OK(AM_GetTag(worker->ep, &tag));
    EXPECT(tag == WORLD_TAG && worker->answered == 9);
    for (int at = 0; at < 3; at++) OK(AM_FreeBundle(bundles[at]));
    GIVES(AM_ERR_BAD_ARG, AM_GetTag(worker->ep, &tag));
    for (int number = 0; number < THREADS; number++) {
        if (number > 0) OK(AM_FreeEndpoint(workers[number].ep));
        free(workers[number].names);
    }
}

int main(void) {
    world_begin(AM_PAR, set_handlers);
    run_workers(1);
    run_workers(0);
    share_one_endpoint();
    events();
    moves();
    world_end();
    return 0;
}
