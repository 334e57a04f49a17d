/* Memory of a program whose threads run on several ranks: its globals, its allocations, what the
 * kernel reads and writes of both. The same on threads of a process. Arguments: how many threads,
 * and a file that may be written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES 40
#define PAGE 4096

#define EXPECT(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct node {
    struct node *next;
    char *text;
    int by;
};

/* Initialised and not, small and large, with pointers to data and functions among them. */
static int numbers[5] = {1, 2, 3, 4, 5};
static const char *const *names;
static const char *const all_names[] = {"zero", "one", "two", "three"};
static long (*twice)(long);
static unsigned char large[PAGES * PAGE], transferred[PAGES * PAGE];
char far_apart[300][PAGE];
double shared_sum = 0.5;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t gate;
static struct node *list;
static int threads;
static char path[256];

static long double_of(long value) { return 2 * value; }

static char *printed(const char *format, ...) {
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    EXPECT(vasprintf(&text, format, arguments) > 0);
    va_end(arguments);
    return text;
}

static void push(int me, char *text) {
    struct node *one = calloc(1, sizeof *one);
    EXPECT(one->next == NULL && one->text == NULL);
    one->text = text;
    one->by = me;
    pthread_mutex_lock(&lock);
    one->next = list;
    list = one;
    shared_sum += me;
    pthread_mutex_unlock(&lock);
}

static void allocations(int me) {
    size_t alignment;
    char *text, *line = NULL;
    void *memory;
    size_t room = 0;
    FILE *file;
    push(me, strdup(names[me % 4]));
    push(me, strndup("cut off here", 7));
    push(me, printed("thread %d", me));
    for (alignment = 16; alignment <= 4096; alignment *= 4) {
        EXPECT(posix_memalign(&memory, alignment, 24) == 0 && (uintptr_t)memory % alignment == 0);
        free(memory);
        memory = aligned_alloc(alignment, alignment * 2);
        EXPECT(memory && (uintptr_t)memory % alignment == 0);
        free(memory);
    }
    text = malloc(10);
    strcpy(text, "123456789");
    text = realloc(text, 5000);
    EXPECT(strcmp(text, "123456789") == 0);
    memset(text + 9, 'x', 4990);
    text = realloc(text, 100000);
    EXPECT(memcmp(text, "123456789xxx", 12) == 0 && text[4998] == 'x');
    text = realloc(text, 20);
    EXPECT(memcmp(text, "123456789xxx", 12) == 0);
    free(text);
    free(NULL);
    EXPECT((memory = reallocarray(NULL, 100, 10)) != NULL);
    free(memory);
    file = fopen(path, "r");
    EXPECT(file && getline(&line, &room, file) == 8 && strcmp(line, "a line.\n") == 0);
    push(me, line);
    fclose(file);
}

/* Long reads and writes go to the kernel with pages that another thread has written. */
static void transfers(int me) {
    char own[280];
    int at, fd;
    FILE *file;
    snprintf(own, sizeof own, "%s.%d", path, me);
    for (at = me; at < PAGES; at += threads) memset(large + at * PAGE, at + 1, PAGE);
    pthread_barrier_wait(&gate);
    if (me == threads - 1) {
        EXPECT((fd = open(own, O_CREAT | O_RDWR | O_TRUNC, 0600)) >= 0);
        EXPECT(write(fd, large, sizeof large) == sizeof large);
        EXPECT(pwrite(fd, large + PAGE, PAGE, 0) == PAGE);
        EXPECT(lseek(fd, 0, SEEK_SET) == 0);
        EXPECT(read(fd, transferred, sizeof transferred) == sizeof transferred);
        EXPECT(pread(fd, transferred, PAGE, PAGE * 5) == PAGE);
        close(fd);
    }
    pthread_barrier_wait(&gate);
    if (me == 0) {
        EXPECT(transferred[0] == 6 && transferred[PAGE - 1] == 6);
        for (at = 1; at < PAGES; at++) EXPECT(transferred[at * PAGE] == at + 1);
        memset(transferred, 7, sizeof transferred);
    }
    pthread_barrier_wait(&gate);
    if (me == threads - 1) {
        EXPECT((file = fopen(own, "w+")) != NULL);
        EXPECT(fwrite(transferred, 1, sizeof transferred, file) == sizeof transferred);
        rewind(file);
        EXPECT(fread(large, 1, sizeof large, file) == sizeof large);
        fclose(file);
        unlink(own);
    }
    pthread_barrier_wait(&gate);
    for (at = 0; at < PAGES; at++) EXPECT(large[at * PAGE + me] == 7);
}

static void *work(void *argument) {
    int me = (int)(long)argument, at;
    EXPECT(numbers[0] == 100 && numbers[4] == 5 && twice(me) == 2 * me);
    allocations(me);
    transfers(me);
    /* Bytes of one page by all threads. */
    for (at = 0; at < 300; at++) far_apart[at][me] = (char)(me + at);
    pthread_barrier_wait(&gate);
    for (at = 0; at < 300; at++) EXPECT(far_apart[at][(me + 1) % threads] == (char)((me + 1) % threads + at));
    /* What a thread allocates, another gives back. */
    pthread_barrier_wait(&gate);
    pthread_mutex_lock(&lock);
    for (at = 0; at < 2; at++) {
        struct node *one = list;
        list = one->next;
        free(one->text);
        free(one);
    }
    pthread_mutex_unlock(&lock);
    return strdup("done");
}

int main(int argc, char **argv) {
    pthread_t ids[16];
    int at, left = 0;
    FILE *file;
    char *early = strdup("from the beginning");
    struct node *one;
    threads = argc > 1 ? atoi(argv[1]) : 4;
    snprintf(path, sizeof path, "%s", argc > 2 ? argv[2] : "/tmp/pthread_memory");
    EXPECT((file = fopen(path, "w")) != NULL && fputs("a line.\n", file) >= 0 && fclose(file) == 0);
    EXPECT(numbers[1] == 2 && shared_sum == 0.5 && twice == NULL && large[5] == 0);
    numbers[0] = 100;
    names = all_names;
    twice = double_of;
    pthread_barrier_init(&gate, NULL, (unsigned)threads);
    for (at = 0; at < threads; at++) EXPECT(pthread_create(&ids[at], NULL, work, (void *)(long)at) == 0);
    for (at = 0; at < threads; at++) {
        void *result;
        EXPECT(pthread_join(ids[at], &result) == 0 && strcmp(result, "done") == 0);
        free(result);
    }
    for (one = list; one; one = one->next) {
        EXPECT(one->by < threads && strlen(one->text) > 2);
        left++;
    }
    EXPECT(shared_sum == 0.5 + 4 * (threads * (threads - 1) / 2) && left == 2 * threads);
    EXPECT(strcmp(early, "from the beginning") == 0);
    free(early);
    unlink(path);
    printf("memory: %.1f %d\n", shared_sum, left);
    return 0;
}
