/* Task queues with stealing: a word for each rank counts the tasks that were taken from it, by one
 * remote atomic each. Rank 0 begins with all tasks, so all others steal.
 *
 *   clump-cc -O2 gas_task_queue.c -o gas_task_queue && clump run -n 4 --nodes 2 ./gas_task_queue
 */
#include "gas_example.h"

enum { TASKS = 2000 };

/* Returns the number of steps that a number takes to get down to 1 (Collatz). */
static uint64_t steps(uint64_t number) {
    uint64_t count = 0;
    for (; number > 1; count++) number = number % 2 ? 3 * number + 1 : number / 2;
    return count;
}

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    clump_pgas *gas = CHECKED(clump_pgas_open(cl));
    int me = clump_rank(cl), ranks = clump_nranks(cl);
    clump_spread *taken = CHECKED(clump_spread_alloc(gas, (size_t)ranks, sizeof(uint64_t), CLUMP_BLOCK));
    clump_spread *times = CHECKED(clump_spread_alloc(gas, TASKS, sizeof(uint64_t), CLUMP_CYCLIC));
    uint64_t done = 0, sum = 0, wrong = 0;
    for (int n = 0; n < ranks; n++) {
        int victim = (me + n) % ranks;
        uint64_t queued = victim == 0 ? TASKS : 0, task = 0;
        while (queued > 0) {
            DONE(clump_pgas_fetch_add_u64(gas, clump_spread_at(taken, (size_t)victim), 1, &task));
            if (task >= queued) break;
            sum += steps(task + 1);
            DONE(clump_pgas_add_u64(gas, clump_spread_at(times, task), 1));
            done++;
        }
    }
    DONE(clump_pgas_all_store_sync(gas));
    const uint64_t *here = CHECKED(clump_spread_local(times));
    for (size_t i = 0; i < clump_spread_count(times); i++) wrong += here[i] != 1;
    DONE(clump_all_reduce(cl, &wrong, &wrong, 1, CLUMP_U64, CLUMP_SUM));
    DONE(clump_all_reduce(cl, &sum, &sum, 1, CLUMP_U64, CLUMP_SUM));
    printf("rank %d did %d tasks\n", me, (int)done);
    if (me == 0) printf("%d tasks, %d steps, %d not done once\n", TASKS, (int)sum, (int)wrong);
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0 || wrong != 0;
}
