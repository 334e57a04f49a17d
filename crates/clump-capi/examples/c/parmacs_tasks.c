/* A queue of tasks in the style of PARMACS programs: workers take intervals, and halve those on
 * which Simpson's rule is not yet exact enough. On clump's shared virtual memory:
 *
 *   clump-cc -O2 -fPIC -no-pie -include clump/parmacs.h parmacs_tasks.c -o tasks -lm
 *   clump run -n 4 --nodes 2 ./tasks 4
 *
 * and, unchanged, on threads:
 *
 *   clump-cc -O2 -DCLUMP_PARMACS_THREADS -include clump/parmacs.h parmacs_tasks.c -o tasks -lm -lpthread
 *   ./tasks 4
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

#define ROOM 4096

typedef struct {
    double from, to;
} task;

typedef struct {
    LOCKDEC(queue)
    CONDVARDEC(changed)
    BARDEC(start)
    PAUSEDEC(go)
    ALOCKDEC(counters, 4)
    int tasks, busy, next_id;
    long count[4];
    task *waiting;
    double area;
} shared;

/* Set by main before it creates workers, and seen by them. */
static shared *gl;
static int workers;
static double tolerance;

static double f(double x) { return sqrt(x) * sin(x); }
static double simpson(double a, double b) { return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b)); }

static void work(void) {
    int me;
    LOCK(gl->queue);
    me = gl->next_id++;
    UNLOCK(gl->queue);
    WAITPAUSE(gl->go);
    BARRIER(gl->start, workers);
    for (;;) {
        task mine;
        double middle, whole, halves;
        LOCK(gl->queue);
        while (gl->tasks == 0 && gl->busy > 0) CONDVARWAIT(gl->changed, gl->queue);
        if (gl->tasks == 0) {
            CONDVARBCAST(gl->changed);
            UNLOCK(gl->queue);
            break;
        }
        mine = gl->waiting[--gl->tasks];
        gl->busy++;
        UNLOCK(gl->queue);
        middle = (mine.from + mine.to) / 2;
        whole = simpson(mine.from, mine.to);
        halves = simpson(mine.from, middle) + simpson(middle, mine.to);
        ALOCK(gl->counters, me % 4);
        gl->count[me % 4]++;
        AULOCK(gl->counters, me % 4);
        LOCK(gl->queue);
        if (fabs(whole - halves) < tolerance || gl->tasks + 2 > ROOM) {
            gl->area += halves;
        } else {
            gl->waiting[gl->tasks].from = mine.from;
            gl->waiting[gl->tasks++].to = middle;
            gl->waiting[gl->tasks].from = middle;
            gl->waiting[gl->tasks++].to = mine.to;
        }
        gl->busy--;
        CONDVARSIGNAL(gl->changed);
        if (gl->busy == 0) CONDVARBCAST(gl->changed);
        UNLOCK(gl->queue);
    }
}

int main(int argc, char **argv) {
    unsigned long began, ended;
    double due = 0;
    int at, right;
    MAIN_INITENV(, 80000000)
    workers = argc > 1 ? atoi(argv[1]) : 2;
    tolerance = 1e-9;
    gl = (shared *)G_MALLOC(sizeof *gl);
    gl->waiting = (task *)G_MALLOC(ROOM * sizeof(task));
    LOCKINIT(gl->queue);
    CONDVARINIT(gl->changed);
    BARINIT(gl->start, workers);
    PAUSEINIT(gl->go);
    ALOCKINIT(gl->counters, 4);
    gl->tasks = 1;
    gl->waiting[0].from = 0;
    gl->waiting[0].to = 10;
    CLOCK(began);
    for (at = 1; at < workers; at++) CREATE(work);
    SETPAUSE(gl->go);
    work();
    WAIT_FOR_END(workers - 1);
    CLOCK(ended);
    /* The same sum by many equal steps. */
    for (at = 0; at < 200000; at++) due += simpson(at * 5e-5, (at + 1) * 5e-5);
    right = fabs(gl->area - due) < 1e-5 && gl->next_id == workers && ended >= began;
    printf("area %.6f by %d workers is %s, %ld tasks\n", gl->area, workers, right ? "right" : "WRONG",
           gl->count[0] + gl->count[1] + gl->count[2] + gl->count[3]);
    fflush(stdout);
    G_FREE(gl->waiting);
    if (!right) exit(1);
    MAIN_END;
}
