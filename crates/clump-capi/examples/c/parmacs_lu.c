/* Factorisation of a dense matrix into L and U without pivoting, in the style of PARMACS programs:
 * square blocks whose elements lie together, dealt out to workers in two dimensions. Built as
 * parmacs_tasks.c is.
 *
 *   ./lu [WORKERS [ORDER]]       2 workers, order 2048; the order is a multiple of 32
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

#define SIDE 32
/* Largest scaled residual that is accepted. */
#define MAX_RESIDUAL 50.0

typedef struct {
    double at[SIDE][SIDE];
} block;

typedef struct {
    LOCKDEC(id_lock)
    BARDEC(step)
    int id;
    unsigned long began, ended;
    block **blocks;
} shared;

static shared *gl;
static int workers, across;
/* Workers in a row of blocks, and in a column. */
static int in_row, in_column;

static int owner(int row, int column) { return row % in_column * in_row + column % in_row; }
static block *of(int row, int column) { return gl->blocks[row * across + column]; }

/* An element in [-1, 1), and the order more on the diagonal: no pivot is needed. */
static double element(int row, int column) {
    uint64_t bits = ((uint64_t)row << 32 | (uint64_t)column) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return (double)(bits >> 11) / 4503599627370496.0 - 1 + (row == column ? across * SIDE : 0);
}

static void fill(block *to, int row, int column) {
    int i, j;
    for (i = 0; i < SIDE; i++)
        for (j = 0; j < SIDE; j++) to->at[i][j] = element(row * SIDE + i, column * SIDE + j);
}

static void factorise(block *a) {
    int i, j, k;
    for (k = 0; k < SIDE; k++)
        for (i = k + 1; i < SIDE; i++) {
            double factor = a->at[i][k] /= a->at[k][k];
            for (j = k + 1; j < SIDE; j++) a->at[i][j] -= factor * a->at[k][j];
        }
}

/* A block below the diagonal, by U of the diagonal's block. */
static void divide(block *restrict a, const block *restrict diagonal) {
    int i, j, k;
    for (i = 0; i < SIDE; i++)
        for (k = 0; k < SIDE; k++) {
            double factor = a->at[i][k] /= diagonal->at[k][k];
            for (j = k + 1; j < SIDE; j++) a->at[i][j] -= factor * diagonal->at[k][j];
        }
}

/* A block right of the diagonal, by L of the diagonal's block. */
static void solve(block *restrict a, const block *restrict diagonal) {
    int i, j, k;
    for (i = 1; i < SIDE; i++)
        for (k = 0; k < i; k++) {
            double factor = diagonal->at[i][k];
            for (j = 0; j < SIDE; j++) a->at[i][j] -= factor * a->at[k][j];
        }
}

/* Subtracts the product of a block of L and one of U. */
static void update(block *restrict a, const block *restrict left, const block *restrict above) {
    int i, j, k;
    for (i = 0; i < SIDE; i++)
        for (k = 0; k < SIDE; k++) {
            double factor = left->at[i][k];
            for (j = 0; j < SIDE; j++) a->at[i][j] -= factor * above->at[k][j];
        }
}

static void work(void) {
    int me, row, column, k;
    LOCK(gl->id_lock);
    me = gl->id++;
    UNLOCK(gl->id_lock);
    for (row = 0; row < across; row++)
        for (column = 0; column < across; column++)
            if (owner(row, column) == me) fill(of(row, column), row, column);
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->began);
    for (k = 0; k < across; k++) {
        if (owner(k, k) == me) factorise(of(k, k));
        BARRIER(gl->step, workers);
        for (row = k + 1; row < across; row++) {
            if (owner(row, k) == me) divide(of(row, k), of(k, k));
            if (owner(k, row) == me) solve(of(k, row), of(k, k));
        }
        BARRIER(gl->step, workers);
        for (row = k + 1; row < across; row++)
            for (column = k + 1; column < across; column++)
                if (owner(row, column) == me) update(of(row, column), of(row, k), of(k, column));
    }
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->ended);
}

static double factor(int row, int column) {
    return of(row / SIDE, column / SIDE)->at[row % SIDE][column % SIDE];
}

/* |A x - L (U x)| / (n eps |A| |x|) in the largest norm, for a vector x of ones and minus ones. */
static double residual(void) {
    int row, column, order = across * SIDE;
    double *above = (double *)calloc(order, sizeof(double)), worst = 0, norm = 0;
    if (above == NULL) return HUGE_VAL;
    for (row = 0; row < order; row++)
        for (column = row; column < order; column++)
            above[row] += factor(row, column) * (column % 3 ? 1 : -1);
    for (row = 0; row < order; row++) {
        double product = above[row], exact = 0, sum = 0;
        for (column = 0; column < row; column++) product += factor(row, column) * above[column];
        for (column = 0; column < order; column++) {
            exact += element(row, column) * (column % 3 ? 1 : -1);
            sum += fabs(element(row, column));
        }
        /* No number is larger than one that is none. */
        if (!(fabs(exact - product) <= worst)) worst = fabs(exact - product);
        if (sum > norm) norm = sum;
    }
    free(above);
    return worst / (order * DBL_EPSILON * norm);
}

int main(int argc, char **argv) {
    int order, at, row, column, blocks_each;
    block **parts;
    double found;
    MAIN_INITENV(, 80000000)
    workers = argc > 1 ? atoi(argv[1]) : 2;
    order = argc > 2 ? atoi(argv[2]) : 2048;
    if (workers < 1 || order < SIDE || order % SIDE != 0) {
        fprintf(stderr, "usage: lu [WORKERS [ORDER]], with a multiple of %d for ORDER\n", SIDE);
        exit(2);
    }
    across = order / SIDE;
    for (at = 1; at * at <= workers; at++)
        if (workers % at == 0) in_column = at;
    in_row = workers / in_column;
    gl = (shared *)G_MALLOC(sizeof *gl);
    gl->blocks = (block **)G_MALLOC((size_t)across * across * sizeof(block *));
    LOCKINIT(gl->id_lock);
    BARINIT(gl->step, workers);
    gl->id = 0;
    /* Each worker's blocks lie together. */
    blocks_each = ((across + in_column - 1) / in_column) * ((across + in_row - 1) / in_row);
    parts = (block **)malloc(workers * sizeof(block *));
    for (at = 0; at < workers; at++) parts[at] = (block *)G_MALLOC(blocks_each * sizeof(block));
    for (row = 0; row < across; row++)
        for (column = 0; column < across; column++)
            gl->blocks[row * across + column] = parts[owner(row, column)]++;
    CREATE(work, workers);
    WAIT_FOR_END(workers);
    found = residual();
    printf("seconds %.6f\n", (gl->ended - gl->began) / 1e6);
    printf("lu of order %d by %d workers is %s, residual %.2g\n", order, workers,
           found < MAX_RESIDUAL ? "right" : "WRONG", found);
    fflush(stdout);
    if (!(found < MAX_RESIDUAL)) exit(1);
    MAIN_END;
}
