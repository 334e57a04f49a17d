/* Queries of a program about its threads, and waits with timeouts, on ranks as on threads of a
 * process; with the argument `refused`, what is not to be had of a thread elsewhere. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static sem_t go, stop;
static char *message;
static int waits;

static struct timespec in(clockid_t clock, long milliseconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static volatile sig_atomic_t handled;
static pid_t first;

static void on_signal(int number) {
    (void)number;
    handled++;
}

/* Where this thread is the only one of the program in its process, signals of the process that it
 * blocks wait for it: no thread of clump's takes them. */
static void signals(void) {
    struct sigaction action;
    sigset_t one, before, pending;
    int sent;
    if (getpid() == first) return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    for (sent = 1; sent <= 1000; sent++) {
        EXPECT(pthread_sigmask(SIG_BLOCK, &one, &before) == 0);
        EXPECT(kill(getpid(), SIGUSR1) == 0);
        EXPECT(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
        EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
        EXPECT(handled == sent);
    }
}

static void *work(void *argument) {
    struct timespec soon = in(CLOCK_REALTIME, 20), monotonic = in(CLOCK_MONOTONIC, 20), late;
    char name[16];
    int policy;
    struct sched_param parameters;
    void *memory;
    signals();
    EXPECT(sem_timedwait(&stop, &soon) == -1 && errno == ETIMEDOUT);
    EXPECT(pthread_rwlock_timedwrlock(&readers, &soon) == ETIMEDOUT);
    EXPECT(pthread_rwlock_timedrdlock(&readers, &soon) == 0 && pthread_rwlock_unlock(&readers) == 0);
    pthread_mutex_lock(&lock);
    EXPECT(pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
    pthread_mutex_unlock(&lock);
    EXPECT(pthread_setname_np(pthread_self(), "a worker") == 0);
    EXPECT(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
    EXPECT(strcmp(name, "a worker") == 0);
    EXPECT(pthread_getschedparam(pthread_self(), &policy, &parameters) == 0);
    EXPECT(pthread_kill(pthread_self(), 0) == 0);
    EXPECT(asprintf(&message, "%s %d %ld %.1f %c %d %d %g", "text", 1, 2L, 2.5, 'c', 4, 5, 0.25) == 23);
    EXPECT((memory = valloc(100)) != NULL && (uintptr_t)memory % 4096 == 0);
    free(memory);
    for (policy = 14; policy <= 21; policy += 7) {
        size_t alignment = (size_t)1 << policy;
        EXPECT(posix_memalign(&memory, alignment, 3 * alignment / 2) == 0);
        EXPECT((uintptr_t)memory % alignment == 0);
        memset(memory, 5, 3 * alignment / 2);
        free(memory);
        EXPECT((memory = aligned_alloc(alignment, alignment)) && (uintptr_t)memory % alignment == 0);
        memory = realloc(memory, 100);
        free(memory);
    }
    sem_post(&go);
    late = in(CLOCK_REALTIME, 60000);
    EXPECT(sem_timedwait(&stop, &late) == 0);
    return argument;
}

static void refused(pthread_t id) {
    EXPECT(pthread_kill(id, SIGUSR1) == ENOTSUP && pthread_cancel(id) == ENOTSUP);
    sem_post(&stop);
    EXPECT(pthread_join(id, NULL) == 0);
    printf("refused\n");
}

int main(int argc, char **argv) {
    pthread_t id;
    struct timespec soon, late;
    void *result;
    (void)argv;
    first = getpid();
    EXPECT(sem_init(&go, 0, 0) == 0 && sem_init(&stop, 0, 0) == 0);
    EXPECT(pthread_rwlock_rdlock(&readers) == 0);
    EXPECT(pthread_create(&id, NULL, work, &waits) == 0);
    late = in(CLOCK_MONOTONIC, 60000);
    EXPECT(sem_clockwait(&go, CLOCK_MONOTONIC, &late) == 0);
    if (argc > 1) {
        refused(id);
        return 0;
    }
    EXPECT(pthread_kill(id, 0) == 0 && pthread_tryjoin_np(id, &result) == EBUSY);
    soon = in(CLOCK_REALTIME, 20);
    EXPECT(pthread_timedjoin_np(id, &result, &soon) == ETIMEDOUT);
    sem_post(&stop);
    late = in(CLOCK_REALTIME, 60000);
    EXPECT(pthread_timedjoin_np(id, &result, &late) == 0 && result == &waits);
    late = in(CLOCK_MONOTONIC, 60000);
    EXPECT(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &late) == 0);
    EXPECT(pthread_mutex_unlock(&lock) == 0 && pthread_rwlock_unlock(&readers) == 0);
    printf("others: %s\n", message);
    free(message);
    return 0;
}
