/* Lines that threads print, one after the other as locks and joins order them, with standard output
 * in a pipe. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, threads;

static void *work(void *argument) {
    int me = (int)(long)argument, round;
    for (round = 0; round < 3; round++) {
        pthread_mutex_lock(&lock);
        while (turn % threads != me) pthread_cond_wait(&changed, &lock);
        printf("round %d: thread %d\n", round, me);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *last(void *argument) {
    pthread_mutex_lock(&lock);
    if (++turn % threads == 0) printf("%d turns\n", turn);
    while (turn % threads != 0) pthread_cond_wait(&changed, &lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(int argc, char **argv) {
    pthread_t ids[8];
    long at;
    threads = argc > 1 ? atoi(argv[1]) : 3;
    for (at = 0; at < threads; at++) pthread_create(&ids[at], NULL, work, (void *)at);
    for (at = 0; at < threads; at++) pthread_join(ids[at], NULL);
    printf("behind the joins\n");
    for (at = 0; at < threads; at++) pthread_create(&ids[at], NULL, last, NULL);
    for (at = 0; at < threads; at++) {
        pthread_join(ids[at], NULL);
        printf("and behind them, again\n");
        fflush(stdout);
    }
    return 0;
}
