/* Waves on a square pond in the style of PARMACS programs: each worker has rows, and neighbours'
 * rows are read behind barriers; the energy is summed up under a lock. Built as parmacs_tasks.c is.
 */
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

typedef struct {
    LOCKDEC(id_lock)
    LOCKDEC(energy_lock)
    BARDEC(sweep)
    int id;
    double energy;
    double **level[3];
} pond;

static pond *gl;
static int workers, side, steps;

static void waves(void) {
    int me, step, i, j, first, last;
    LOCK(gl->id_lock);
    me = gl->id++;
    UNLOCK(gl->id_lock);
    first = 1 + me * (side - 2) / workers;
    last = 1 + (me + 1) * (side - 2) / workers;
    BARRIER(gl->sweep, workers);
    for (step = 0; step < steps; step++) {
        double **before = gl->level[step % 3], **now = gl->level[(step + 1) % 3];
        double **next = gl->level[(step + 2) % 3], energy = 0;
        for (i = first; i < last; i++) {
            for (j = 1; j < side - 1; j++) {
                double around = now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1];
                next[i][j] = 2 * now[i][j] - before[i][j] + .25 * (around - 4 * now[i][j]);
                energy += next[i][j] * next[i][j];
            }
        }
        LOCK(gl->energy_lock);
        gl->energy += energy;
        UNLOCK(gl->energy_lock);
        BARRIER(gl->sweep, workers);
    }
}

/* A sum over the pond that depends on every bit of it. */
static double digest(double **rows) {
    double sum = 0;
    int i, j;
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) sum = sum * 0.999 + rows[i][j];
    return sum;
}

static void drop(void) {
    int level, i;
    for (level = 0; level < 3; level++) {
        for (i = 0; i < side; i++) {
            int j;
            for (j = 0; j < side; j++) gl->level[level][i][j] = 0;
        }
        gl->level[level][side / 3][side / 2] = level < 2;
    }
    gl->id = 0;
    gl->energy = 0;
}

int main(int argc, char **argv) {
    int level, i, all, right;
    double parallel, energy;
    MAIN_INITENV(, 80000000)
    all = argc > 1 ? atoi(argv[1]) : 2;
    side = argc > 2 ? atoi(argv[2]) : 66;
    steps = 12;
    gl = (pond *)G_MALLOC(sizeof(pond));
    LOCKINIT(gl->id_lock);
    LOCKINIT(gl->energy_lock);
    BARINIT(gl->sweep, all);
    for (level = 0; level < 3; level++) {
        gl->level[level] = (double **)G_MALLOC(side * sizeof(double *));
        for (i = 0; i < side; i++) gl->level[level][i] = (double *)G_MALLOC(side * sizeof(double));
    }
    drop();
    workers = all;
    CREATE(waves, all);
    WAIT_FOR_END(all);
    parallel = digest(gl->level[(steps + 1) % 3]);
    energy = gl->energy;
    /* The same by one worker. */
    drop();
    workers = 1;
    BARINIT(gl->sweep, 1);
    waves();
    right = digest(gl->level[(steps + 1) % 3]) == parallel && energy > 0;
    printf("waves by %d workers %s those of one\n", all, right ? "are" : "ARE NOT");
    fflush(stdout);
    if (!right) exit(1);
    MAIN_END;
}
