/* Irregular work: a binary tree, whose nodes belong to all ranks in turn, is walked from its root
 * by tasks that idle ranks steal, and that read nodes through a cache. Leaves add their values to
 * one of three sums, each under a lock, and odd ones are sent to rank 0.
 *
 *   clump-cc -O2 gas_work.c -o gas_work && clump run -n 4 --nodes 2 ./gas_work
 */
#include "gas_example.h"

enum { LEVELS = 9, NODES = (1 << LEVELS) - 1, INNER = NODES / 2, SUMS = 3 };

typedef struct {
    uint64_t value, children; /* the number of the first child; 0: a leaf */
} node;

static clump_pgas *gas;
static clump_spread *tree, *sums;
static clump_cache *cache;
static clump_locks *locks;
static clump_channel *channel;
static int class_of_nodes;
static uint64_t odd;

static int add(void *data) {
    const uint64_t value = *(const uint64_t *)data;
    const clump_gptr to = clump_spread_at(sums, value % SUMS);
    uint64_t sum;
    DONE(clump_pgas_read(gas, &sum, to, sizeof sum));
    sum += value;
    return clump_pgas_write(gas, to, &sum, sizeof sum);
}

static int take(void *data, int from, const void *items, size_t count) {
    (void)data, (void)from, (void)items;
    odd += count;
    return 0;
}

static int visit(clump_queues *queues, uint64_t task, void *data) {
    node here;
    (void)data;
    DONE(clump_cache_get(cache, class_of_nodes, clump_spread_at(tree, task), &here));
    if (here.children != 0) {
        const uint64_t children[2] = {here.children, here.children + 1};
        return clump_queues_push(queues, children, 2);
    }
    if (here.value % 2 == 1) DONE(clump_channel_send(channel, 0, &here.value, 1, take, NULL));
    return clump_locks_with(locks, here.value % SUMS, add, &here.value);
}

int main(int argc, char **argv) {
    clump_t *cl = CHECKED(clump_init(&argc, &argv));
    gas = CHECKED(clump_pgas_open(cl));
    const int me = clump_rank(cl), ranks = clump_nranks(cl);
    tree = CHECKED(clump_spread_alloc(gas, NODES, sizeof(node), CLUMP_CYCLIC));
    sums = CHECKED(clump_spread_alloc(gas, SUMS, sizeof(uint64_t), CLUMP_CYCLIC));
    cache = CHECKED(clump_cache_alloc(gas, 100 * sizeof(node)));
    DONE(class_of_nodes = clump_cache_class(cache, sizeof(node)));
    locks = CHECKED(clump_locks_alloc(gas, SUMS, CLUMP_LOCK_QUEUE));
    /* Room for all: rank 0 takes them in once no rank has tasks. */
    channel = CHECKED(clump_channel_open(gas, sizeof(uint64_t), NODES));
    clump_queues *queues = CHECKED(clump_queues_alloc(gas, NODES));
    for (uint64_t at = (uint64_t)me; at < NODES; at += (uint64_t)ranks) {
        const node made = {at, at < INNER ? 2 * at + 1 : 0};
        DONE(clump_pgas_write(gas, clump_spread_at(tree, at), &made, sizeof made));
    }
    DONE(clump_pgas_barrier(gas));
    if (me == 0) DONE(clump_queues_push(queues, (const uint64_t[]){0}, 1));
    DONE(clump_queues_run(queues, visit, NULL));
    DONE(clump_channel_finish(channel, take, NULL));
    uint64_t all[SUMS], wrong = me == 0 && odd != (INNER + 1) / 2;
    for (int at = 0; at < SUMS; at++) {
        DONE(clump_pgas_read(gas, &all[at], clump_spread_at(sums, (size_t)at), sizeof all[at]));
        for (uint64_t leaf = INNER; leaf < NODES; leaf++) all[at] -= leaf % SUMS == (uint64_t)at ? leaf : 0;
        wrong += all[at] != 0;
    }
    if (me == 0) printf("%d leaves were added up, %d of them odd\n", INNER + 1, (int)odd);
    DONE(clump_pgas_barrier(gas));
    return clump_finalize(cl) < 0 || wrong != 0;
}
