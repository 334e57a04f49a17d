/* Heat on a square plate, by the calls of TreadMarks: each process has rows, and reads its
 * neighbours' behind barriers; the largest change of all steps is found under a lock.
 * `clump-cc tmk_jacobi.c`, `clump run -n 4 --nodes 2 ./a.out 100 10`.
 */
#include <clump/treadmarks.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double *plates[2];
    double largest;
    int finished;
} plate_pair;

static plate_pair *shared;
static int side, steps;

static double step(const double *from, double *to, int first, int last) {
    double largest = 0;
    int i, j;
    for (i = first; i < last; i++) {
        for (j = 1; j < side - 1; j++) {
            int at = i * side + j;
            double change;
            to[at] = .25 * (from[at - 1] + from[at + 1] + from[at - side] + from[at + side]);
            change = to[at] > from[at] ? to[at] - from[at] : from[at] - to[at];
            if (change > largest) largest = change;
        }
    }
    return largest;
}

static void heat(double *plate) {
    int j;
    for (j = 0; j < side; j++) plate[j] = 100;
}

/* Computes the plate by this process alone. Returns the places that differ. */
static long differing(void) {
    double *own[2], largest = 0;
    long wrong = 0;
    int s, at;
    for (s = 0; s < 2; s++) {
        own[s] = (double *)calloc((size_t)side * side, sizeof(double));
        heat(own[s]);
    }
    for (s = 0; s < steps; s++) {
        double change = step(own[s % 2], own[(s + 1) % 2], 1, side - 1);
        if (change > largest) largest = change;
    }
    for (at = 0; at < side * side; at++) wrong += own[steps % 2][at] != shared->plates[steps % 2][at];
    return wrong + (largest != shared->largest) + (shared->finished != (int)Tmk_nprocs);
}

int main(int argc, char **argv) {
    int s, first, last;
    double largest = 0;
    Tmk_startup(argc, argv);
    if (Tmk_proc_id == 0) {
        /* The others do not look at the arguments: they get what follows from them. */
        side = argc > 1 ? atoi(argv[1]) : 66;
        steps = argc > 2 ? atoi(argv[2]) : 10;
        shared = (plate_pair *)Tmk_malloc(sizeof *shared);
        for (s = 0; s < 2; s++) {
            shared->plates[s] = (double *)Tmk_malloc((size_t)side * side * sizeof(double));
            heat(shared->plates[s]);
        }
        Tmk_distribute((char *)&side, sizeof side);
        Tmk_distribute((char *)&steps, sizeof steps);
        Tmk_distribute((char *)&shared, sizeof shared);
    }
    Tmk_barrier(0);
    first = 1 + (int)Tmk_proc_id * (side - 2) / (int)Tmk_nprocs;
    last = 1 + ((int)Tmk_proc_id + 1) * (side - 2) / (int)Tmk_nprocs;
    for (s = 0; s < steps; s++) {
        double change = step(shared->plates[s % 2], shared->plates[(s + 1) % 2], first, last);
        if (change > largest) largest = change;
        Tmk_barrier(1);
    }
    Tmk_lock_acquire(7);
    if (largest > shared->largest) shared->largest = largest;
    shared->finished++;
    Tmk_lock_release(7);
    Tmk_barrier(0);
    if (Tmk_proc_id == 0) {
        long wrong = differing();
        printf("%d steps by %u processes: %ld places other than by one\n", steps, Tmk_nprocs, wrong);
        Tmk_free((char *)shared->plates[0]);
        Tmk_free((char *)shared->plates[1]);
        Tmk_exit(wrong != 0);
    }
    Tmk_exit(0);
    return 0;
}
