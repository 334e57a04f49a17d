/* Arguments and environment that one thread keeps pointers to, and others read. The same on threads
 * of a process. Arguments: -n WORD, and words with commas. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 6

static const char *word, *option, *home, *parts[2], *found[THREADS];
static char **all;
static int count;
static char lines[THREADS][200];

static void *work(void *argument) {
    long me = (long)argument;
    found[me] = getenv("PTHREAD_ARGUMENTS");
    snprintf(lines[me], sizeof lines[me], "%s %s %s %s+%s %s", word, option, home, parts[0],
             parts[1], all[count - 1]);
    return NULL;
}

int main(int argc, char **argv, char **envp) {
    pthread_t ids[THREADS];
    long at;
    int which, listed = 0;
    while ((which = getopt(argc, argv, "n:")) != -1)
        if (which == 'n') option = optarg;
    if (!option || optind + 2 > argc) return 2;
    word = argv[optind];
    home = getenv("PTHREAD_ARGUMENTS");
    parts[0] = strtok(argv[optind + 1], ",");
    parts[1] = strtok(NULL, ",");
    all = argv;
    count = argc;
    for (; *envp; envp++) listed += strcmp(*envp, "PTHREAD_ARGUMENTS=a value") == 0;
    for (at = 0; at < THREADS; at++) pthread_create(&ids[at], NULL, work, (void *)at);
    for (at = 0; at < THREADS; at++) pthread_join(ids[at], NULL);
    for (at = 0; at < THREADS; at++) {
        if (!found[at] || strcmp(found[at], home) != 0) return 3;
        printf("%ld: %s\n", at, lines[at]);
    }
    printf("listed %d\n", listed);
    return all[argc] != NULL;
}
