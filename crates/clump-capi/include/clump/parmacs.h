/* The macros of PARMACS, by which programs for shared memory are written, over clump's shared
 * virtual memory: `clump-cc -include clump/parmacs.h -fPIC -no-pie program.c`, and
 * `clump run -n 4 --nodes 2 ./a.out`. `main` runs on rank 0, and there alone; each CREATE gives work
 * to another rank, which begins with a copy of the program's globals, as a child by fork would. What
 * a rank stores in globals from then on is its own, and named in a line of the error stream, unless
 * CLUMP_PARMACS_OWN_GLOBALS is defined.
 *
 * With CLUMP_PARMACS_THREADS defined, the program runs on threads of one process instead, by
 * pthreads and without clump; with `clump-cc --clump-threads` besides, on threads of ranks, which
 * share globals. Written by hand.
 *
 * Macros that stand for statements are blocks, with or without a semicolon behind them.
 */
#ifndef CLUMP_PARMACS_H
#define CLUMP_PARMACS_H

#if defined(__GNUC__)
#pragma GCC system_header
#endif

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#ifdef CLUMP_PARMACS_THREADS

#include <pthread.h>
#include <sched.h>

typedef pthread_mutex_t parmacs_lock_t;
typedef pthread_cond_t parmacs_cond_t;
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t words[2];
} parmacs_barrier_t;
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int set;
} parmacs_pause_t;

static pthread_t parmacs_threads_[256];
static int parmacs_created_;

static __inline__ void parmacs_begin_(void) {}
static __inline__ void parmacs_end_(void) {}
static void *parmacs_run_(void *function) {
    void (*run)(void);
    memcpy(&run, &function, sizeof run);
    run();
    return NULL;
}
static __inline__ void parmacs_create_(void (*run)(void)) {
    void *function;
    memcpy(&function, &run, sizeof function);
    if (parmacs_created_ == 256 ||
        pthread_create(&parmacs_threads_[parmacs_created_++], NULL, parmacs_run_, function) != 0) {
        fprintf(stderr, "parmacs: no more threads\n");
        exit(1);
    }
}
static __inline__ void parmacs_wait_(void) {
    while (parmacs_created_ > 0)
        pthread_join(parmacs_threads_[--parmacs_created_], NULL);
}
static __inline__ void *parmacs_alloc_(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "parmacs: no memory for %lu bytes\n", (unsigned long)bytes);
        exit(1);
    }
    return memory;
}
static __inline__ void parmacs_publish_(void) {}
static __inline__ void parmacs_free_(void *memory) { free(memory); }
static __inline__ void parmacs_lock_init_(parmacs_lock_t *lock) { pthread_mutex_init(lock, NULL); }
static __inline__ void parmacs_lock_(parmacs_lock_t *lock) { pthread_mutex_lock(lock); }
static __inline__ void parmacs_unlock_(parmacs_lock_t *lock) { pthread_mutex_unlock(lock); }
static __inline__ void parmacs_cond_init_(parmacs_cond_t *cond) { pthread_cond_init(cond, NULL); }
static __inline__ void parmacs_cond_wait_(parmacs_cond_t *cond, parmacs_lock_t *lock) {
    pthread_cond_wait(cond, lock);
}
static __inline__ void parmacs_cond_signal_(parmacs_cond_t *cond) { pthread_cond_signal(cond); }
static __inline__ void parmacs_cond_broadcast_(parmacs_cond_t *cond) { pthread_cond_broadcast(cond); }
static __inline__ void parmacs_barrier_init_(parmacs_barrier_t *barrier) {
    memset(barrier->words, 0, sizeof barrier->words);
    pthread_mutex_init(&barrier->lock, NULL);
    pthread_cond_init(&barrier->changed, NULL);
}
/* Polls before a thread sleeps at a barrier, and those after which it yields the processor. */
#define PARMACS_POLLS_ 400
#define PARMACS_POLLS_ALONE_ 200
static __inline__ void parmacs_barrier_(parmacs_barrier_t *barrier, int count) {
    uint64_t round;
    int polls = 0;
    pthread_mutex_lock(&barrier->lock);
    round = barrier->words[1];
    if (++barrier->words[0] == (uint64_t)count) {
        barrier->words[0] = 0;
        __atomic_store_n(&barrier->words[1], round + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&barrier->changed);
        pthread_mutex_unlock(&barrier->lock);
        return;
    }
    pthread_mutex_unlock(&barrier->lock);
    while (polls++ < PARMACS_POLLS_ && __atomic_load_n(&barrier->words[1], __ATOMIC_RELAXED) == round)
        if (polls > PARMACS_POLLS_ALONE_) sched_yield();
    /* The lock publishes others' stores, where threads are ranks too. */
    pthread_mutex_lock(&barrier->lock);
    while (barrier->words[1] == round)
        pthread_cond_wait(&barrier->changed, &barrier->lock);
    pthread_mutex_unlock(&barrier->lock);
}

#else

#include "clump/svm.h"

typedef svm_lock parmacs_lock_t;
typedef svm_cond parmacs_cond_t;
typedef struct {
    svm_lock lock;
    svm_cond changed;
    uint64_t words[2];
} parmacs_barrier_t;
typedef struct {
    svm_lock lock;
    svm_cond changed;
    int set;
} parmacs_pause_t;

#ifdef __cplusplus
extern "C" {
#endif
extern char __data_start[];
extern char _end[];
#ifdef __cplusplus
}
#endif

static __inline__ void parmacs_ok_(int status) {
    if (status < 0) {
        fprintf(stderr, "parmacs: %s\n", clump_error_text());
        svm_workers_explain();
        exit(1);
    }
}
static __inline__ void parmacs_begin_(void) {
#ifdef CLUMP_PARMACS_OWN_GLOBALS
    svm_workers_own_globals();
#endif
    parmacs_ok_(svm_workers_begin(CLUMP_ABI, __data_start, _end, &stdout));
}
#if defined(__GNUC__)
/* Before `main`, which rank 0 alone runs: what it reads and prints before MAIN_INITENV, it reads and
 * prints once, and G_MALLOC works there. */
__attribute__((constructor)) static void parmacs_join_(void) { parmacs_begin_(); }
#endif
static __inline__ void parmacs_end_(void) { parmacs_ok_(svm_workers_end()); }
static __inline__ void parmacs_create_(void (*run)(void)) { parmacs_ok_(svm_worker_create(run)); }
static __inline__ void parmacs_wait_(void) { parmacs_ok_(svm_workers_wait()); }
static __inline__ void *parmacs_alloc_(size_t bytes) {
    void *memory = svm_workers_alloc(bytes ? bytes : 1, SVM_HOME_BLOCK);
    if (memory == NULL) parmacs_ok_(clump_error());
    return memory;
}
static __inline__ void parmacs_publish_(void) { parmacs_ok_(svm_fence(svm_current())); }
static __inline__ void parmacs_free_(void *memory) { parmacs_ok_(svm_workers_free(memory)); }
static __inline__ void parmacs_lock_init_(parmacs_lock_t *lock) { parmacs_ok_(svm_lock_init(lock)); }
static __inline__ void parmacs_lock_(parmacs_lock_t *lock) { parmacs_ok_(svm_lock_acquire(lock)); }
static __inline__ void parmacs_unlock_(parmacs_lock_t *lock) { parmacs_ok_(svm_lock_release(lock)); }
static __inline__ void parmacs_cond_init_(parmacs_cond_t *cond) { parmacs_ok_(svm_cond_init(cond)); }
static __inline__ void parmacs_cond_wait_(parmacs_cond_t *cond, parmacs_lock_t *lock) {
    parmacs_ok_(svm_cond_wait(cond, lock));
}
static __inline__ void parmacs_cond_signal_(parmacs_cond_t *cond) { parmacs_ok_(svm_cond_signal(cond)); }
static __inline__ void parmacs_cond_broadcast_(parmacs_cond_t *cond) {
    parmacs_ok_(svm_cond_broadcast(cond));
}
static __inline__ void parmacs_barrier_init_(parmacs_barrier_t *barrier) {
    memset(barrier->words, 0, sizeof barrier->words);
    parmacs_lock_init_(&barrier->lock);
    parmacs_cond_init_(&barrier->changed);
}
static __inline__ void parmacs_barrier_(parmacs_barrier_t *barrier, int count) {
    parmacs_ok_(svm_barrier_some(&barrier->lock, &barrier->changed, barrier->words, count));
}

#endif

static __inline__ void parmacs_pause_init_(parmacs_pause_t *pause) {
    parmacs_lock_init_(&pause->lock);
    parmacs_cond_init_(&pause->changed);
    pause->set = 0;
}
static __inline__ void parmacs_pause_set_(parmacs_pause_t *pause, int set) {
    parmacs_lock_(&pause->lock);
    pause->set = set;
    parmacs_cond_broadcast_(&pause->changed);
    parmacs_unlock_(&pause->lock);
}
static __inline__ void parmacs_pause_wait_(parmacs_pause_t *pause, int set) {
    parmacs_lock_(&pause->lock);
    while (pause->set != set)
        parmacs_cond_wait_(&pause->changed, &pause->lock);
    parmacs_unlock_(&pause->lock);
}
static __inline__ unsigned long parmacs_clock_(void) {
    struct timeval now;
    gettimeofday(&now, NULL);
    return (unsigned long)now.tv_sec * 1000000UL + (unsigned long)now.tv_usec;
}

/* Where a program begins and ends. */
#define MAIN_ENV
#define EXTERN_ENV
#define MAIN_INITENV(...) { parmacs_begin_(); }
#define MAIN_END { parmacs_end_(); exit(0); }
#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

/* Marks of the part of a program that is measured: functions as well, for uses without brackets. */
static __inline__ void SPLASH3_ROI_BEGIN(void) {}
static __inline__ void SPLASH3_ROI_END(void) {}
#define SPLASH3_ROI_BEGIN() {}
#define SPLASH3_ROI_END() {}

/* Workers: CREATE(f) gives f to one; CREATE(f, n) to n - 1, and runs it here, too. */
#define PARMACS_PICK_(one, two, name, ...) name
#define PARMACS_CREATE_1_(function) { parmacs_create_(function); }
#define PARMACS_CREATE_2_(function, count)                                                                   \
    {                                                                                                        \
        int parmacs_at_;                                                                                     \
        for (parmacs_at_ = 1; parmacs_at_ < (count); parmacs_at_++)                                          \
            parmacs_create_(function);                                                                       \
        (function)();                                                                                        \
    }
#define CREATE(...) PARMACS_PICK_(__VA_ARGS__, PARMACS_CREATE_2_, PARMACS_CREATE_1_, 0)(__VA_ARGS__)
#define WAIT_FOR_END(count) { parmacs_wait_(); }

/* Shared memory. Bytes come first; a node may follow. Home pages are chosen by clump. */
#define PARMACS_FIRST_(first, ...) (first)
#define G_MALLOC(...) parmacs_alloc_(PARMACS_FIRST_(__VA_ARGS__, 0))
#define NU_MALLOC(...) parmacs_alloc_(PARMACS_FIRST_(__VA_ARGS__, 0))
#define G_FREE(memory) { parmacs_free_(memory); }

/* Locks, arrays of locks, barriers, condition variables: declared in shared structures. */
#define LOCKDEC(name) parmacs_lock_t name;
#define LOCKINIT(name) { parmacs_lock_init_(&(name)); }
#define LOCK(name) { parmacs_lock_(&(name)); }
#define UNLOCK(name) { parmacs_unlock_(&(name)); }
#define ALOCKDEC(name, count) parmacs_lock_t name[count];
#define ALOCKINIT(name, count)                                                                               \
    {                                                                                                        \
        int parmacs_at_;                                                                                     \
        for (parmacs_at_ = 0; parmacs_at_ < (count); parmacs_at_++)                                          \
            parmacs_lock_init_(&(name)[parmacs_at_]);                                                        \
    }
#define ALOCK(name, at) { parmacs_lock_(&(name)[at]); }
#define AULOCK(name, at) { parmacs_unlock_(&(name)[at]); }
/* The lock itself, for CONDVARWAIT. */
#define AGETL(name, at) ((name)[at])
#define BARDEC(name) parmacs_barrier_t name;
#define BARINIT(name, ...) { parmacs_barrier_init_(&(name)); }
#define BARRIER(name, count) { parmacs_barrier_(&(name), (count)); }
#define CONDVARDEC(name) parmacs_cond_t name;
#define CONDVARINIT(name) { parmacs_cond_init_(&(name)); }
#define CONDVARWAIT(name, lock) { parmacs_cond_wait_(&(name), &(lock)); }
#define CONDVARSIGNAL(name) { parmacs_cond_signal_(&(name)); }
#define CONDVARBCAST(name) { parmacs_cond_broadcast_(&(name)); }

/* Pauses: events that are set and cleared. */
#define PAUSEDEC(name) parmacs_pause_t name;
#define PAUSEINIT(name) { parmacs_pause_init_(&(name)); }
#define SETPAUSE(name) { parmacs_pause_set_(&(name), 1); }
#define CLEARPAUSE(name) { parmacs_pause_set_(&(name), 0); }
#define WAITPAUSE(name) { parmacs_pause_wait_(&(name), 1); }
#define EVENT(name) { parmacs_pause_wait_(&(name), 0); }

/* Time in microseconds. */
#define CLOCK(time) { (time) = parmacs_clock_(); }

/* Order of plain stores. Between ranks, a fence before a store publishes what was stored before it
 * to ranks that fetch the page of that store afterwards; only locks and barriers publish to all. */
#define FENCE { __sync_synchronize(); }
#define ACQUIRE_FENCE { __sync_synchronize(); }
#define RELEASE_FENCE { parmacs_publish_(); __sync_synchronize(); }
#define FULL_FENCE { parmacs_publish_(); __sync_synchronize(); }

#endif
