/* Shared code of the tests of <clump/am2.h>: checks, and a world in which every rank has an
 * endpoint and the names of all others, by rank. */
#ifndef AM2_WORLD_H
#define AM2_WORLD_H

#include <clump/am2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n  clump says: %s\n", __FILE__, __LINE__, #condition,         \
                    clump_error_text());                                                                     \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

/* `call` returns that code, and leaves a text if it is an error. */
#define GIVES(code, call)                                                                                    \
    do {                                                                                                     \
        clump_error_clear();                                                                                 \
        int gives_got_ = (call);                                                                             \
        if (gives_got_ != (code) || (gives_got_ != AM_OK && clump_error_text()[0] == '\0')) {                \
            fprintf(stderr, "%s:%d: %s gave %d, not %s; clump says: %s\n", __FILE__, __LINE__, #call,        \
                    gives_got_, #code, clump_error_text());                                                  \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

#define OK(call) GIVES(AM_OK, call)

/* Maximum duration of a test; a longer one hangs. */
#define TIME_LIMIT_S 100

#define WORLD_TAG ((tag_t)0xfeedfacecafebeefu)

/* This rank, and the number of ranks. */
static int me, ranks;
static clump_t *job;
static eb_t eb;
static ep_t ep;
/* By rank. */
static en_t *names;

/* Waits until `condition` holds, which a message to this rank brings about. */
#define UNTIL(condition)                                                                                     \
    do {                                                                                                     \
        while (!(condition)) OK(AM_WaitSema(eb));                                                            \
    } while (0)

static inline int same_name(en_t a, en_t b) { return a.bits == b.bits; }

/* Starts: a bundle, an endpoint with tag WORLD_TAG, and entries 0.. of its table for all ranks.
 * Handlers are set before others may send: `set_handlers` does that. */
static inline void world_begin(int type, void (*set_handlers)(void)) {
    alarm(TIME_LIMIT_S);
    OK(AM_Init());
    job = clump_am_job();
    EXPECT(job != NULL);
    me = clump_rank(job);
    ranks = clump_nranks(job);
    OK(AM_AllocateBundle(type, &eb));
    en_t name;
    OK(AM_AllocateEndpoint(eb, &ep, &name));
    OK(AM_SetTag(ep, WORLD_TAG));
    OK(AM_SetEventMask(eb, AM_NOTEMPTY));
    names = (en_t *)calloc((size_t)ranks, sizeof *names);
    EXPECT(names != NULL && clump_all_gather(job, &name, sizeof name, names) == 0);
    EXPECT(same_name(names[me], name) && clump_am_rank_of(name) == me);
    for (int rank = 0; rank < ranks; rank++) OK(AM_Map(ep, rank, names[rank], WORLD_TAG));
    set_handlers();
    EXPECT(clump_barrier(job) == 0);
}

/* Ends when all ranks have called it; messages of others are handled meanwhile. */
static inline void world_end(void) {
    EXPECT(clump_barrier(job) == 0);
    int rank = me;
    free(names);
    OK(AM_Terminate());
    if (rank == 0) puts("rank 0: all is right");
}

#endif /* AM2_WORLD_H */
