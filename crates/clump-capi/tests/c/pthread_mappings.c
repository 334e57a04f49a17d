/* Mappings that main makes and threads use. The same on threads of a process, but for those that
 * are refused: with the argument `refused`. Arguments: a file that may be written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define BYTES (300 * PAGE + 123) /* more than are read at once */
#define THREADS 3

#define EXPECT(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static unsigned char *data, *shown, *own, *grown;
static long sums[THREADS][2];
static pthread_barrier_t gate;

static void *work(void *argument) {
    long me = (long)argument, at;
    for (at = 0; at < BYTES; at++) sums[me][0] += data[at];
    for (at = 0; at < BYTES - 8 * PAGE; at++) sums[me][1] += shown[at];
    EXPECT(data[BYTES] == 0 && own[me] == 0);
    pthread_barrier_wait(&gate);
    /* Private mappings are of the process, and so of all its threads. */
    data[me * PAGE] = own[me] = grown[me] = (unsigned char)(me + 1);
    pthread_barrier_wait(&gate);
    for (at = 0; at < THREADS; at++)
        EXPECT(data[at * PAGE] == at + 1 && own[at] == at + 1 && grown[at] == at + 1);
    return NULL;
}

static void refused(int fd) {
    void *memory;
    EXPECT(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    EXPECT(errno == ENOTSUP);
    memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    EXPECT(mprotect(memory, PAGE, PROT_READ) == -1 && errno == ENOTSUP);
    EXPECT(mmap(memory, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED);
    EXPECT(madvise(memory, PAGE, MADV_DONTNEED) == -1);
    EXPECT(sbrk(PAGE) == (void *)-1 && sbrk(0) != (void *)-1);
    printf("refused\n");
}

int main(int argc, char **argv) {
    pthread_t ids[THREADS];
    static unsigned char bytes[BYTES];
    long at, due[2] = {0, 0};
    int fd;
    const char *path = argc > 1 ? argv[1] : "/tmp/pthread_mappings";
    for (at = 0; at < BYTES; at++) bytes[at] = (unsigned char)(at % 251);
    for (at = 0; at < BYTES; at++) due[0] += bytes[at];
    for (at = 8 * PAGE; at < BYTES; at++) due[1] += bytes[at];
    EXPECT((fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600)) >= 0);
    EXPECT(write(fd, bytes, BYTES) == BYTES);
    if (argc > 2) {
        refused(fd);
        unlink(path);
        return 0;
    }
    data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    shown = mmap(NULL, BYTES - 8 * PAGE, PROT_READ, MAP_SHARED, fd, 8 * PAGE);
    own = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    grown = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(data != MAP_FAILED && shown != MAP_FAILED && own != MAP_FAILED && grown != MAP_FAILED);
    grown[PAGE - 1] = 77;
    grown = mremap(grown, PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    EXPECT(grown != MAP_FAILED && grown[PAGE - 1] == 77 && grown[4 * PAGE] == 0);
    EXPECT(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
    close(fd);
    EXPECT(madvise(data, BYTES, MADV_SEQUENTIAL) == 0 && msync(own, PAGE, MS_SYNC) == 0);
    EXPECT(mprotect(own, PAGE, PROT_READ | PROT_WRITE) == 0);
    pthread_barrier_init(&gate, NULL, THREADS);
    for (at = 0; at < THREADS; at++) pthread_create(&ids[at], NULL, work, (void *)at);
    for (at = 0; at < THREADS; at++) {
        pthread_join(ids[at], NULL);
        EXPECT(sums[at][0] == due[0] && sums[at][1] == due[1]);
    }
    EXPECT(munmap(data, BYTES) == 0 && munmap(own, PAGE) == 0 && munmap(shown, BYTES - 8 * PAGE) == 0);
    unlink(path);
    printf("mappings: %ld %ld\n", due[0], due[1]);
    return 0;
}
