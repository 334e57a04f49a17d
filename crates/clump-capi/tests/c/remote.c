/* Remote calls and vector forms in C: results, one-way calls that call others, their end, failures,
 * and ranks that register other functions. */
#include "expect.h"

enum { KEYS = 300, SLOTS = 4096 };

static clump_t *cl;
static clump_pgas *gas;
static clump_calls *calls;
static int rank, nranks, insert_id, hop_id, fail_id;

/* This rank's part of a table of all ranks. */
struct table {
    uint64_t keys[SLOTS], values[SLOTS];
    uint64_t count, hops;
};

struct pair {
    uint64_t key, value;
};

/* Inserts a pair, and gives the number of pairs here. */
static int insert(clump_call *call, void *data, const void *arguments, size_t bytes) {
    struct table *table = data;
    struct pair pair;
    if (bytes != sizeof pair) return -1;
    memcpy(&pair, arguments, sizeof pair);
    if (clump_call_from(call) < 0 || clump_call_from(call) >= nranks || table->count == SLOTS) return -2;
    table->keys[table->count] = pair.key;
    table->values[table->count++] = pair.value;
    return clump_call_result(call, &table->count, sizeof table->count);
}

/* Goes on from rank to rank, `key` times. */
static int hop(clump_call *call, void *data, const void *arguments, size_t bytes) {
    struct table *table = data;
    struct pair left;
    if (bytes != sizeof left) return -1;
    memcpy(&left, arguments, sizeof left);
    table->hops++;
    if (left.key == 0) return 0;
    left.key--;
    return clump_call_forward(call, (rank + 1) % nranks, hop_id, &left, sizeof left);
}

static int fail(clump_call *call, void *data, const void *arguments, size_t bytes) {
    (void)call;
    (void)data;
    (void)arguments;
    (void)bytes;
    return -77;
}

/* Counts in this rank's object, whose number came as an argument. */
static int count(clump_call *call, void *data, const void *arguments, size_t bytes) {
    (void)data;
    int object;
    if (bytes != sizeof object) return -1;
    memcpy(&object, arguments, sizeof object);
    uint64_t *counter = clump_call_object(call, object);
    if (counter == NULL) return clump_error();
    ++*counter;
    return clump_call_result(call, counter, sizeof *counter);
}

static uint64_t total(uint64_t one) {
    uint64_t sum = 0;
    OK(clump_all_reduce(cl, &one, &sum, 1, CLUMP_U64, CLUMP_SUM));
    return sum;
}

static void results(struct table *table) {
    for (uint64_t i = 0; i < KEYS; i++) {
        struct pair pair = {i * (uint64_t)nranks + (uint64_t)rank, i};
        int owner = (int)(pair.key * 7 % (uint64_t)nranks);
        if (i % 2 == 0) {
            OK(clump_call_send(calls, owner, insert_id, &pair, sizeof pair));
            continue;
        }
        clump_future *future = clump_call_begin(calls, owner, insert_id, &pair, sizeof pair);
        uint64_t count = 0;
        EXPECT(future != NULL);
        if (i % 3 == 0) {
            while (clump_future_ready(future) == 0) {}
        }
        EXPECT(clump_future_wait(future, &count, sizeof count) == sizeof count && count > 0);
        FAILS(CLUMP_ERR_HANDLE, clump_future_wait(future, &count, sizeof count));
    }
    OK(clump_calls_end(calls, NULL, NULL));
    EXPECT(total(table->count) == KEYS * (uint64_t)nranks);
    for (uint64_t i = 0; i < table->count; i++) EXPECT(table->keys[i] / (uint64_t)nranks == table->values[i]);
}

/* Work that makes calls, some of this rank's each time. */
static int work(void *data) {
    int *left = data;
    if (*left == 0) return 0;
    (*left)--;
    struct pair hops = {10, 0};
    OK(clump_call_send(calls, (rank + *left) % nranks, hop_id, &hops, sizeof hops));
    return 1;
}

static void chains(struct table *table) {
    int left = 20;
    OK(clump_calls_end(calls, work, &left));
    EXPECT(left == 0 && total(table->hops) == 20 * 11 * (uint64_t)nranks);
}

static void failures(void) {
    uint64_t room = 0;
    clump_future *future = clump_call_begin(calls, nranks - 1, fail_id, NULL, 0);
    FAILS(CLUMP_ERR_ARGUMENT, clump_future_wait(future, &room, sizeof room));
    EXPECT(strstr(clump_error_text(), "-77") != NULL);
    struct pair pair = {1, 2};
    future = clump_call_begin(calls, 0, insert_id, &pair, sizeof pair);
    FAILS(CLUMP_ERR_ARGUMENT, clump_future_wait(future, &room, 4));
    future = clump_call_begin(calls, 0, insert_id, &pair, sizeof pair);
    OK(clump_future_free(future));
    NULLS(CLUMP_ERR_ARGUMENT, clump_call_begin(calls, 0, 99, &pair, sizeof pair));
    NULLS(CLUMP_ERR_ARGUMENT, clump_call_begin(calls, nranks, insert_id, &pair, sizeof pair));
    NULLS(CLUMP_ERR_ARGUMENT, clump_call_begin(calls, 0, insert_id, NULL, 8));
    FAILS(CLUMP_ERR_ARGUMENT, clump_call_send(calls, -1, insert_id, &pair, sizeof pair));
    FAILS(CLUMP_ERR_ARGUMENT, clump_call_result(NULL, &pair, sizeof pair));
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_register(calls, NULL, insert, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_register(calls, "none", NULL, NULL));
    OK(clump_calls_end(calls, NULL, NULL));
    /* A rank of another build. */
    if (nranks > 1) {
        FAILS(CLUMP_ERR_ARGUMENT, clump_calls_register(calls, rank == 0 ? "one" : "other", fail, NULL));
    }
    OK(clump_calls_poll(calls));
}

/* Objects of every rank, found by number. */
static void objects(void) {
    uint64_t first = 0, second = 100, got = 0;
    const int one = clump_calls_object(calls, "counter", &first), other = clump_calls_object(calls, "counter", &second);
    EXPECT(one >= 0 && other >= 0 && one != other);
    const int count_id = clump_calls_register(calls, "count", count, NULL);
    OK(count_id);
    for (int r = 0; r < nranks; r++) OK(clump_call_send(calls, r, count_id, &one, sizeof one));
    OK(clump_calls_end(calls, NULL, NULL));
    clump_future *future = clump_call_begin(calls, (rank + 1) % nranks, count_id, &other, sizeof other);
    EXPECT(clump_future_wait(future, &got, sizeof got) == sizeof got && got == 101);
    OK(clump_calls_end(calls, NULL, NULL));
    EXPECT(first == (uint64_t)nranks && second == 101);
    OK(clump_calls_object_free(calls, other));
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object_free(calls, other));
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object_free(calls, -1));
    OK(clump_barrier(cl));
    /* Of objects that are gone, and of some that never were. */
    const int none[2] = {other, 99};
    for (int i = 0; i < 2; i++) {
        future = clump_call_begin(calls, rank, count_id, &none[i], sizeof none[i]);
        FAILS(CLUMP_ERR_ARGUMENT, clump_future_wait(future, &got, sizeof got));
    }
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object(calls, NULL, &first));
    EXPECT(clump_error_took_part() == 1);
    for (int wrong = 0; wrong < nranks; wrong++) {
        /* What one rank gets wrong fails at all, and the next is the next one of all. */
        FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object(calls, rank == wrong ? NULL : "counter", &first));
        EXPECT(clump_error_took_part() == 1);
        const int next = clump_calls_object(calls, "counter", &second);
        EXPECT(next >= 0);
        OK(clump_calls_object_free(calls, next));
    }
    FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object(calls, "counter", NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_call_object(NULL, one));
    if (nranks > 1) FAILS(CLUMP_ERR_ARGUMENT, clump_calls_object(calls, rank == 0 ? "one" : "other", &first));
    OK(clump_calls_end(calls, NULL, NULL));
}

/* Scatter, scatter-add and gather, of elements of every size. */
static void vectors(size_t bytes, int layout) {
    enum { N = 61 };
    size_t n = (size_t)N * (size_t)nranks, indexes[N];
    clump_spread *table = clump_spread_alloc(gas, n, bytes, layout);
    unsigned char *values = malloc(N * bytes), *got = malloc(N * bytes);
    EXPECT(table != NULL);
    for (size_t i = 0; i < N; i++) {
        /* Each rank writes elements of its own, which lie everywhere. */
        indexes[i] = (i * 7 % N) * (size_t)nranks + (size_t)rank;
        memset(values + i * bytes, (int)(i + (size_t)rank), bytes);
    }
    OK(clump_spread_scatter(table, indexes, N, values));
    OK(clump_pgas_sync(gas));
    OK(clump_spread_gather(table, indexes, N, got));
    EXPECT(memcmp(values, got, N * bytes) == 0);
    OK(clump_spread_gather(table, indexes, 0, NULL));
    size_t beyond = n;
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_gather(table, &beyond, 1, got));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_scatter(table, &beyond, 1, values));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_gather(table, NULL, 1, got));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_scatter(table, indexes, N, NULL));
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(table));
    free(values);
    free(got);
}

static void sums(int layout) {
    enum { N = 50, EACH = 1000 };
    clump_spread *table = clump_spread_alloc(gas, N, 8, layout);
    size_t indexes[EACH], all[N], beyond = N;
    for (size_t i = 0; i < EACH; i++) indexes[i] = i * 31 % N;
    for (size_t i = 0; i < N; i++) all[i] = N - 1 - i;
    uint64_t three = 3, got[N];
    uint32_t small = 1;
    OK(clump_spread_scatter_add(table, CLUMP_U64, indexes, EACH, &three));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_scatter_add(table, CLUMP_U32, indexes, EACH, &small));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_scatter_add(table, CLUMP_U64, &beyond, 1, &three));
    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_scatter_add(table, CLUMP_U64, indexes, EACH, NULL));
    OK(clump_pgas_all_store_sync(gas));
    OK(clump_spread_gather(table, all, N, got));
    for (size_t i = 0; i < N; i++) EXPECT(got[i] == 3 * (uint64_t)nranks * EACH / N);
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(table));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl);
    nranks = clump_nranks(cl);
    gas = clump_pgas_open(cl);
    EXPECT(gas != NULL);
    struct table *table = calloc(1, sizeof *table);
    calls = clump_calls_open(gas);
    EXPECT(calls != NULL);
    insert_id = clump_calls_register(calls, "insert", insert, table);
    hop_id = clump_calls_register(calls, "hop", hop, table);
    fail_id = clump_calls_register(calls, "fail", fail, NULL);
    EXPECT(insert_id == 0 && hop_id == 1 && fail_id == 2);
    results(table);
    chains(table);
    failures();
    objects();
    OK(clump_calls_close(calls));
    for (int layout = CLUMP_BLOCK; layout <= CLUMP_CYCLIC; layout++) {
        vectors(8, layout);
        vectors(4, layout);
        vectors(2, layout);
        vectors(1, layout);
        vectors(24, layout);
        sums(layout);
    }
    OK(clump_pgas_close(gas));
    free(table);
    printf("rank %d: remote calls are right\n", rank);
    return clump_finalize(cl);
}
