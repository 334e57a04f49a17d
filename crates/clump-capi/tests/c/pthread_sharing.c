/* What threads share by the setting CLUMP_SVM_SHARE. A thread of another rank stores to a global
 * variable, to memory of malloc and to memory of the heap; main prints which of it can be seen. */
#define _GNU_SOURCE
#include <clump/svm.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct found {
    int global, local;
    char *text;
};

static int global = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument) {
    struct found *found = argument;
    int on_stack = 5;
    pthread_mutex_lock(&lock);
    found->global = global;
    found->local = on_stack;
    found->text = malloc(16);
    strcpy(found->text, "from afar");
    global = 3;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    pthread_t other;
    struct found *found = svm_workers_alloc(sizeof *found, 0);
    char *text;
    int seen, mallocs;
    if (!found) return 1;
    global = 2;
    if (pthread_create(&other, NULL, work, found) != 0 || pthread_join(other, NULL) != 0) return 1;
    pthread_mutex_lock(&lock);
    seen = found->global == 2 && global == 3;
    if (!seen && (found->global != 1 || global != 2)) return 2;
    text = found->text;
    /* Memory of malloc that is not shared lies far from the heap. */
    mallocs = labs((long)((intptr_t)text - (intptr_t)found)) < 1L << 37;
    if (mallocs && strcmp(text, "from afar") != 0) return 3;
    pthread_mutex_unlock(&lock);
    printf("heap %s, globals %s, malloc %s\n", found->local == 5 ? "shared" : "private",
           seen ? "shared" : "private", mallocs ? "shared" : "private");
    if (mallocs) free(text);
    return svm_workers_free(found) < 0;
}
