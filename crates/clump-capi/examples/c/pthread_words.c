/* Words of a text and how often they occur, counted by threads: a program for pthreads as any
 * other, with global variables, mutexes that are initialised statically, a queue under a condition
 * variable, lists made by malloc, and a barrier. On threads:
 *
 *   cc -O2 pthread_words.c -o words -lpthread
 *   ./words 4
 *
 * and, unchanged, on the ranks of a job:
 *
 *   clump-cc --clump-threads -O2 pthread_words.c -o words
 *   clump run -n 4 --nodes 2 ./words 4
 */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 400
#define BUCKETS 64
#define MAX_THREADS 64
#define ROOM 16

struct word {
    char *text;
    long count;
    struct word *next;
};

/* The text, and the queue of its lines. */
static char *lines[LINES];
static int queue[ROOM], first, waiting, all_given;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;

/* The words found. */
static struct word *table[BUCKETS];
static pthread_mutex_t bucket_lock[BUCKETS];
static pthread_barrier_t counted;
static long lines_of[MAX_THREADS], sums[MAX_THREADS];
static int threads = 4;

static unsigned hash(const char *text) {
    unsigned sum = 5381;
    while (*text) sum = sum * 33 + (unsigned char)*text++;
    return sum;
}

static void count_word(const char *text) {
    unsigned at = hash(text) % BUCKETS;
    struct word *one;
    pthread_mutex_lock(&bucket_lock[at]);
    for (one = table[at]; one && strcmp(one->text, text) != 0; one = one->next) continue;
    if (!one) {
        one = malloc(sizeof *one);
        one->text = strdup(text);
        one->count = 0;
        one->next = table[at];
        table[at] = one;
    }
    one->count++;
    pthread_mutex_unlock(&bucket_lock[at]);
}

static void count_line(const char *line) {
    char word[32];
    while (*line) {
        size_t length = strcspn(line, " ");
        memcpy(word, line, length);
        word[length] = 0;
        count_word(word);
        line += length + (line[length] == ' ');
    }
}

static void *work(void *argument) {
    int me = (int)(long)argument, at;
    for (;;) {
        int line;
        pthread_mutex_lock(&queue_lock);
        while (waiting == 0 && !all_given) pthread_cond_wait(&not_empty, &queue_lock);
        if (waiting == 0) {
            pthread_mutex_unlock(&queue_lock);
            break;
        }
        line = queue[first];
        first = (first + 1) % ROOM;
        waiting--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&queue_lock);
        count_line(lines[line]);
        lines_of[me]++;
    }
    pthread_barrier_wait(&counted);
    /* Behind the barrier each thread sums up some buckets, which others have filled. */
    for (at = me; at < BUCKETS; at += threads) {
        struct word *one;
        for (one = table[at]; one; one = one->next) sums[me] += one->count * (long)(hash(one->text) % 1000);
    }
    return (void *)(long)(sums[me] % 1000);
}

int main(int argc, char **argv) {
    static const char *const known[] = {"lane", "page", "home", "lock", "rank", "node", "diff", "twin"};
    pthread_t ids[MAX_THREADS];
    unsigned seed = 1;
    long due = 0, sum = 0, words = 0, done = 0, remainders = 0;
    int at;
    if (argc > 1) threads = atoi(argv[1]);
    if (threads < 1 || threads > MAX_THREADS) return 2;
    for (at = 0; at < LINES; at++) {
        char line[256] = "";
        int word, many = 3 + at % 9;
        for (word = 0; word < many; word++) {
            char text[32];
            seed = seed * 1103515245 + 12345;
            snprintf(text, sizeof text, "%s%s%u", word ? " " : "", known[seed >> 16 & 7], seed >> 20 & 31);
            strcat(line, text);
            due += (long)(hash(text + (word > 0)) % 1000);
        }
        lines[at] = strdup(line);
    }
    for (at = 0; at < BUCKETS; at++) pthread_mutex_init(&bucket_lock[at], NULL);
    pthread_barrier_init(&counted, NULL, (unsigned)threads);
    for (at = 0; at < threads; at++) {
        if (pthread_create(&ids[at], NULL, work, (void *)(long)at) != 0) return 1;
    }
    for (at = 0; at < LINES; at++) {
        pthread_mutex_lock(&queue_lock);
        while (waiting == ROOM) pthread_cond_wait(&not_full, &queue_lock);
        queue[(first + waiting++) % ROOM] = at;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&queue_lock);
    }
    pthread_mutex_lock(&queue_lock);
    all_given = 1;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&queue_lock);
    for (at = 0; at < threads; at++) {
        void *result;
        pthread_join(ids[at], &result);
        sum += sums[at];
        done += lines_of[at];
        remainders += (long)result == sums[at] % 1000;
    }
    for (at = 0; at < BUCKETS; at++) {
        struct word *one = table[at];
        while (one) {
            struct word *next = one->next;
            words++;
            free(one->text);
            free(one);
            one = next;
        }
    }
    for (at = 0; at < LINES; at++) free(lines[at]);
    pthread_barrier_destroy(&counted);
    printf("%ld words, sum %ld, %s\n", words, sum,
           sum == due && done == LINES && remainders == threads ? "as due" : "NOT as due");
    return sum != due;
}
