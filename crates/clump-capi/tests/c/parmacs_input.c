/* A program as those of SPLASH are written: macros without semicolons, nodes of allocations, input
 * and allocations before MAIN_INITENV, a stream that main has set, output of workers that is not
 * flushed, large unused variables. */
#include <clump/parmacs.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV
EXTERN_ENV

typedef struct {
    LOCKDEC(lock)
    BARDEC(all)
    ALOCKDEC(several, 4)
    CONDVARDEC(changed)
    PAUSEDEC(go)
    int ran, given, right;
    unsigned long began, ended;
} shared;

static shared *gl;
static int workers, round_of_main;
static FILE *out;
static int (*compare)(const char *, const char *) = strcmp;
static char pages[64 << 20];

static void work(void) {
    int me, right;
    LOCK(gl->lock)
    me = ++gl->ran;
    UNLOCK(gl->lock)
    WAITPAUSE(gl->go)
    if (me == 1) {
        ALOCK(gl->several, 1)
        gl->given = 7;
        CONDVARBCAST(gl->changed)
        AULOCK(gl->several, 1)
    }
    ALOCK(gl->several, 1)
    while (gl->given != 7) CONDVARWAIT(gl->changed, AGETL(gl->several, 1))
    AULOCK(gl->several, 1)
    RELEASE_FENCE
    ACQUIRE_FENCE
    FULL_FENCE
    FENCE
    /* Pages are those of main, not what this rank has stored before. */
    right = pages[PAGE_SIZE * 9] == round_of_main && pages[PAGE_SIZE * 5000] == 0;
    right = right && pages[PAGE_SIZE * 9000] == (round_of_main == 1 ? 3 : 0) && compare("a", "a") == 0;
    pages[PAGE_SIZE * 5000] = 1;
    LOCK(gl->lock)
    gl->right += right;
    UNLOCK(gl->lock)
    BARRIER(gl->all, workers)
    fprintf(out, "worker %d of round %d\n", me, round_of_main);
#ifndef CLUMP_PARMACS_THREADS
    {
        svm_breakdown times;
        svm_times(svm_current(), &times);
        if (times.faults > 2000) printf("%lu pages were fetched\n", (unsigned long)times.faults);
    }
#endif
}

int main(int argc, char **argv) {
    int given = 0;
    gl = (shared *)G_MALLOC(sizeof *gl, 0);
    if (scanf("%d", &given) != 1) printf("no input\n");
    printf("main read %d\n", given);
    if (argc > 1 && compare(argv[1], "early") == 0) return 0;
    gl->given = given;
    MAIN_INITENV(, 70000000)
    workers = atoi(argv[argc - 1]);
    out = stdout;
    LOCKINIT(gl->lock)
    BARINIT(gl->all, workers)
    ALOCKINIT(gl->several, 4)
    CONDVARINIT(gl->changed)
    PAUSEINIT(gl->go)
    SPLASH3_ROI_BEGIN();
    CLOCK(gl->began)
    for (round_of_main = 1; round_of_main < 3; round_of_main++) {
        pages[PAGE_SIZE * 9] = (char)round_of_main;
        pages[PAGE_SIZE * 9000] = round_of_main == 1 ? 3 : 0;
        pages[PAGE_SIZE * 5000] = 0;
        gl->ran = 0;
        SETPAUSE(gl->go)
        CREATE(work, workers)
        WAIT_FOR_END(workers)
        CLEARPAUSE(gl->go)
        fflush(stdout);
    }
    CLOCK(gl->ended)
    SPLASH3_ROI_END();
    printf("%d of %d were right, %d\n", gl->right, 2 * workers, gl->ended >= gl->began);
    G_FREE(gl)
    MAIN_END
}
