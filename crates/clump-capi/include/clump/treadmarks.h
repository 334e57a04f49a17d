/* The calls of TreadMarks, by which programs for distributed shared memory are written, over clump's
 * shared virtual memory: `clump-cc program.c`, and `clump run -n 4 --nodes 2 ./a.out`. All processes
 * run `main`. Written by hand.
 *
 * A call that fails prints why, and ends the process.
 */
#ifndef CLUMP_TREADMARKS_H
#define CLUMP_TREADMARKS_H

#if defined(__GNUC__)
#pragma GCC system_header
#endif

#include "clump/svm.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Locks have numbers below TMK_NLOCKS, barriers below TMK_NBARRIERS. All barriers are those of all
 * processes. */
#define TMK_NLOCKS 1024
#define TMK_NBARRIERS 1024

/* Calls of Tmk_distribute between two barriers. */
#define TMK_MAX_DISTRIBUTED_ 256

#ifdef __cplusplus
extern "C" {
#endif

/* Number of this process, from 0, and of all of them, once Tmk_startup has returned. */
__attribute__((weak)) unsigned Tmk_proc_id;
__attribute__((weak)) unsigned Tmk_nprocs;

/* A copy of private memory on its way: how far behind Tmk_proc_id it belongs, and its bytes. */
typedef struct {
    int64_t place;
    uint64_t bytes;
    void *copy;
} tmk_distributed_;

/* The copies that a barrier hands over. Processes that have passed it read them before the next
 * one, behind which process 0 frees them; those that are ahead write for barriers to come. */
typedef struct {
    uint64_t barrier;
    uint64_t count;
    tmk_distributed_ all[TMK_MAX_DISTRIBUTED_];
} tmk_handed_;

typedef struct {
    svm_lock locks[TMK_NLOCKS];
    svm_lock handing;
    tmk_handed_ handed[3];
} tmk_state_;

__attribute__((weak)) clump_t *tmk_job_;
__attribute__((weak)) tmk_state_ *tmk_shared_;
/* Barriers passed. */
__attribute__((weak)) uint64_t tmk_barriers_;

static __inline__ void tmk_ok_(int ok) {
    if (!ok) {
        fprintf(stderr, "treadmarks: %s\n", clump_error_text());
        exit(1);
    }
}

static __inline__ void tmk_limit_(const char *what, unsigned id, unsigned limit) {
    if (id >= limit) {
        fprintf(stderr, "treadmarks: %s %u: there are %u\n", what, id, limit);
        exit(1);
    }
}

/* Joins the job, and opens the shared memory. All processes call it first. */
static __inline__ void Tmk_startup(int argc, char **argv) {
    unsigned at;
    tmk_job_ = svm_init(&argc, &argv, 1);
    tmk_ok_(tmk_job_ != NULL);
    Tmk_proc_id = (unsigned)svm_proc_id(tmk_job_);
    Tmk_nprocs = (unsigned)svm_nprocs(tmk_job_);
    tmk_shared_ = (tmk_state_ *)svm_alloc_once(tmk_job_, sizeof(tmk_state_));
    tmk_ok_(tmk_shared_ != NULL);
    if (Tmk_proc_id == 0) {
        for (at = 0; at < TMK_NLOCKS; at++)
            tmk_ok_(svm_lock_init(&tmk_shared_->locks[at]) >= 0);
        tmk_ok_(svm_lock_init(&tmk_shared_->handing) >= 0);
    }
    tmk_ok_(svm_barrier(tmk_job_) >= 0);
}

/* Leaves the job, and ends the process. All processes call it. */
static __inline__ void Tmk_exit(int status) {
    tmk_ok_(clump_finalize(tmk_job_) >= 0);
    exit(status);
}

/* Allocates zeroed shared memory; null if there is none left. Others learn its address through
 * shared memory or by Tmk_distribute. */
static __inline__ char *Tmk_malloc(size_t bytes) {
    return (char *)svm_alloc(tmk_job_, bytes, SVM_HOME_BLOCK);
}

/* Gives memory of Tmk_malloc back, in any process. */
static __inline__ void Tmk_free(char *memory) { tmk_ok_(svm_free(tmk_job_, memory) >= 0); }

/* Copies private memory, a global or static variable, to the same variable of all other processes,
 * which have it behind their next barrier. One process calls it for a variable. */
static __inline__ void Tmk_distribute(char *memory, size_t bytes) {
    uint64_t barrier = tmk_barriers_ + 1;
    tmk_handed_ *handed = &tmk_shared_->handed[barrier % 3];
    void *copy = svm_alloc(tmk_job_, bytes, SVM_HOME_BLOCK);
    tmk_ok_(copy != NULL);
    memcpy(copy, memory, bytes);
    tmk_ok_(svm_lock_acquire(&tmk_shared_->handing) >= 0);
    if (handed->barrier != barrier) {
        handed->barrier = barrier;
        handed->count = 0;
    }
    tmk_limit_("variable distributed before a barrier", (unsigned)handed->count, TMK_MAX_DISTRIBUTED_);
    handed->all[handed->count].place = (int64_t)((intptr_t)memory - (intptr_t)&Tmk_proc_id);
    handed->all[handed->count].bytes = bytes;
    handed->all[handed->count].copy = copy;
    handed->count++;
    tmk_ok_(svm_lock_release(&tmk_shared_->handing) >= 0);
}

/* Returns once all processes have called it; each then sees what the others had written. */
static __inline__ void Tmk_barrier(unsigned id) {
    const tmk_handed_ *handed;
    uint64_t at;
    tmk_limit_("barrier", id, TMK_NBARRIERS);
    tmk_ok_(svm_barrier(tmk_job_) >= 0);
    handed = &tmk_shared_->handed[tmk_barriers_ % 3];
    for (at = 0; Tmk_proc_id == 0 && handed->barrier == tmk_barriers_ && at < handed->count; at++)
        tmk_ok_(svm_free(tmk_job_, handed->all[at].copy) >= 0);
    handed = &tmk_shared_->handed[++tmk_barriers_ % 3];
    for (at = 0; handed->barrier == tmk_barriers_ && at < handed->count; at++) {
        const tmk_distributed_ *one = &handed->all[at];
        memcpy((char *)((intptr_t)&Tmk_proc_id + (intptr_t)one->place), one->copy, one->bytes);
    }
}

/* Waits for a lock, and takes it. What was written under it before is seen. */
static __inline__ void Tmk_lock_acquire(unsigned id) {
    tmk_limit_("lock", id, TMK_NLOCKS);
    tmk_ok_(svm_lock_acquire(&tmk_shared_->locks[id]) >= 0);
}

/* Gives a lock back. */
static __inline__ void Tmk_lock_release(unsigned id) {
    tmk_limit_("lock", id, TMK_NLOCKS);
    tmk_ok_(svm_lock_release(&tmk_shared_->locks[id]) >= 0);
}

#ifdef __cplusplus
}
#endif

#endif
