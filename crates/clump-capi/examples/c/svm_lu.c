/* Factorisation of a dense matrix without pivoting, rows dealt out to ranks, in shared virtual
 * memory; each row is announced by a flag:
 *
 *   clump-cc -O2 svm_lu.c -o svm_lu && clump run -n 4 --nodes 2 ./svm_lu
 */
#include <clump/svm.h>
#include <stdio.h>
#include <stdlib.h>

static double element(int n, int i, int j) { return i == j ? n : 1.0 / (1 + (i * 7 + j * 3) % 11); }

/* Subtracts multiples of row k from row i. */
static void eliminate(double *row, const double *pivot, int n, int k) {
    double factor = row[k] /= pivot[k];
    for (int j = k + 1; j < n; j++) row[j] -= factor * pivot[j];
}

int main(int argc, char **argv) {
    clump_t *cl = svm_init(&argc, &argv, 1);
    if (cl == NULL) return fprintf(stderr, "%s\n", clump_error_text()), 1;
    int n = argc > 1 ? atoi(argv[1]) : 160, me = svm_proc_id(cl), all = svm_nprocs(cl), wrong = 0;
    double *a = svm_alloc_all(cl, (size_t)n * n * sizeof *a, SVM_HOME_FIRST_WRITE);
    svm_flag *ready = svm_alloc_once(cl, sizeof *ready);
    if (me == 0) svm_flag_init(ready);
    for (int i = me; i < n; i += all)
        for (int j = 0; j < n; j++) a[i * n + j] = element(n, i, j);
    svm_barrier(cl);
    for (int k = 0; k < n; k++) {
        /* Row k is done once its owner has subtracted all rows above. */
        if (k % all == me) svm_flag_set(ready, (uint64_t)k + 1);
        svm_flag_wait(ready, (uint64_t)k + 1);
        for (int i = k + 1; i < n; i++)
            if (i % all == me) eliminate(a + i * n, a + k * n, n, k);
    }
    svm_barrier(cl);
    if (me == 0) {
        double *serial = malloc((size_t)n * n * sizeof *serial);
        for (int at = 0; at < n * n; at++) serial[at] = element(n, at / n, at % n);
        for (int k = 0; k < n; k++)
            for (int i = k + 1; i < n; i++) eliminate(serial + i * n, serial + k * n, n, k);
        for (int at = 0; at < n * n; at++) wrong += a[at] != serial[at];
        printf("factors of order %d on %d ranks: %d elements other than serially\n", n, all, wrong);
        free(serial);
    }
    svm_barrier(cl);
    clump_finalize(cl);
    return wrong != 0;
}
