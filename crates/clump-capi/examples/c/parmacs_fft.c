/* Fourier transform of a long vector of complex numbers in six steps, in the style of PARMACS
 * programs: the vector is a square matrix, whose rows are dealt out to workers; three transposes
 * by tiles, in which each worker reads from all others, and transforms of whole rows between them.
 * Built as parmacs_tasks.c is.
 *
 *   ./fft [WORKERS [LOG]]        2 workers, 2^22 numbers; the logarithm is even
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

#define TILE 16
#define SAMPLES 5
/* Numbers of a page of memory. */
#define PAGE 256
/* Largest error that is accepted, in parts of the root of the vector's energy. */
#define MAX_ERROR 1e-12

typedef struct {
    double re, im;
} complex_t;

typedef struct {
    LOCKDEC(id_lock)
    BARDEC(step)
    int id;
    unsigned long began, ended;
    complex_t *matrix[2];
} shared;

static shared *gl;
static int workers, side;

static complex_t times(complex_t a, complex_t b) {
    complex_t product;
    product.re = a.re * b.re - a.im * b.im;
    product.im = a.re * b.im + a.im * b.re;
    return product;
}

/* exp(-2 pi i k / n) */
static complex_t root(double k, double n) {
    complex_t value;
    double angle = -2 * acos(-1.0) * (k / n);
    value.re = cos(angle);
    value.im = sin(angle);
    return value;
}

/* Both parts are in [-1, 1). */
static complex_t input(size_t at) {
    complex_t value;
    uint64_t bits = (at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 29) * UINT64_C(0xd6e8feb86659fd93);
    value.re = (double)(bits >> 32) / 2147483648.0 - 1;
    value.im = (double)((bits ^ bits >> 31) & UINT64_C(0xffffffff)) / 2147483648.0 - 1;
    return value;
}

/* Transforms a row in place. */
static void transform(complex_t *row, const complex_t *roots) {
    int at, to = 0, half, k, first;
    for (at = 0; at < side; at++) {
        int bit = side >> 1;
        if (at < to) {
            complex_t other = row[at];
            row[at] = row[to];
            row[to] = other;
        }
        /* Counts with the highest bit first. */
        for (; bit > 0 && (to & bit); bit >>= 1) to ^= bit;
        to |= bit;
    }
    for (half = 1; half < side; half *= 2) {
        int stride = side / (2 * half);
        for (first = 0; first < side; first += 2 * half) {
            complex_t *low = row + first, *high = low + half;
            for (k = 0; k < half; k++) {
                complex_t turned = times(high[k], roots[k * stride]), old = low[k];
                low[k].re = old.re + turned.re;
                low[k].im = old.im + turned.im;
                high[k].re = old.re - turned.re;
                high[k].im = old.im - turned.im;
            }
        }
    }
}

static int first_of(int worker) { return (int)((long)side * worker / workers); }

/* Writes the worker's rows of a matrix from columns of the other: first from its own rows, then
 * from those of the next worker, and so on, so that not all read from one at a time. */
static void transpose(int me, const complex_t *from, complex_t *to) {
    complex_t tile[TILE][TILE];
    int turn, row, column, i, j, mine = first_of(me), end = first_of(me + 1);
    for (turn = 0; turn < workers; turn++) {
        int from_whom = (me + turn) % workers, last = first_of(from_whom + 1);
        for (row = first_of(from_whom); row < last; row += TILE) {
            int height = last - row < TILE ? last - row : TILE;
            for (column = mine; column < end; column += TILE) {
                int width = end - column < TILE ? end - column : TILE;
                for (i = 0; i < height; i++) {
                    const complex_t *line = from + (size_t)(row + i) * side + column;
                    for (j = 0; j < width; j++) tile[j][i] = line[j];
                }
                for (j = 0; j < width; j++) {
                    complex_t *line = to + (size_t)(column + j) * side + row;
                    for (i = 0; i < height; i++) line[i] = tile[j][i];
                }
            }
        }
    }
}

static void work(void) {
    complex_t *roots, *fine, *a = gl->matrix[0], *b = gl->matrix[1];
    int me, row, k, first, last;
    size_t at;
    volatile double touched = 0;
    LOCK(gl->id_lock);
    me = gl->id++;
    UNLOCK(gl->id_lock);
    first = first_of(me);
    last = first_of(me + 1);
    roots = (complex_t *)malloc(side * sizeof(complex_t));
    fine = (complex_t *)malloc(side * sizeof(complex_t));
    for (k = 0; k < side; k++) {
        roots[k] = root(k, side);
        fine[k] = root(k, (double)side * side);
    }
    for (at = (size_t)first * side; at < (size_t)last * side; at++) {
        a[at] = input(at);
        b[at].re = b[at].im = 0;
    }
    BARRIER(gl->step, workers);
    /* The first access to a page of others costs a page fault in each process. */
    for (at = 0; at < (size_t)side * side; at += PAGE) touched += a[at].re + b[at].re;
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->began);
    transpose(me, a, b);
    BARRIER(gl->step, workers);
    for (row = first; row < last; row++) {
        complex_t *of = b + (size_t)row * side;
        transform(of, roots);
        /* By the root of the whole vector to the power row * k. */
        for (k = 0; k < side; k++) {
            int power = row * k;
            of[k] = times(of[k], times(roots[power / side], fine[power % side]));
        }
    }
    BARRIER(gl->step, workers);
    transpose(me, b, a);
    BARRIER(gl->step, workers);
    for (row = first; row < last; row++) transform(a + (size_t)row * side, roots);
    BARRIER(gl->step, workers);
    transpose(me, a, b);
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->ended);
    free(roots);
    free(fine);
}

/* The largest error: of the energy, and of some values by the definition. */
static double error(const complex_t *found, size_t count) {
    double given = 0, energy = 0, worst;
    size_t at, sample;
    for (at = 0; at < count; at++) {
        complex_t value = input(at);
        given += value.re * value.re + value.im * value.im;
        energy += found[at].re * found[at].re + found[at].im * found[at].im;
    }
    worst = fabs(energy / count / given - 1);
    for (sample = 0; sample < SAMPLES; sample++) {
        size_t k = (sample * count / SAMPLES * 7 + sample * sample) % count;
        double re = 0, im = 0, far;
        for (at = 0; at < count; at++) {
            complex_t term = times(input(at), root((double)(at * k % count), (double)count));
            re += term.re;
            im += term.im;
        }
        far = (fabs(found[k].re - re) + fabs(found[k].im - im)) / sqrt(given);
        if (!(far <= worst)) worst = far;
    }
    return worst;
}

int main(int argc, char **argv) {
    int log, right;
    double found;
    size_t count;
    MAIN_INITENV(, 80000000)
    workers = argc > 1 ? atoi(argv[1]) : 2;
    log = argc > 2 ? atoi(argv[2]) : 22;
    if (workers < 1 || log < 2 || log > 28 || log % 2 != 0) {
        fprintf(stderr, "usage: fft [WORKERS [LOG]], with an even LOG of 2 to 28\n");
        exit(2);
    }
    side = 1 << (log / 2);
    count = (size_t)side * side;
    gl = (shared *)G_MALLOC(sizeof *gl);
    gl->matrix[0] = (complex_t *)G_MALLOC(count * sizeof(complex_t));
    gl->matrix[1] = (complex_t *)G_MALLOC(count * sizeof(complex_t));
    LOCKINIT(gl->id_lock);
    BARINIT(gl->step, workers);
    gl->id = 0;
    CREATE(work, workers);
    WAIT_FOR_END(workers);
    found = error(gl->matrix[1], count);
    right = found < MAX_ERROR;
    printf("seconds %.6f\n", (gl->ended - gl->began) / 1e6);
    printf("fft of 2^%d numbers by %d workers is %s, error %.2g\n", log, workers,
           right ? "right" : "WRONG", found);
    fflush(stdout);
    if (!right) exit(1);
    MAIN_END;
}
