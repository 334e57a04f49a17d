/* Shared virtual memory from C: every function, and their errors. */
#define _GNU_SOURCE
#include "expect.h"
#include <clump/svm.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define NODES_MAX 64

typedef struct {
    svm_lock lock;
    svm_flag flag;
    svm_cond changed;
    uint64_t *numbers;
    char *handed[NODES_MAX];
    uint64_t turn, total;
} shared;

static int me, all;

static void allocations(clump_t *cl, shared *g) {
    int homes[] = {SVM_HOME_BLOCK, SVM_HOME_CYCLIC, SVM_HOME_FIRST_WRITE, SVM_HOME_NODE(0)};
    size_t sizes[] = {1, 100, 5000, 100000}, s, at;
    int h;
    for (h = 0; h < 4; h++) {
        for (s = 0; s < 4; s++) {
            char *mine = svm_alloc(cl, sizes[s], homes[h]);
            EXPECT(mine != NULL);
            for (at = 0; at < sizes[s]; at++)
                EXPECT(mine[at] == 0);
            memset(mine, 'a' + me, sizes[s]);
            g->handed[me] = mine;
            OK(svm_barrier(cl));
            mine = g->handed[(me + 1) % all];
            for (at = 0; at < sizes[s]; at++)
                EXPECT(mine[at] == 'a' + (me + 1) % all);
            OK(svm_barrier(cl));
            OK(svm_free(cl, mine));
        }
    }
    OK(svm_free(cl, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, svm_free(cl, g));
    EXPECT(svm_alloc(cl, 8, 7) == NULL && clump_error() == CLUMP_ERR_ARGUMENT);
    EXPECT(svm_alloc(cl, 8, SVM_HOME_NODE(1000)) == NULL && clump_error() == CLUMP_ERR_ARGUMENT);
    EXPECT(svm_alloc(cl, (size_t)1 << 60, SVM_HOME_BLOCK) == NULL && clump_error() == CLUMP_ERR_LIMIT);
}

static void synchronisation(clump_t *cl, shared *g) {
    uint64_t before;
    int round;
    svm_lock nothing = {0};
    for (round = 0; round < 50; round++) {
        OK(svm_lock_acquire(&g->lock));
        g->total += 1;
        OK(svm_lock_release(&g->lock));
    }
    /* Each rank waits for its turn, and passes it on. */
    OK(svm_lock_acquire(&g->lock));
    while (g->turn != (uint64_t)me)
        OK(svm_cond_wait(&g->changed, &g->lock));
    g->turn++;
    OK(svm_cond_broadcast(&g->changed));
    OK(svm_lock_release(&g->lock));
    OK(svm_cond_signal(&g->changed));
    OK(svm_lock_acquire(&g->lock));
    FAILS(CLUMP_ERR_ARGUMENT, svm_lock_acquire(&g->lock));
    OK(svm_lock_release(&g->lock));
    FAILS(CLUMP_ERR_ARGUMENT, svm_lock_release(&g->lock));
    FAILS(CLUMP_ERR_ARGUMENT, svm_lock_acquire(&nothing));
    FAILS(CLUMP_ERR_ARGUMENT, svm_lock_acquire(NULL));
    OK(svm_barrier(cl));
    EXPECT(g->total == 50 * (uint64_t)all);
    /* What was written before a flag is seen behind it. */
    before = g->numbers[0];
    OK(svm_barrier(cl));
    if (me == 0) {
        g->numbers[0] = before + 7;
        OK(svm_flag_set(&g->flag, 3));
    }
    OK(svm_flag_wait(&g->flag, 3));
    EXPECT(g->numbers[0] == before + 7);
    OK(svm_fence(cl));
}

/* A system call writes into pages of the heap, and reads them. */
static void system_calls(clump_t *cl, shared *g) {
    int ends[2], from = (me + 1) % all;
    char *page = svm_alloc_all(cl, 4096 * (size_t)all, SVM_HOME_CYCLIC), text[8];
    (void)g;
    EXPECT(page != NULL);
    OK(pipe(ends));
    EXPECT(write(ends[1], "through", 8) == 8);
    OK(svm_touch(page + 4096 * me, 8, 1));
    EXPECT(read(ends[0], page + 4096 * me, 8) == 8);
    OK(svm_barrier(cl));
    OK(svm_touch(page + 4096 * from, 8, 0));
    EXPECT(write(ends[1], page + 4096 * from, 8) == 8 && read(ends[0], text, 8) == 8);
    EXPECT(strcmp(text, "through") == 0);
    FAILS(CLUMP_ERR_ARGUMENT, svm_touch(NULL, 8, 0));
    /* Whatever length is believed, only what was allocated is. */
    FAILS(CLUMP_ERR_ARGUMENT, svm_touch(page, (size_t)1 << 40, 0));
    FAILS(CLUMP_ERR_ARGUMENT, svm_touch(page, SIZE_MAX, 1));
    FAILS(CLUMP_ERR_ARGUMENT, svm_touch(page + 4096 * all, 1, 0));
    OK(svm_touch(text, sizeof text, 1));
    close(ends[0]);
    close(ends[1]);
}

/* A call longer than a piece: a file is written and read whole, a pipe gives what it has. */
static void long_calls(clump_t *cl, int file) {
    const size_t bytes = ((size_t)16 << 20) + 4097;
    unsigned char *long_one = svm_alloc_all(cl, bytes, SVM_HOME_CYCLIC);
    int ends[2];
    size_t at;
    EXPECT(long_one != NULL);
    if (me == 0) {
        for (at = 0; at < bytes; at += 4095) long_one[at] = (unsigned char)(at / 4095 * 7 + 1);
    }
    OK(svm_barrier(cl));
    if (me == all - 1) {
        EXPECT(lseek(file, 0, SEEK_SET) == 0);
        EXPECT(svm_write(file, long_one, bytes) == (int64_t)bytes);
        EXPECT(svm_pwrite(file, long_one, bytes, 7) == (int64_t)bytes);
        memset(long_one, 0, bytes);
        EXPECT(lseek(file, 7, SEEK_SET) == 7);
        EXPECT(svm_read(file, long_one, bytes) == (int64_t)bytes);
        EXPECT(svm_read(file, long_one, bytes) == 0);
        OK(pipe(ends));
        EXPECT(write(ends[1], "few", 3) == 3);
        EXPECT(svm_read(ends[0], long_one + bytes - 4097, 4097) == 3);
        EXPECT(memcmp(long_one + bytes - 4097, "few", 3) == 0);
        EXPECT(svm_pread(file, long_one, bytes, 7) == (int64_t)bytes);
        close(ends[0]), close(ends[1]);
    }
    OK(svm_barrier(cl));
    for (at = 0; at < bytes; at += 4095) EXPECT(long_one[at] == (unsigned char)(at / 4095 * 7 + 1));
    OK(svm_barrier(cl));
}

/* The same by calls that touch the pages themselves: each over the end of a page that is elsewhere. */
static void calls_that_touch(clump_t *cl) {
    int ends[2], pair[2], round;
    const int from = (me + 1) % all;
    char *pages = svm_alloc_all(cl, 8192 * (size_t)all, SVM_HOME_CYCLIC), text[8];
    char *mine = pages + 8192 * me + 4093, *other = pages + 8192 * from + 4093;
    FILE *file = tmpfile();
    EXPECT(pages != NULL && file != NULL);
    OK(pipe(ends));
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    for (round = 0; round < 3; round++) {
        const char *said = round == 0 ? "through" : round == 1 ? "at once" : "by send";
        EXPECT(svm_write(ends[1], said, 8) == 8 && svm_pwrite(fileno(file), said, 8, 100) == 8);
        EXPECT(svm_send(pair[0], said, 8, 0) == 8);
        if (round == 0) EXPECT(svm_read(ends[0], mine, 8) == 8);
        if (round == 1) EXPECT(svm_pread(fileno(file), mine, 8, 100) == 8);
        if (round == 2) EXPECT(svm_recv(pair[1], mine, 8, 0) == 8);
        OK(svm_barrier(cl));
        if (round != 0) EXPECT(svm_read(ends[0], text, 8) == 8);
        if (round != 2) EXPECT(svm_recv(pair[1], text, 8, 0) == 8);
        if (round == 0) EXPECT(svm_write(ends[1], other, 8) == 8 && read(ends[0], text, 8) == 8);
        if (round == 1) EXPECT(svm_pwrite(fileno(file), other, 8, 0) == 8 && pread(fileno(file), text, 8, 0) == 8);
        if (round == 2) EXPECT(svm_send(pair[0], other, 8, 0) == 8 && recv(pair[1], text, 8, 0) == 8);
        EXPECT(strcmp(text, said) == 0);
        OK(svm_barrier(cl));
    }
    errno = 0;
    EXPECT(svm_read(-1, mine, 8) == -1 && errno == EBADF);
    errno = 0;
    EXPECT(svm_write(ends[1], (void *)16, 8) == -1 && errno == EFAULT);
    EXPECT(strstr(clump_error_text(), "outside of the shared heap") != NULL);
    errno = 0;
    EXPECT(svm_read(ends[0], mine, (size_t)1 << 40) == -1 && errno == EFAULT);
    EXPECT(strstr(clump_error_text(), "allocated") != NULL);
    EXPECT(svm_write(fileno(file), mine, SIZE_MAX) == -1 && errno == EFAULT);
    long_calls(cl, fileno(file));
    fclose(file);
    close(ends[0]), close(ends[1]), close(pair[0]), close(pair[1]);
}

int main(int argc, char **argv) {
    svm_breakdown times;
    shared *g;
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    FAILS(CLUMP_ERR_NOT_RUNNING, svm_barrier(cl));
    OK(svm_open(cl, (uint64_t)16 << 30));
    FAILS(CLUMP_ERR_ALREADY, svm_open(cl, 0));
    EXPECT(svm_init(&argc, &argv, 0) == NULL && clump_error() == CLUMP_ERR_ARGUMENT);
    EXPECT(svm_init(&argc, &argv, 1) == NULL && clump_error() == CLUMP_ERR_ALREADY);
    me = svm_proc_id(cl);
    all = svm_nprocs(cl);
    g = svm_alloc_once(cl, sizeof *g);
    EXPECT(g != NULL && all <= NODES_MAX);
    if (me == 0) {
        OK(svm_lock_init(&g->lock));
        OK(svm_flag_init(&g->flag));
        OK(svm_cond_init(&g->changed));
        g->numbers = svm_alloc(cl, 1 << 16, SVM_HOME_BLOCK);
        EXPECT(g->numbers != NULL);
    }
    OK(svm_barrier(cl));
    allocations(cl, g);
    OK(svm_barrier(cl));
    synchronisation(cl, g);
    system_calls(cl, g);
    calls_that_touch(cl);
    FAILS(CLUMP_ERR_NOT_RUNNING, svm_workers_wait());
    FAILS(CLUMP_ERR_ARGUMENT, svm_barrier_some(NULL, NULL, NULL, 1));
    OK(svm_times(cl, &times));
    EXPECT(times.elapsed_ns >= times.compute_ns && times.elapsed_ns > 0);
    OK(svm_barrier(cl));
    if (me == 0)
        puts("rank 0: shared virtual memory is right");
    OK(clump_finalize(cl));
    return 0;
}
