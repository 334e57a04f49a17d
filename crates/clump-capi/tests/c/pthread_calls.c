/* Calls that hand pointers to the kernel, all of them to memory that threads share: variables and
 * allocations, which another thread has written. The same on threads of a process. Arguments: a
 * file that may be written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define LONG (20 * PAGE)

#define EXPECT(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Each on pages of its own, so that a call finds none of them at hand. */
#define OWN_PAGE __attribute__((aligned(PAGE)))
static char path[2 * PAGE] OWN_PAGE, other[2 * PAGE] OWN_PAGE, text[LONG + PAGE] OWN_PAGE;
static unsigned char out[LONG] OWN_PAGE, in[LONG] OWN_PAGE;
static struct stat about OWN_PAGE;
static struct statvfs volume OWN_PAGE;
static struct rusage used OWN_PAGE;
static struct rlimit limit OWN_PAGE;
static struct utsname machine OWN_PAGE;
static struct iovec parts[3] OWN_PAGE;
static struct pollfd polled[2] OWN_PAGE;
static struct epoll_event event OWN_PAGE, happened[4] OWN_PAGE;
static struct msghdr message OWN_PAGE;
static struct sockaddr_un address OWN_PAGE;
static struct timespec when OWN_PAGE, left OWN_PAGE;
static struct timeval now OWN_PAGE;
static sigset_t set OWN_PAGE, before OWN_PAGE;
static socklen_t bytes OWN_PAGE;
static fd_set ready OWN_PAGE;
static int ends[2] OWN_PAGE, value OWN_PAGE, status OWN_PAGE;
static char folder[2 * PAGE] OWN_PAGE, name[PAGE] OWN_PAGE;
static char *words[4] OWN_PAGE;
static pthread_barrier_t gate;

/* Written by main, so that the other rank has none of it. */
static void prepare(const char *file) {
    int at;
    for (at = 0; at < LONG; at++) out[at] = (unsigned char)(at * 7 + at / PAGE);
    memset(in, 9, sizeof in);
    memset(&about, 9, sizeof about);
    memset(&used, 9, sizeof used);
    memset(&machine, 9, sizeof machine);
    memset(text, 't', LONG);
    ends[0] = ends[1] = value = status = 9;
    snprintf(path, sizeof path, "%s.calls", file);
    snprintf(other, sizeof other, "%s.other", file);
    bytes = sizeof address;
    parts[0].iov_base = out;
    parts[0].iov_len = PAGE + 100;
    parts[1].iov_base = strdup("in the middle");
    parts[1].iov_len = 13;
    parts[2].iov_base = out + 2 * PAGE;
    parts[2].iov_len = 3 * PAGE;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    when.tv_nsec = 1000;
}

static void files(void) {
    int fd, at;
    FILE *file;
    EXPECT((fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600)) >= 0);
    EXPECT(write(fd, out, LONG) == LONG && pwrite(fd, out, PAGE, LONG) == PAGE);
    EXPECT(pread(fd, in, LONG, 0) == LONG && memcmp(in, out, LONG) == 0);
    EXPECT(fstat(fd, &about) == 0 && about.st_size == LONG + PAGE);
    EXPECT(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    EXPECT(writev(fd, parts, 3) == 4 * PAGE + 113);
    EXPECT(lseek(fd, PAGE + 100, SEEK_SET) == PAGE + 100 && read(fd, in, 13) == 13);
    EXPECT(memcmp(in, "in the middle", 13) == 0);
    memset(out, 0, PAGE);
    EXPECT(preadv(fd, parts, 3, 0) == 4 * PAGE + 113 && out[1] == 7 && out[300] == (300 * 7) % 256);
    close(fd);
    EXPECT(stat(path, &about) == 0 && about.st_size == 4 * PAGE + 113 && access(path, R_OK) == 0);
    EXPECT(rename(path, other) == 0 && symlink(other, path) == 0);
    EXPECT(readlink(path, folder, sizeof folder) == (ssize_t)strlen(other));
    EXPECT(memcmp(folder, other, strlen(other)) == 0 && lstat(path, &about) == 0);
    EXPECT(S_ISLNK(about.st_mode) && unlink(path) == 0);
    EXPECT(statvfs(other, &volume) == 0 && volume.f_bsize > 0);
    EXPECT((file = fopen(path, "w+")) != NULL);
    EXPECT(fprintf(file, "%d %s", 5, text) == LONG + 2 && fputs(text, file) >= 0);
    rewind(file);
    EXPECT(fread(in, 1, 10, file) == 10 && memcmp(in, "5 tttttttt", 10) == 0);
    EXPECT(fseek(file, 0, SEEK_END) == 0 && ftell(file) == 2 * LONG + 2);
    fclose(file);
    EXPECT(unlink(path) == 0 && unlink(other) == 0);
    EXPECT(getcwd(folder, sizeof folder) == folder && folder[0] == '/');
    snprintf(path, sizeof path, "/tmp/pthread_calls.XXXXXX");
    EXPECT((fd = mkstemp(path)) >= 0 && strcmp(path + 19, "XXXXXX") != 0);
    EXPECT(close(fd) == 0 && unlink(path) == 0);
    for (at = 0; at < 3; at++) EXPECT(out[at] == at * 7);
}

static void pipes_and_sockets(void) {
    struct sockaddr_un own;
    int ours[2], listener, queue, file;
    char *buffer = malloc(LONG);
    EXPECT(pipe(ends) == 0 && ends[0] > 2 && ends[1] > 2);
    EXPECT(write(ends[1], out, 100) == 100);
    polled[0].fd = ends[0];
    polled[0].events = POLLIN;
    EXPECT(poll(polled, 1, 10000) == 1 && polled[0].revents == POLLIN);
    FD_ZERO(&ready);
    FD_SET(ends[0], &ready);
    now.tv_sec = 10;
    EXPECT(select(ends[0] + 1, &ready, NULL, NULL, &now) == 1 && FD_ISSET(ends[0], &ready));
    EXPECT((queue = epoll_create1(0)) >= 0);
    event.events = EPOLLIN;
    event.data.u64 = 77;
    EXPECT(epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event) == 0);
    EXPECT(epoll_wait(queue, happened, 4, 10000) == 1 && happened[0].data.u64 == 77);
    EXPECT(ioctl(ends[0], FIONREAD, &value) == 0 && value == 100);
    EXPECT(read(ends[0], buffer, LONG) == 100 && memcmp(buffer, out, 100) == 0);
    close(ends[0]);
    close(ends[1]);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ours) == 0);
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    EXPECT(sendmsg(ours[0], &message, 0) == 4 * PAGE + 113);
    EXPECT(recv(ours[1], buffer, PAGE, MSG_WAITALL) == PAGE && memcmp(buffer, out, PAGE) == 0);
    EXPECT(recvfrom(ours[1], in, 100, MSG_WAITALL, NULL, NULL) == 100);
    memset(out + 2 * PAGE, 0, 3 * PAGE);
    close(ours[0]);
    EXPECT(recvmsg(ours[1], &message, MSG_WAITALL) > 0 && message.msg_iov == parts);
    bytes = sizeof value;
    value = 0;
    EXPECT(getsockopt(ours[1], SOL_SOCKET, SO_TYPE, &value, &bytes) == 0 && value == SOCK_STREAM);
    close(ours[1]);
    EXPECT((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path + 1, 60, "pthread_calls.%ld", (long)getpid());
    own = address;
    EXPECT(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    memset(&address, 0, sizeof address);
    bytes = sizeof address;
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0);
    EXPECT(bytes == sizeof address && memcmp(&own, &address, sizeof own) == 0);
    EXPECT(listen(listener, 1) == 0 && (file = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    EXPECT(connect(file, (struct sockaddr *)&address, sizeof address) == 0);
    close(file);
    close(listener);
    close(queue);
    free(buffer);
}

static void processes(void) {
    pid_t child;
    EXPECT(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_utime.tv_sec < 1000000);
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 2);
    EXPECT(uname(&machine) == 0 && strcmp(machine.sysname, "Linux") == 0);
    EXPECT(gethostname(name, sizeof name) == 0 && strcmp(name, machine.nodename) == 0);
    EXPECT(gettimeofday(&now, NULL) == 0 && now.tv_sec > 1000000);
    EXPECT(nanosleep(&when, &left) == 0);
    EXPECT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &when) == 0 && when.tv_nsec < 1000000000);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGUSR2));
    EXPECT(raise(SIGUSR2) == 0 && sigpending(&before) == 0 && sigismember(&before, SIGUSR2));
    EXPECT(sigwait(&set, &value) == 0 && value == SIGUSR2);
    snprintf(text, PAGE, "test -n \"$PATH\" && exit 3");
    EXPECT((status = system(text)) >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    status = 9;
    child = fork();
    if (child == 0) _exit(4);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
    words[0] = strdup("sh");
    words[1] = strdup("-c");
    words[2] = strdup("exit 6");
    child = vfork();
    if (child == 0) {
        execvp(words[0], words);
        _exit(5);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
}

static void *work(void *argument) {
    pthread_barrier_wait(&gate);
    files();
    pipes_and_sockets();
    processes();
    return argument;
}

int main(int argc, char **argv) {
    pthread_t id;
    pthread_barrier_init(&gate, NULL, 2);
    prepare(argc > 1 ? argv[1] : "/tmp/pthread_calls");
    EXPECT(pthread_create(&id, NULL, work, NULL) == 0);
    pthread_barrier_wait(&gate);
    EXPECT(pthread_join(id, NULL) == 0);
    EXPECT(strcmp(machine.sysname, "Linux") == 0);
    printf("calls: %ld bytes, signal %d\n", (long)about.st_size, value);
    return 0;
}
