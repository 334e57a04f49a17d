/* The calls of TreadMarks one by one: variables that are distributed again and again, by different
 * processes, while others are behind; locks; memory that one process frees for another. */
#include <clump/treadmarks.h>

static unsigned turn, values[3];
static unsigned *counters;

static void check(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "process %u: %s\n", Tmk_proc_id, what);
        exit(2);
    }
}

int main(int argc, char **argv) {
    unsigned round, at, sum = 0;
    Tmk_startup(argc, argv);
    check(Tmk_nprocs > 0 && Tmk_proc_id < Tmk_nprocs, "its number");
    for (round = 1; round <= 40; round++) {
        /* One process gives a value, another an array; in some rounds no process gives anything. */
        if (round % 4 != 0 && Tmk_proc_id == round % Tmk_nprocs) {
            turn = round;
            Tmk_distribute((char *)&turn, sizeof turn);
        }
        if (round % 4 != 0 && Tmk_proc_id == (round + 1) % Tmk_nprocs) {
            for (at = 0; at < 3; at++) values[at] = 10 * round + at;
            Tmk_distribute((char *)values, sizeof values);
        }
        Tmk_barrier(round % 5);
        check(turn == (round % 4 != 0 ? round : round - 1), "a value");
        for (at = 0; at < 3; at++) check(values[at] == 10 * turn + at, "an array");
    }
    if (Tmk_proc_id == Tmk_nprocs - 1) {
        counters = (unsigned *)Tmk_malloc(2000 * sizeof *counters);
        check(counters != NULL, "memory");
        Tmk_distribute((char *)&counters, sizeof counters);
    }
    Tmk_barrier(TMK_NBARRIERS - 1);
    for (at = 0; at < 50; at++) {
        unsigned lock = at % 3 ? 0 : TMK_NLOCKS - 1;
        Tmk_lock_acquire(lock);
        counters[lock ? 1999 : 0]++;
        Tmk_lock_release(lock);
    }
    Tmk_barrier(0);
    sum = counters[0] + counters[1999];
    check(counters[1999] == 17 * Tmk_nprocs && sum == 50 * Tmk_nprocs, "additions under locks");
    Tmk_barrier(0);
    if (Tmk_proc_id == 0) {
        Tmk_free((char *)counters);
        printf("rank 0: the calls of TreadMarks are right\n");
    }
    Tmk_exit(0);
    return 0;
}
