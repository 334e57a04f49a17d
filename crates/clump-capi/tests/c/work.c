/* Irregular programs: copies of objects, queues of tasks, locks, channels, cost zones. */
#include "expect.h"

enum { OBJECTS = 60, TASKS = 200, ITEMS = 500, ROOM = 7 };

typedef struct {
    uint64_t number;
    double values[4];
} object;

typedef struct {
    uint64_t from, number, sum;
} item;

static clump_t *cl;
static clump_pgas *gas;
static int me, n;

static void copies(void) {
    clump_spread *all = clump_spread_alloc(gas, OBJECTS, sizeof(object), CLUMP_CYCLIC);
    clump_cache *cache = clump_cache_alloc(gas, 10 * sizeof(object));
    EXPECT(all != NULL && cache != NULL);
    for (uint64_t at = 0; at < OBJECTS; at++) {
        object own = {at, {(double)at, 2.0 * (double)at, 0, -1}};
        if ((int)(at % (uint64_t)n) == me) OK(clump_pgas_write(gas, clump_spread_at(all, at), &own, sizeof own));
    }
    OK(clump_pgas_barrier(gas));
    int class = clump_cache_class(cache, sizeof(object));
    OK(class);
    clump_cache_counts counts;
    for (int turn = 0; turn < 3; turn++) {
        for (uint64_t at = 0; at < OBJECTS; at++) {
            object found = {0, {0}};
            clump_gptr from = clump_spread_at(all, at);
            int is_there;
            OK(is_there = clump_cache_find(cache, class, from, &found));
            if (is_there == 0) {
                OK(clump_cache_fetch(cache));
                EXPECT(clump_cache_find(cache, class, from, &found) == 1);
            }
            EXPECT(found.number == at && found.values[1] == 2.0 * (double)at && found.values[3] == -1);
            memset(&found, 0, sizeof found);
            OK(clump_cache_get(cache, class, from, &found));
            EXPECT(found.number == at);
        }
    }
    OK(clump_cache_count(cache, class, &counts));
    EXPECT(counts.near + counts.hits + counts.misses >= 6 * OBJECTS);
    EXPECT((counts.misses > 0) == (counts.evicted > 0));
    OK(clump_cache_invalidate(cache));
    object some;
    FAILS(CLUMP_ERR_ARGUMENT, clump_cache_find(cache, class + 1, clump_spread_at(all, 0), &some));
    FAILS(CLUMP_ERR_ARGUMENT, clump_cache_find(cache, class, clump_spread_at(all, 0), NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_cache_class(cache, 0));
    FAILS(CLUMP_ERR_ARGUMENT, clump_cache_count(cache, class, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_cache_fetch(NULL));
    OK(clump_pgas_barrier(gas));
    OK(clump_cache_free(cache));
    OK(clump_spread_free(all));
}

static uint64_t sum;

/* A task below 8 has two more. */
static int work(clump_queues *queues, uint64_t task, void *data) {
    *(uint64_t *)data += 1;
    sum += task;
    uint64_t more[2] = {task * 10 + 1000, task * 10 + 1001};
    return task < 8 ? clump_queues_push(queues, more, 2) : 0;
}

static int fails(clump_queues *queues, uint64_t task, void *data) {
    (void)queues, (void)data;
    return task == 5 ? -77 : 0;
}

static int runs_again(clump_queues *queues, uint64_t task, void *data) {
    (void)task;
    FAILS(CLUMP_ERR_BUSY, clump_queues_run(queues, work, data));
    return 0;
}

static void tasks(void) {
    clump_queues *queues = clump_queues_alloc(gas, 64);
    EXPECT(queues != NULL);
    if (me == 0) {
        for (uint64_t task = 0; task < TASKS; task++) OK(clump_queues_push(queues, &task, 1));
    }
    uint64_t done = 0;
    OK(clump_queues_run(queues, work, &done));
    clump_queue_counts counts;
    OK(clump_queues_count(queues, &counts));
    EXPECT(counts.done == done);
    uint64_t own[2] = {done, sum}, both[2] = {0, 0};
    OK(clump_all_reduce(cl, own, both, 2, CLUMP_U64, CLUMP_SUM));
    EXPECT(both[0] == TASKS + 16 && both[1] == TASKS * (TASKS - 1) / 2 + 16 * 1000 + 8 + 2 * 280);
    OK(clump_queues_push(queues, (uint64_t[]){9}, 1));
    OK(clump_queues_run(queues, runs_again, &done));
    if (me == 0) OK(clump_queues_push(queues, (uint64_t[]){5}, 1));
    int ended = clump_queues_run(queues, fails, NULL);
    EXPECT(ended == 0 || ended == CLUMP_ERR_ARGUMENT);
    if (ended != 0) EXPECT(strstr(clump_error_text(), "-77") != NULL);
    FAILS(CLUMP_ERR_ARGUMENT, clump_queues_push(queues, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_queues_run(queues, NULL, NULL));
    OK(clump_pgas_barrier(gas));
    OK(clump_queues_free(queues));
}

static clump_spread *counter;

static int add_one(void *data) {
    (void)data;
    uint64_t word = 0;
    clump_gptr at = clump_spread_at(counter, 0);
    OK(clump_pgas_read(gas, &word, at, sizeof word));
    word++;
    OK(clump_pgas_write(gas, at, &word, sizeof word));
    return 3;
}

static void locks(void) {
    for (int kind = CLUMP_LOCK_QUEUE; kind <= CLUMP_LOCK_SPIN; kind++) {
        clump_locks *all = clump_locks_alloc(gas, 5, kind);
        counter = clump_spread_alloc(gas, 1, sizeof(uint64_t), CLUMP_BLOCK);
        EXPECT(all != NULL && counter != NULL);
        for (int turn = 0; turn < 20; turn++) EXPECT(clump_locks_with(all, 3, add_one, NULL) == 3);
        OK(clump_pgas_barrier(gas));
        uint64_t word = 0, acquired = 0;
        OK(clump_pgas_read(gas, &word, clump_spread_at(counter, 0), sizeof word));
        EXPECT(word == 20 * (uint64_t)n);
        OK(clump_locks_attempts(all, &acquired, NULL));
        EXPECT(acquired == 20);
        FAILS(CLUMP_ERR_ARGUMENT, clump_locks_with(all, 5, add_one, NULL));
        FAILS(CLUMP_ERR_ARGUMENT, clump_locks_with(all, 0, NULL, NULL));
        OK(clump_pgas_barrier(gas));
        OK(clump_locks_free(all));
        OK(clump_spread_free(counter));
    }
    NULLS(CLUMP_ERR_ARGUMENT, clump_locks_alloc(gas, 5, 9));
}

static uint64_t came[64];

static int take(void *data, int from, const void *items, size_t count) {
    const item *all = items;
    EXPECT(data == came);
    for (size_t at = 0; at < count; at++) {
        EXPECT(all[at].from == (uint64_t)from && all[at].number == came[from]);
        EXPECT(all[at].sum == all[at].from + all[at].number);
        came[from]++;
    }
    return 0;
}

static int refuse(void *data, int from, const void *items, size_t count) {
    (void)data, (void)from, (void)items, (void)count;
    return -5;
}

static int to_go;
static uint64_t arrived;

static int count_in(void *data, int from, const void *items, size_t count) {
    (void)data, (void)items;
    EXPECT(from == (me + n - 1) % n);
    arrived += count;
    return 0;
}

static int send_on(void *data) {
    if (to_go == 0) return 0;
    item one = {(uint64_t)me, (uint64_t)to_go, 0};
    to_go--;
    OK(clump_channel_send(data, (me + 1) % n, &one, 1, count_in, data));
    return 1;
}

static void channels(void) {
    clump_channel *channel = clump_channel_open(gas, sizeof(item), ROOM);
    EXPECT(channel != NULL);
    for (int round = 0; round < 2; round++) {
        memset(came, 0, sizeof came);
        for (uint64_t number = 0; number < ITEMS; number += 5) {
            item some[5];
            for (uint64_t at = 0; at < 5; at++) {
                some[at] = (item){(uint64_t)me, number + at, (uint64_t)me + number + at};
            }
            for (int to = 0; to < n; to++) OK(clump_channel_send(channel, to, some, 5, take, came));
            OK(clump_channel_receive(channel, take, came));
        }
        OK(clump_channel_finish(channel, take, came));
        for (int from = 0; from < n; from++) EXPECT(came[from] == ITEMS);
    }
    to_go = me + 5, arrived = 0;
    OK(clump_channel_run(channel, send_on, count_in, channel));
    EXPECT(arrived == (uint64_t)((me + n - 1) % n + 5) && to_go == 0);
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_run(channel, NULL, count_in, channel));
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_run(channel, send_on, NULL, channel));
    item one = {0, 0, 0};
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_send(channel, -1, &one, 1, take, came));
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_send(channel, n, &one, 1, take, came));
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_receive(channel, NULL, came));
    OK(clump_channel_send(channel, me, &one, 1, take, came));
    FAILS(CLUMP_ERR_ARGUMENT, clump_channel_finish(channel, refuse, NULL));
    EXPECT(strstr(clump_error_text(), "-5") != NULL);
    OK(clump_channel_close(channel));
    NULLS(CLUMP_ERR_ARGUMENT, clump_channel_open(gas, 0, 4));
}

static void zones(void) {
    uint64_t first = 0, end = 0, before = 0;
    for (int rank = 0; rank < 7; rank++) {
        OK(clump_cost_zone(1000, 7, rank, &first, &end));
        EXPECT(first == before && clump_cost_owner(1000, 7, first) == rank);
        before = end;
    }
    EXPECT(before == 1000);
    FAILS(CLUMP_ERR_ARGUMENT, clump_cost_zone(1000, 7, 7, &first, &end));
    FAILS(CLUMP_ERR_ARGUMENT, clump_cost_owner(1000, 0, 5));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    me = clump_rank(cl), n = clump_nranks(cl);
    gas = clump_pgas_open(cl);
    EXPECT(gas != NULL);
    copies();
    tasks();
    locks();
    channels();
    zones();
    OK(clump_barrier(cl));
    printf("rank %d: irregular programs are right\n", me);
    OK(clump_pgas_close(gas));
    return clump_finalize(cl);
}
