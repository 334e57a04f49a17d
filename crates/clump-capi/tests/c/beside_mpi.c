/* MPI and clump in one process: `beside_mpi FIRST-TO-END PART...` (clump or mpi), or `beside_mpi late`.
 * Ranks are those of MPI if an engine of MPI has started them. Compiled by mpicc. */
#define _GNU_SOURCE
#include "expect.h"
#include <clump/rma.h>
#include <clump/svm.h>
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 40, BIG = 1 << 20 };

static int me, all, alone;

/* An MPI call succeeds. */
#define MPI(call) EXPECT((call) == MPI_SUCCESS)

/* Collectives of both in turn: sums agree. */
static void turns(clump_t *cl) {
    uint64_t every[64], mine;
    long own, sum, expected;
    int round, rank;
    for (round = 0; round < ROUNDS; round++) {
        mine = (uint64_t)(me * round + 1);
        OK(clump_all_gather_u64(cl, mine, every));
        for (expected = rank = 0; rank < all; rank++)
            expected += (long)every[rank];
        own = (long)mine;
        MPI(MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        EXPECT(alone || sum == expected);
        if (round % 3 == 0)
            MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (round % 5 == 0)
            OK(clump_barrier(cl));
    }
}

/* A message of MPI is under way while clump waits, and the other way round. */
static void crossing(clump_t *cl) {
    int next = (me + 1) % all, before = (me + all - 1) % all, round;
    char *out = malloc(BIG), *in = malloc(BIG);
    MPI_Request both[2];
    MPI_Status done[2];
    EXPECT(out != NULL && in != NULL);
    if (alone)
        next = before = 0;
    for (round = 0; round < 5; round++) {
        memset(out, 'a' + me + round, BIG);
        MPI(MPI_Irecv(in, BIG, MPI_CHAR, before, round, MPI_COMM_WORLD, &both[0]));
        MPI(MPI_Isend(out, BIG, MPI_CHAR, next, round, MPI_COMM_WORLD, &both[1]));
        OK(clump_barrier(cl));
        MPI(MPI_Waitall(2, both, done));
        EXPECT(in[0] == (alone ? out[0] : 'a' + before + round) && in[BIG - 1] == in[0]);
    }
    free(out);
    free(in);
}

/* Buffers of MPI are shared virtual memory: pages are touched before, since the kernel and other
 * processes access them without a page fault of this one. */
static void shared_pages(clump_t *cl) {
    char *heap, *mine;
    long sum = 0, total = 0;
    int rank, round, to = alone ? 0 : (me + 1) % all, from = alone ? 0 : (me + all - 1) % all;
    OK(svm_open(cl, 64 << 20));
    heap = svm_alloc_all(cl, (size_t)all * 2 * BIG, SVM_HOME_CYCLIC);
    EXPECT(heap != NULL);
    for (round = 0; round < 3; round++) {
        /* My half is written by me, the other half by MPI. */
        mine = heap + (size_t)me * 2 * BIG;
        memset(mine, 'A' + me + round, BIG);
        OK(svm_touch(mine, BIG, 0));
        OK(svm_touch(mine + BIG, BIG, 1));
        MPI(MPI_Sendrecv(mine, BIG, MPI_CHAR, to, round, mine + BIG, BIG, MPI_CHAR, from, round, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
        OK(svm_barrier(cl));
        for (rank = 0; rank < all; rank++) {
            char *theirs = heap + (size_t)rank * 2 * BIG;
            int sender = alone ? rank : (rank + all - 1) % all;
            EXPECT(theirs[0] == 'A' + rank + round && theirs[BIG - 1] == theirs[0]);
            EXPECT(theirs[BIG] == 'A' + sender + round && theirs[2 * BIG - 1] == theirs[BIG]);
            sum += theirs[BIG];
        }
        OK(svm_barrier(cl));
    }
    MPI(MPI_Allreduce(&sum, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    EXPECT(alone || total == sum * all);
}

/* Children, while both are there. */
static void children(clump_t *cl) {
    int status;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        _exit(clump_barrier(cl) == CLUMP_ERR_FORKED ? 0 : 9);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(system("exit 7") >> 8 == 7);
    OK(clump_barrier(cl));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* One rank dies while others wait in clump, or in MPI. */
static void death(clump_t *cl, int waits_in_mpi) {
    OK(clump_barrier(cl));
    if (me == all - 1)
        raise(SIGKILL);
    if (waits_in_mpi)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        clump_barrier(cl);
    exit(5);
}

int main(int argc, char **argv) {
    clump_t *cl;
    int got, at, rank, size;
    if (argc == 2 && strcmp(argv[1], "late") == 0) {
        /* MPI would come late. */
        if (clump_init(&argc, &argv) == NULL)
            fprintf(stderr, "%s\n", clump_error_text());
        return 1;
    }
    MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &got));
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL && argc >= 2);
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    me = clump_rank(cl);
    all = clump_nranks(cl);
    EXPECT(all <= 64);
    /* Started by `clump run`, each is a job of MPI's own. */
    alone = size == 1;
    EXPECT(alone || (rank == me && size == all));
    for (at = 2; at < argc; at++) {
        if (strcmp(argv[at], "turns") == 0)
            turns(cl);
        else if (strcmp(argv[at], "crossing") == 0)
            crossing(cl);
        else if (strcmp(argv[at], "pages") == 0)
            shared_pages(cl);
        else if (strcmp(argv[at], "children") == 0)
            children(cl);
        else if (strncmp(argv[at], "death", 5) == 0)
            death(cl, argv[at][5] == '-');
        else
            EXPECT(!"a part of this program");
    }
    OK(clump_barrier(cl));
    if (strcmp(argv[1], "mpi") == 0)
        MPI(MPI_Finalize());
    OK(clump_finalize(cl));
    if (strcmp(argv[1], "mpi") != 0)
        MPI(MPI_Finalize());
    printf("rank %d of %d ended\n", me, all);
    return 0;
}
