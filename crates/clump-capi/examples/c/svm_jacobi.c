/* Relaxation of a square by rows, in shared virtual memory:
 *
 *   clump-cc -O2 svm_jacobi.c -o svm_jacobi -lm && clump run -n 4 --nodes 2 ./svm_jacobi
 */
#include <clump/svm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double *from, *to, largest;
    svm_lock lock;
} shared;

/* One step on rows [first, last) of a square of n rows; returns the largest change. */
static double step(const double *from, double *to, int n, int first, int last) {
    double largest = 0;
    for (int i = first; i < last; i++) {
        for (int j = 1; j < n - 1; j++) {
            double value = .25 * (from[(i - 1) * n + j] + from[(i + 1) * n + j] + from[i * n + j - 1] +
                                  from[i * n + j + 1]);
            largest = fmax(largest, fabs(value - from[i * n + j]));
            to[i * n + j] = value;
        }
    }
    return largest;
}

static void heat(double *rows, int n) {
    for (int j = 0; j < n; j++) rows[j] = 1 + j % 7;
}

/* Returns 1 if the square is that of the same steps in private memory. */
static int is_serial(const double *found, int n, int steps) {
    double *from = calloc((size_t)n * n, sizeof *from), *to = calloc((size_t)n * n, sizeof *to), *swap;
    int same = 1;
    heat(from, n);
    heat(to, n);
    for (int at = 0; at < steps; at++, swap = from, from = to, to = swap) step(from, to, n, 1, n - 1);
    for (int at = 0; at < n * n; at++) same &= from[at] == found[at];
    free(from);
    free(to);
    return same;
}

int main(int argc, char **argv) {
    clump_t *cl = svm_init(&argc, &argv, 1);
    if (cl == NULL) return fprintf(stderr, "%s\n", clump_error_text()), 1;
    int n = argc > 1 ? atoi(argv[1]) : 256, steps = 20, right = 1;
    int me = svm_proc_id(cl), all = svm_nprocs(cl);
    shared *g = svm_alloc_once(cl, sizeof *g);
    if (me == 0) {
        g->from = svm_alloc(cl, (size_t)n * n * sizeof(double), SVM_HOME_BLOCK);
        g->to = svm_alloc(cl, (size_t)n * n * sizeof(double), SVM_HOME_BLOCK);
        svm_lock_init(&g->lock);
        heat(g->from, n);
        heat(g->to, n);
    }
    svm_barrier(cl);
    int first = 1 + me * (n - 2) / all, last = 1 + (me + 1) * (n - 2) / all;
    for (int at = 0; at < steps; at++) {
        double mine = step(at % 2 ? g->to : g->from, at % 2 ? g->from : g->to, n, first, last);
        svm_lock_acquire(&g->lock);
        g->largest = at == 0 ? fmax(g->largest, mine) : mine;
        svm_lock_release(&g->lock);
        svm_barrier(cl);
    }
    if (me == 0) {
        right = is_serial(g->from, n, steps);
        printf("%d steps on %d ranks %s those of one\n", steps, all, right ? "are" : "ARE NOT");
    }
    svm_barrier(cl);
    clump_finalize(cl);
    return !right;
}
