/* Ends of a program with threads. Arguments: `w` for a thread that waits for ever and one that
 * computes for ever, `q` for a thread that ends the program, `s` for one whose argument lies on the
 * stack; the exit code. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int code;
static volatile long steps;

static void *wait_for_ever(void *argument) {
    pthread_mutex_lock(&lock);
    for (;;) pthread_cond_wait(&never, &lock);
    return argument;
}

static void *compute_for_ever(void *argument) {
    for (;;) steps++;
    return argument;
}

static void *quit(void *argument) {
    if (!argument) exit(code);
    return argument;
}

static void *read_number(void *argument) {
    if (*(int *)argument != 7) exit(6);
    return argument;
}

static void at_end(void) { fprintf(stdout, "the end\n"); }

int main(int argc, char **argv) {
    pthread_t waiting, computing, quitting, reading;
    int number = 7;
    if (argc < 3) return 2;
    code = atoi(argv[2]);
    if (atexit(at_end) != 0) return 3;
    if (strchr(argv[1], 'w') && (pthread_create(&waiting, NULL, wait_for_ever, NULL) != 0 ||
                                 pthread_create(&computing, NULL, compute_for_ever, NULL) != 0))
        return 4;
    if (strchr(argv[1], 'q') &&
        (pthread_create(&quitting, NULL, quit, NULL) != 0 || pthread_join(quitting, NULL) != 0))
        return 5;
    if (strchr(argv[1], 's') &&
        (pthread_create(&reading, NULL, read_number, &number) != 0 || pthread_join(reading, NULL) != 0))
        return 7;
    return code;
}
