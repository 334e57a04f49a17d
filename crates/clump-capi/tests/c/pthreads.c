/* Every function that stands in for one of pthreads: the same results on threads of a process and
 * on ranks of a job. Arguments: how many threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 20

#define EXPECT(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int threads;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, nested, checked;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, timed;
static pthread_barrier_t gate;
static pthread_rwlock_t rows = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t places, filled;
static long made_once, under_plain, under_nested, under_rows, under_spin, written, read_wrong, serial, box[4], sent;
static int turn;
static long arrived[ROUNDS][64];
static pthread_key_t key;
static __thread long own;

static void make_once(void) { made_once++; }

static void in_turns(int me) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&plain);
        while (turn % threads != me) pthread_cond_wait(&changed, &plain);
        turn++;
        under_plain += me;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&plain);
    }
}

static void at_barriers(int me) {
    int round, at;
    for (round = 0; round < ROUNDS; round++) {
        int status;
        arrived[round][me] = round + 1;
        status = pthread_barrier_wait(&gate);
        if (status == PTHREAD_BARRIER_SERIAL_THREAD) {
            pthread_mutex_lock(&plain);
            serial++;
            pthread_mutex_unlock(&plain);
        } else {
            EXPECT(status == 0);
        }
        for (at = 0; at < threads; at++) EXPECT(arrived[round][at] == round + 1);
    }
}

static void at_rows(int me) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        if (round % threads == me) {
            EXPECT(pthread_rwlock_wrlock(&rows) == 0);
            EXPECT(pthread_rwlock_trywrlock(&rows) == EBUSY && pthread_rwlock_tryrdlock(&rows) == EBUSY);
            written++;
            under_rows++;
            written++;
        } else {
            EXPECT(pthread_rwlock_rdlock(&rows) == 0);
            EXPECT(pthread_rwlock_trywrlock(&rows) == EBUSY);
            if (written % 2 != 0) read_wrong++;
            EXPECT(pthread_rwlock_tryrdlock(&rows) == 0 && pthread_rwlock_unlock(&rows) == 0);
        }
        EXPECT(pthread_rwlock_unlock(&rows) == 0);
    }
}

static void in_nested(void) {
    int depth;
    for (depth = 0; depth < 3; depth++) EXPECT(pthread_mutex_lock(&nested) == 0);
    EXPECT(pthread_mutex_trylock(&nested) == 0);
    under_nested++;
    for (depth = 0; depth < 4; depth++) EXPECT(pthread_mutex_unlock(&nested) == 0);
    EXPECT(pthread_mutex_unlock(&nested) == EPERM);
    EXPECT(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
    EXPECT(pthread_mutex_trylock(&checked) == EBUSY);
    EXPECT(pthread_mutex_unlock(&checked) == 0 && pthread_mutex_unlock(&checked) == EPERM);
    EXPECT(pthread_spin_lock(&spin) == 0);
    under_spin++;
    EXPECT(pthread_spin_unlock(&spin) == 0);
}

/* Numbers from even threads to odd ones through a box. */
static void by_boxes(int me) {
    int round;
    for (round = 0; round < ROUNDS; round++) {
        if (me % 2 == 0 && me + 1 < threads) {
            EXPECT(sem_wait(&places) == 0);
            pthread_mutex_lock(&plain);
            box[sent++ % 4] = 1;
            pthread_mutex_unlock(&plain);
            EXPECT(sem_post(&filled) == 0);
        } else if (me % 2 == 1) {
            EXPECT(sem_wait(&filled) == 0 && sem_post(&places) == 0);
        }
    }
}

static void *deeper(void *argument) { return (char *)argument + own; }

static void *work(void *argument) {
    int me = (int)(long)argument;
    pthread_t child;
    void *result;
    EXPECT(own == 0 && pthread_getspecific(key) == NULL);
    own = me;
    EXPECT(pthread_setspecific(key, argument) == 0);
    EXPECT(pthread_equal(pthread_self(), pthread_self()));
    pthread_once(&once, make_once);
    EXPECT(made_once == 1);
    in_turns(me);
    at_barriers(me);
    at_rows(me);
    in_nested();
    by_boxes(me);
    EXPECT(pthread_create(&child, NULL, deeper, argument) == 0);
    EXPECT(!pthread_equal(child, pthread_self()) && pthread_join(child, &result) == 0);
    EXPECT(result == argument && own == me && pthread_getspecific(key) == argument);
    if (me % 2) pthread_exit((void *)(long)(me * 10));
    return (void *)(long)(me * 10);
}

static struct timespec in(clockid_t clock, long ms) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static int ready, tried[3];

/* While main has `plain`, and then waits for it to be taken by this thread. */
static void *attempt(void *argument) {
    struct timespec soon = in(CLOCK_REALTIME, 30), late = in(CLOCK_REALTIME, 60000);
    tried[0] = pthread_mutex_trylock(&plain);
    tried[1] = pthread_mutex_timedlock(&plain, &soon);
    pthread_mutex_lock(&checked);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&checked);
    tried[2] = pthread_mutex_timedlock(&plain, &late);
    if (tried[2] == 0) EXPECT(pthread_mutex_unlock(&plain) == 0);
    return argument;
}

static void timed_waits(void) {
    pthread_condattr_t by_monotonic;
    struct timespec soon = in(CLOCK_REALTIME, 10), late;
    pthread_t other;
    pthread_mutex_lock(&plain);
    EXPECT(pthread_cond_timedwait(&changed, &plain, &soon) == ETIMEDOUT);
    EXPECT(pthread_cond_timedwait(&changed, &plain, &soon) == ETIMEDOUT);
    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    EXPECT(pthread_cond_init(&timed, &by_monotonic) == 0);
    soon = in(CLOCK_MONOTONIC, 10);
    EXPECT(pthread_cond_timedwait(&timed, &plain, &soon) == ETIMEDOUT);
    EXPECT(pthread_cond_destroy(&timed) == 0);
    EXPECT(pthread_create(&other, NULL, attempt, NULL) == 0);
    pthread_mutex_lock(&checked);
    late = in(CLOCK_REALTIME, 60000);
    while (!ready) EXPECT(pthread_cond_timedwait(&changed, &checked, &late) == 0);
    pthread_mutex_unlock(&checked);
    pthread_mutex_unlock(&plain);
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT(tried[0] == EBUSY && tried[1] == ETIMEDOUT && tried[2] == 0);
    while (pthread_mutex_trylock(&plain) == EBUSY) continue;
    EXPECT(pthread_mutex_trylock(&plain) == EBUSY);
    EXPECT(pthread_mutex_unlock(&plain) == 0);
}

static void *blocked(void *signals) {
    sigset_t now;
    int number;
    long all = 0;
    (void)signals;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (number = 1; number < 32; number++) all |= (long)(sigismember(&now, number) == 1) << number;
    return (void *)all;
}

/* A thread blocks the signals of the one that has created it, and no others. */
static void masks(void) {
    sigset_t some, before;
    pthread_t ids[8];
    void *result;
    int at;
    const long wanted = 1L << SIGUSR2 | 1L << SIGALRM;
    sigemptyset(&some);
    EXPECT(pthread_sigmask(SIG_SETMASK, &some, &before) == 0);
    EXPECT(pthread_create(&ids[0], NULL, blocked, NULL) == 0);
    EXPECT(pthread_join(ids[0], &result) == 0 && (long)result == 0);
    sigaddset(&some, SIGUSR2), sigaddset(&some, SIGALRM);
    EXPECT(pthread_sigmask(SIG_SETMASK, &some, NULL) == 0);
    for (at = 0; at < threads; at++) EXPECT(pthread_create(&ids[at], NULL, blocked, NULL) == 0);
    for (at = 0; at < threads; at++) EXPECT(pthread_join(ids[at], &result) == 0 && (long)result == wanted);
    EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

int main(int argc, char **argv) {
    pthread_t ids[64];
    pthread_attr_t attributes;
    pthread_mutexattr_t kind;
    int at, phase, places_now;
    long due = 0;
    threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    EXPECT(pthread_mutex_init(&nested, &kind) == 0);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    EXPECT(pthread_mutex_init(&checked, &kind) == 0);
    EXPECT(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    EXPECT(sem_init(&places, 0, 4) == 0 && sem_init(&filled, 0, 0) == 0 && sem_trywait(&filled) == -1);
    EXPECT(errno == EAGAIN);
    EXPECT(pthread_key_create(&key, NULL) == 0);
    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setstacksize(&attributes, 1 << 20) == 0);
    /* Twice: threads of the second phase run elsewhere. */
    for (phase = 1; phase <= 2; phase++) {
        EXPECT(pthread_barrier_init(&gate, NULL, (unsigned)threads) == 0);
        memset(arrived, 0, sizeof arrived);
        for (at = 0; at < threads; at++)
            EXPECT(pthread_create(&ids[at], at % 2 ? &attributes : NULL, work, (void *)(long)at) == 0);
        for (at = 0; at < threads; at++) {
            void *result;
            EXPECT(pthread_join(ids[at], &result) == 0 && (long)result == at * 10);
        }
        due += (long)threads * (threads - 1) / 2 * ROUNDS;
        EXPECT(pthread_barrier_destroy(&gate) == 0);
        EXPECT(under_plain == due && turn == phase * threads * ROUNDS && serial == phase * ROUNDS);
        EXPECT(written == 2L * phase * ROUNDS && read_wrong == 0 && made_once == 1);
        EXPECT(under_spin == phase * threads && under_nested == under_spin && under_rows == phase * ROUNDS);
        EXPECT(sent == (long)phase * (threads / 2) * ROUNDS);
    }
    EXPECT(sem_getvalue(&places, &places_now) == 0 && places_now == 4);
    timed_waits();
    masks();
    EXPECT(own == 0);
    printf("pthreads: %ld %ld %ld %ld\n", under_plain, written, under_nested, sent);
    fflush(stdout);
    if (argc > 2 && strcmp(argv[2], "exit") == 0) pthread_exit(NULL);
    return argc > 2 ? atoi(argv[2]) : 0;
}
