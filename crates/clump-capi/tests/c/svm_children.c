/* Children by fork have zeroes in place of the heap, and no calls; an access behind the heap is the
 * program's own crash: `svm_children`, `svm_children outside`. */
#define _GNU_SOURCE
#include "expect.h"
#include <clump/svm.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 16, BYTES = PAGES * 4096, HEAP = 1 << 30 };

/* The first page from there on that is not mapped. */
static char *behind(char *from) {
    unsigned char there;
    while (mincore(from, 4096, &there) == 0 || errno != ENOMEM) from += 4096;
    return from;
}

/* Runs in a child: 0 if all is as it is to be. */
static int child(clump_t *cl, volatile char *bytes, const svm_lock *lock) {
    for (int at = 0; at < BYTES; at += 512)
        if (bytes[at] != 0) return 1;
    for (int page = 0; page < PAGES; page++) bytes[page * 4096 + 7] = 99;
    FAILS(CLUMP_ERR_FORKED, svm_barrier(cl));
    FAILS(CLUMP_ERR_FORKED, svm_lock_acquire(lock));
    FAILS(CLUMP_ERR_FORKED, svm_touch((const void *)bytes, BYTES, 1));
    EXPECT(svm_write(1, (const void *)bytes, 1) == -1 && clump_error() == CLUMP_ERR_FORKED);
    return 0;
}

int main(int argc, char **argv) {
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    OK(svm_open(cl, HEAP));
    const int me = clump_rank(cl), all = clump_nranks(cl);
    char *bytes = svm_alloc_all(cl, BYTES, SVM_HOME_CYCLIC);
    svm_lock *lock = svm_alloc_once(cl, sizeof *lock);
    EXPECT(bytes != NULL && lock != NULL);
    if (me == 0) OK(svm_lock_init(lock));
    OK(svm_barrier(cl));
    if (argc > 1) {
        if (me == 1) *(volatile char *)behind(bytes + HEAP) = 1;
        OK(svm_barrier(cl));
        return 0;
    }
    for (int round = 1; round <= 3; round++) {
        for (int page = me; page < PAGES; page += all) bytes[page * 4096 + 7] = (char)(round + page);
        OK(svm_barrier(cl));
        fflush(stdout);
        const pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0) _exit(child(cl, bytes, lock));
        int status;
        EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        for (int page = 0; page < PAGES; page++) EXPECT(bytes[page * 4096 + 7] == (char)(round + page));
        OK(svm_barrier(cl));
    }
    if (me == 0) puts("rank 0: children are none of the heap");
    OK(clump_finalize(cl));
    return 0;
}
