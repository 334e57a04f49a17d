/* Workers of `main`, by the macros of PARMACS: each function behind them, and what goes wrong. */
#include "expect.h"
#define CLUMP_PARMACS_OWN_GLOBALS
#include <clump/parmacs.h>

typedef struct {
    LOCKDEC(lock)
    CONDVARDEC(changed)
    BARDEC(some)
    BARDEC(all)
    PAUSEDEC(go)
    int ran, seen[64];
} shared;

static shared *gl;
static int given[1000] = {7}, workers;

static void work(void) {
    int me;
    LOCK(gl->lock);
    me = gl->ran++;
    UNLOCK(gl->lock);
    EXPECT(given[0] == 7 && given[999] == 42);
    /* What a worker stores in globals is its own. */
    given[999] = me;
    WAITPAUSE(gl->go);
    BARRIER(gl->all, workers);
    LOCK(gl->lock);
    gl->seen[me] = given[999] + 1;
    CONDVARBCAST(gl->changed);
    UNLOCK(gl->lock);
    BARRIER(gl->all, workers);
    EVENT(gl->go);
}

int main(void) {
    int at, sum = 0;
    FAILS(CLUMP_ERR_ARGUMENT, svm_workers_begin(CLUMP_ABI, (void *)&given, given + 1000, given + 5));
    MAIN_INITENV()
    workers = svm_nprocs(svm_current());
    gl = (shared *)G_MALLOC(sizeof *gl);
    EXPECT(svm_workers_alloc(0, SVM_HOME_BLOCK) == NULL && clump_error() == CLUMP_ERR_ARGUMENT);
    LOCKINIT(gl->lock);
    CONDVARINIT(gl->changed);
    BARINIT(gl->all);
    BARINIT(gl->some);
    PAUSEINIT(gl->go);
    for (at = 0; at < 2; at++) {
        gl->ran = 0;
        given[999] = 42;
        /* Main takes part. */
        for (int worker = 1; worker < workers; worker++)
            OK(svm_worker_create(work));
        FAILS(CLUMP_ERR_LIMIT, svm_worker_create(work));
        SETPAUSE(gl->go);
        LOCK(gl->lock);
        CONDVARSIGNAL(gl->changed);
        UNLOCK(gl->lock);
        BARRIER(gl->all, workers);
        BARRIER(gl->some, 1);
        BARRIER(gl->all, workers);
        CLEARPAUSE(gl->go);
        OK(svm_workers_wait());
        EXPECT(gl->ran == workers - 1);
    }
    for (at = 0; at < workers - 1; at++)
        sum += gl->seen[at];
    EXPECT(sum == workers * (workers - 1) / 2);
    OK(svm_workers_free(gl));
    OK(svm_workers_free(NULL));
    puts("rank 0: workers are right");
    fflush(stdout);
    OK(svm_workers_end());
    return 0;
}
