/* Handlers of a program's signals run on its own threads, however many clump has started. */
#define _GNU_SOURCE
#include "expect.h"
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define SIGNALS 1000

static volatile sig_atomic_t here, elsewhere, leaves;
static pid_t own;
static sigjmp_buf back;

static void on_signal(int number) {
    (void)number;
    if ((pid_t)syscall(SYS_gettid) != own) {
        elsewhere++;
        return;
    }
    here++;
    if (leaves) siglongjmp(back, 1);
}

/* Returns the number of threads, and in `takers` that of those that do not block the signal. */
static int count_threads(int number, int *takers) {
    struct dirent *task;
    int all = 0;
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks != NULL);
    *takers = 0;
    while ((task = readdir(tasks)) != NULL) {
        char path[320], line[256];
        unsigned long long blocked;
        FILE *status;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        status = fopen(path, "r");
        EXPECT(status != NULL);
        all++;
        while (fgets(line, sizeof line, status) != NULL) {
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) *takers += (blocked >> (number - 1) & 1) == 0;
        }
        fclose(status);
    }
    closedir(tasks);
    return all;
}

/* A signal of the process that this thread blocks waits for it: no other takes it. */
static void signals_that_wait(clump_t *cl) {
    sigset_t one, before, pending;
    int sent;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    for (sent = 1; sent <= SIGNALS; sent++) {
        EXPECT(sigprocmask(SIG_BLOCK, &one, &before) == 0);
        EXPECT(kill(own, SIGUSR1) == 0);
        EXPECT(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
        EXPECT(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
        EXPECT(here == sent);
        if (sent % 100 == 0) OK(clump_barrier(cl));
    }
}

/* Those of a timer come among messages, and a handler may leave by a jump. */
static void signals_of_a_timer(clump_t *cl) {
    const struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    uint64_t least = 0;
    here = 0;
    EXPECT(setitimer(ITIMER_REAL, &each, NULL) == 0);
    while (least == 0) {
        uint64_t mine = here >= SIGNALS;
        OK(clump_all_reduce(cl, &mine, &least, 1, CLUMP_U64, CLUMP_MIN));
    }
    if (sigsetjmp(back, 1) == 0) {
        leaves = 1;
        for (;;) pause();
    }
    leaves = 0;
    EXPECT(setitimer(ITIMER_REAL, &none, NULL) == 0);
    OK(clump_barrier(cl));
}

int main(int argc, char **argv) {
    struct sigaction action;
    int turn, threads, takers;
    clump_t *cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    own = getpid();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    for (turn = 0; turn < 10; turn++) OK(clump_barrier(cl));
    signals_that_wait(cl);
    signals_of_a_timer(cl);
    EXPECT(elsewhere == 0);
    threads = count_threads(SIGALRM, &takers);
    EXPECT(takers == 1);
    printf("rank %d: signals are right, beside %s\n", clump_rank(cl), threads > 1 ? "threads" : "no thread");
    OK(clump_finalize(cl));
    return 0;
}
