/* Handlers that take clump's faults, or wait for their own thread: both are reported. */
#define _GNU_SOURCE
#include "expect.h"
#include <clump/svm.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGES 64

static volatile char *pages;
static volatile int next;

static void on_fault(int number) {
    (void)number;
    _exit(9);
}

static void on_timer(int number) {
    (void)number;
    pages[4096 * (next++ % PAGES)]++;
}

/* The program takes all faults from here on, and calls on. */
static void late(clump_t *cl) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault;
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    OK(svm_fence(cl));
    OK(svm_fence(cl));
}

static void on_fault_exit(int number) {
    (void)number;
    exit(9);
}

/* The program takes a fault before its next call. */
static void silent(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault_exit;
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    for (next = 0; next < PAGES; next++) pages[4096 * next]++;
    EXPECT(0);
}

/* Sooner or later the handler comes while its thread has a lock that the fault needs. */
static void within(clump_t *cl) {
    const struct itimerval each = {{0, 300}, {0, 300}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_timer;
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    EXPECT(setitimer(ITIMER_REAL, &each, NULL) == 0);
    for (;;) {
        int at;
        for (at = 0; at < PAGES; at++) pages[4096 * at + 1 + svm_proc_id(cl)]++;
        OK(svm_barrier(cl));
    }
}

int main(int argc, char **argv) {
    clump_t *cl = svm_init(&argc, &argv, 2);
    EXPECT(cl != NULL);
    pages = svm_alloc_all(cl, 4096 * PAGES, SVM_HOME_CYCLIC);
    EXPECT(pages != NULL);
    OK(svm_barrier(cl));
    if (argc > 1 && strcmp(argv[1], "late") == 0) late(cl);
    if (argc > 1 && strcmp(argv[1], "silent") == 0) silent();
    if (argc > 1 && strcmp(argv[1], "within") == 0) within(cl);
    OK(svm_barrier(cl));
    OK(clump_finalize(cl));
    return 0;
}
