/* Currents in a square basin, in the style of PARMACS programs: the equation of Poisson by
 * multigrid with red-black relaxation. Workers have rows of every grid and read their neighbours'
 * rows behind barriers; the residual is summed up under a lock. Built as parmacs_tasks.c is.
 *
 *   ./ocean [WORKERS [SIDE [CYCLES]]]        2 workers, 256 cells a side, 24 cycles
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

#define LEVELS 16
#define COARSEST 4
#define SWEEPS 2
#define COARSE_SWEEPS 12
#define MAX_CYCLES 1000
/* Errors that are accepted: of the grid itself, in squares of a cell's width, and of the cycles, in
 * parts of the first residual. */
#define MAX_ERROR 12.0
#define MAX_LEFT 1e-6

/* Points of a square on the corners of its cells, row by row. The flow is 0 on the coast. */
typedef struct {
    double *flow, *source, *left;
} grid;

typedef struct {
    LOCKDEC(id_lock)
    LOCKDEC(sum_lock)
    BARDEC(step)
    int id;
    unsigned long began, ended;
    double residual[MAX_CYCLES];
    grid level[LEVELS];
} shared;

static shared *gl;
static int workers, side, levels, cycles;

static double pi(void) { return acos(-1.0); }
static double wave(int at, int times) { return sin(pi() * times * at / side); }
static double exact(int i, int j) { return wave(i, 1) * wave(j, 1) + wave(i, 2) * wave(j, 3) / 2; }
/* Minus the Laplacian of the exact flow. */
static double source(int i, int j) {
    return pi() * pi() * (2 * wave(i, 1) * wave(j, 1) + 6.5 * wave(i, 2) * wave(j, 3));
}

static int cells(int level) { return side >> level; }
/* The first of a worker's rows of points inside; its last is before the next worker's first. */
static int first_row(int level, int me) {
    return 1 + (int)((long)(cells(level) - 1) * me / workers);
}

/* Relaxes the points of one colour. */
static void relax(int level, int me, int colour) {
    int i, j, n = cells(level), last = first_row(level, me + 1);
    double area = 1.0 / ((double)n * n);
    for (i = first_row(level, me); i < last; i++) {
        double *here = gl->level[level].flow + (size_t)i * (n + 1);
        const double *above = here - (n + 1), *below = here + (n + 1);
        const double *due = gl->level[level].source + (size_t)i * (n + 1);
        for (j = 1 + (i + colour) % 2; j < n; j += 2)
            here[j] = .25 * (above[j] + below[j] + here[j - 1] + here[j + 1] + area * due[j]);
    }
}

/* Finds what is left of the source, and returns the sum of its squares. */
static double find_left(int level, int me) {
    int i, j, n = cells(level), last = first_row(level, me + 1);
    double by_area = (double)n * n, sum = 0;
    for (i = first_row(level, me); i < last; i++) {
        const double *here = gl->level[level].flow + (size_t)i * (n + 1);
        const double *above = here - (n + 1), *below = here + (n + 1);
        const double *due = gl->level[level].source + (size_t)i * (n + 1);
        double *left = gl->level[level].left + (size_t)i * (n + 1);
        for (j = 1; j < n; j++) {
            double around = above[j] + below[j] + here[j - 1] + here[j + 1];
            left[j] = due[j] - by_area * (4 * here[j] - around);
            sum += left[j] * left[j];
        }
    }
    return sum;
}

/* Makes the source of the next grid of what is left on this one. */
static void to_coarser(int level, int me) {
    int i, j, n = cells(level), half = n / 2, last = first_row(level + 1, me + 1);
    for (i = first_row(level + 1, me); i < last; i++) {
        const double *here = gl->level[level].left + (size_t)2 * i * (n + 1);
        const double *above = here - (n + 1), *below = here + (n + 1);
        double *due = gl->level[level + 1].source + (size_t)i * (half + 1);
        double *flow = gl->level[level + 1].flow + (size_t)i * (half + 1);
        for (j = 1; j < half; j++) {
            int k = 2 * j;
            double edges = above[k] + below[k] + here[k - 1] + here[k + 1];
            double corners = above[k - 1] + above[k + 1] + below[k - 1] + below[k + 1];
            due[j] = (4 * here[k] + 2 * edges + corners) / 16;
            flow[j] = 0;
        }
    }
}

/* Adds the flow of the next grid to that of this one. */
static void to_finer(int level, int me) {
    int i, j, n = cells(level), half = n / 2, last = first_row(level, me + 1);
    for (i = first_row(level, me); i < last; i++) {
        double *here = gl->level[level].flow + (size_t)i * (n + 1);
        const double *upper = gl->level[level + 1].flow + (size_t)(i / 2) * (half + 1);
        const double *lower = gl->level[level + 1].flow + (size_t)((i + 1) / 2) * (half + 1);
        for (j = 1; j < n; j++) {
            int k = j / 2, l = (j + 1) / 2;
            here[j] += .25 * (upper[k] + upper[l] + lower[k] + lower[l]);
        }
    }
}

static void sweep(int level, int me, int times) {
    int turn;
    for (turn = 0; turn < 2 * times; turn++) {
        relax(level, me, turn % 2);
        BARRIER(gl->step, workers);
    }
}

static void cycle(int me) {
    int level;
    for (level = 0; level < levels - 1; level++) {
        sweep(level, me, SWEEPS);
        find_left(level, me);
        BARRIER(gl->step, workers);
        to_coarser(level, me);
        BARRIER(gl->step, workers);
    }
    sweep(level, me, COARSE_SWEEPS);
    while (level-- > 0) {
        to_finer(level, me);
        BARRIER(gl->step, workers);
        sweep(level, me, SWEEPS);
    }
}

static void work(void) {
    int me, level, i, j, turn;
    LOCK(gl->id_lock);
    me = gl->id++;
    UNLOCK(gl->id_lock);
    for (level = 0; level < levels; level++) {
        grid *of = &gl->level[level];
        int n = cells(level), last = me + 1 == workers ? n + 1 : first_row(level, me + 1);
        for (i = me == 0 ? 0 : first_row(level, me); i < last; i++)
            for (j = 0; j <= n; j++) {
                size_t at = (size_t)i * (n + 1) + j;
                of->flow[at] = of->left[at] = 0;
                of->source[at] = level == 0 ? source(i, j) : 0;
            }
    }
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->began);
    for (turn = 0; turn < cycles; turn++) {
        double sum;
        cycle(me);
        sum = find_left(0, me);
        LOCK(gl->sum_lock);
        gl->residual[turn] += sum;
        UNLOCK(gl->sum_lock);
        BARRIER(gl->step, workers);
    }
    if (me == 0) CLOCK(gl->ended);
}

/* The largest error, in squares of a cell's width. */
static double error(void) {
    double worst = 0;
    int i, j;
    for (i = 0; i <= side; i++)
        for (j = 0; j <= side; j++) {
            double far = fabs(gl->level[0].flow[(size_t)i * (side + 1) + j] - exact(i, j));
            if (!(far <= worst)) worst = far;
        }
    return worst * side * side;
}

int main(int argc, char **argv) {
    int level, right;
    double found, left;
    MAIN_INITENV(, 80000000)
    workers = argc > 1 ? atoi(argv[1]) : 2;
    side = argc > 2 ? atoi(argv[2]) : 256;
    cycles = argc > 3 ? atoi(argv[3]) : 24;
    if (workers < 1 || side < 8 || side > 16384 || (side & (side - 1)) != 0 || cycles < 8 ||
        cycles > MAX_CYCLES) {
        fprintf(stderr, "usage: ocean [WORKERS [SIDE [CYCLES]]], with a power of two for SIDE, and "
                        "8 to %d CYCLES\n", MAX_CYCLES);
        exit(2);
    }
    gl = (shared *)G_MALLOC(sizeof *gl);
    for (levels = 0; cells(levels) >= COARSEST; levels++) {
        size_t points = (size_t)(cells(levels) + 1) * (cells(levels) + 1);
        gl->level[levels].flow = (double *)G_MALLOC(points * sizeof(double));
        gl->level[levels].source = (double *)G_MALLOC(points * sizeof(double));
        gl->level[levels].left = (double *)G_MALLOC(points * sizeof(double));
    }
    LOCKINIT(gl->id_lock);
    LOCKINIT(gl->sum_lock);
    BARINIT(gl->step, workers);
    for (level = 0; level < cycles; level++) gl->residual[level] = 0;
    gl->id = 0;
    CREATE(work, workers);
    WAIT_FOR_END(workers);
    found = error();
    left = sqrt(gl->residual[cycles - 1] / gl->residual[0]);
    right = found < MAX_ERROR && left < MAX_LEFT;
    printf("seconds %.6f\n", (gl->ended - gl->began) / 1e6);
    printf("ocean of %d cells a side by %d workers is %s, error %.3f squares of a cell\n", side,
           workers, right ? "right" : "WRONG", found);
    fflush(stdout);
    if (!right) exit(1);
    MAIN_END;
}
