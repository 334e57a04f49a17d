/* The global address space: arrays, all ways of access, atomics of all types, locks, and misuse. */
#include "expect.h"

enum { EACH = 200 };

static clump_t *cl;
static clump_pgas *gas;
static int rank, nranks;

/* A histogram, gets of all of it, and stores that are counted. */
static void arrays(clump_spread *table) {
    const size_t n = 97;
    EXPECT(table != NULL);
    for (size_t i = 0; i < EACH; i++) OK(clump_pgas_add_u64(gas, clump_spread_at(table, i * 7 % n), 1));
    OK(clump_pgas_all_store_sync(gas));
    uint64_t got[97] = {0}, sum = 0, here = 0;
    for (size_t i = 0; i < n; i++) OK(clump_pgas_get(gas, &got[i], clump_spread_at(table, i), 8));
    OK(clump_pgas_sync(gas));
    for (size_t i = 0; i < n; i++) {
        uint64_t one = 0;
        OK(clump_pgas_read(gas, &one, clump_spread_at(table, i), 8));
        EXPECT(one == got[i] && got[i] % (uint64_t)nranks == 0 && got[i] >= 2 * (uint64_t)nranks);
        sum += got[i];
    }
    EXPECT(sum == EACH * (uint64_t)nranks);
    const uint64_t *local = clump_spread_local(table);
    size_t count = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        int owner = clump_spread_owner(table, i);
        EXPECT(owner >= 0 && owner < nranks);
        if (owner == rank) {
            EXPECT(__atomic_load_n(&local[count], __ATOMIC_RELAXED) == got[i]);
            here += got[i];
            count++;
        }
    }
    EXPECT(count == clump_spread_count(table));
    OK(clump_all_reduce(cl, &here, &sum, 1, CLUMP_U64, CLUMP_SUM));
    EXPECT(sum == EACH * (uint64_t)nranks);
    uint64_t counts = count, total = 0;
    OK(clump_all_reduce(cl, &counts, &total, 1, CLUMP_U64, CLUMP_SUM));
    all = (size_t)total;
    EXPECT(all == n);

    FAILS(CLUMP_ERR_ARGUMENT, clump_spread_owner(table, n));
    clump_gptr nowhere = clump_spread_at(table, n);
    EXPECT(nowhere.segment == 0 && clump_error() == CLUMP_ERR_ARGUMENT);
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_put(gas, nowhere, &sum, 8));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_get(gas, &sum, clump_gptr_add(clump_spread_on(table, rank), -8), 8));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_read(gas, got, clump_spread_on(table, 0), sizeof(uint64_t) * (n + 1)));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_add_u64(gas, clump_gptr_add(clump_spread_at(table, 0), 4), 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_put(gas, clump_spread_at(table, 0), NULL, 8));
    EXPECT(clump_gptr_equal(clump_spread_at(table, 0), clump_spread_on(table, 0)));
    EXPECT(clump_spread_on(table, nranks).segment == 0 && clump_spread_on(table, -1).segment == 0);
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(table));
    FAILS(CLUMP_ERR_HANDLE, clump_spread_free(table));
}

/* Blocks of three elements, around all ranks. */
static void blocks(void) {
    const size_t n = 50;
    clump_spread *table = clump_spread_alloc_block_cyclic(gas, n, 4, 3);
    EXPECT(table != NULL);
    for (size_t i = 0; i < n; i++) {
        const int owner = (int)(i / 3 % (size_t)nranks);
        const int64_t within = (int64_t)(i / 3 / (size_t)nranks * 3 + i % 3);
        EXPECT(clump_spread_owner(table, i) == owner);
        EXPECT(clump_gptr_equal(clump_spread_at(table, i), clump_gptr_add(clump_spread_on(table, owner), 4 * within)));
    }
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(table));
}

/* Bytes of any length, counted stores, strides. */
static void bytes(void) {
    enum { LEN = 10000 };
    clump_spread *memory = clump_spread_alloc(gas, (size_t)LEN * (size_t)nranks, 1, CLUMP_BLOCK);
    EXPECT(memory != NULL && clump_spread_count(memory) == LEN);
    clump_gptr next = clump_spread_on(memory, (rank + 1) % nranks);
    unsigned char *block = malloc(LEN), *back = malloc(LEN);
    for (int i = 0; i < LEN; i++) block[i] = (unsigned char)(i * 7 + rank);
    OK(clump_pgas_store(gas, next, block, LEN / 2));
    OK(clump_pgas_store(gas, clump_gptr_add(next, LEN / 2), block + LEN / 2, LEN / 2));
    OK(clump_pgas_store_sync(gas, LEN));
    const unsigned char *local = clump_spread_local(memory);
    int before = (rank + nranks - 1) % nranks;
    for (int i = 0; i < LEN; i++) EXPECT(local[i] == (unsigned char)(i * 7 + before));
    OK(clump_pgas_barrier(gas));
    OK(clump_pgas_read(gas, back, next, LEN));
    EXPECT(memcmp(block, back, LEN) == 0);
    memset(back, 0, LEN);
    OK(clump_pgas_get(gas, back, next, 3));
    OK(clump_pgas_get(gas, back + 3, clump_gptr_add(next, 3), LEN - 3));
    OK(clump_pgas_sync(gas));
    EXPECT(memcmp(block, back, LEN) == 0);
    /* Columns of a matrix with rows of 100 bytes. */
    memset(back, 9, LEN);
    OK(clump_pgas_put_strided(gas, clump_gptr_add(next, 5), 2, 100, back, 200));
    OK(clump_pgas_sync(gas));
    OK(clump_pgas_get_strided(gas, back, clump_gptr_add(next, 4), 4, 100, 400));
    for (int row = 0; row < 100; row++) {
        EXPECT(back[4 * row] == block[100 * row + 4] && back[4 * row + 3] == block[100 * row + 7]);
        EXPECT(back[4 * row + 1] == 9 && back[4 * row + 2] == 9);
    }
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_put_strided(gas, next, 3, 100, back, 200));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_get_strided(gas, back, next, 2, 101, 200));
    OK(clump_pgas_barrier(gas));
    uint64_t word = 5;
    OK(clump_pgas_write(gas, next, &word, 8));
    OK(clump_pgas_put_now(gas, clump_gptr_add(next, 8), &word, 8));
    OK(clump_pgas_flush(gas));
    OK(clump_pgas_quiet(gas));
    OK(clump_pgas_read(gas, back, next, 16));
    EXPECT(memcmp(back, &word, 8) == 0 && memcmp(back + 8, &word, 8) == 0);
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(memory));
    free(block);
    free(back);
}

#define TYPE(T, S)                                                                                           \
    do {                                                                                                     \
        clump_gptr at = clump_spread_at(words, 1);                                                           \
        T zero = 0, old = 0, sum = 0;                                                                        \
        if (rank == 0) OK(clump_pgas_write(gas, at, &zero, sizeof zero));                                    \
        OK(clump_pgas_barrier(gas));                                                                         \
        for (int i = 0; i < 5; i++) OK(clump_pgas_add_##S(gas, at, 2));                                      \
        OK(clump_pgas_fetch_add_##S(gas, at, 1, &old));                                                      \
        OK(clump_pgas_fetch_add_##S(gas, at, 1, NULL));                                                      \
        OK(clump_pgas_all_store_sync(gas));                                                                  \
        OK(clump_pgas_read(gas, &sum, at, sizeof sum));                                                      \
        EXPECT(sum == (T)(12 * nranks));                                                                     \
        OK(clump_pgas_barrier(gas));                                                                         \
        OK(clump_pgas_min_##S(gas, at, (T)3));                                                               \
        OK(clump_pgas_all_store_sync(gas));                                                                  \
        OK(clump_pgas_fetch_min_##S(gas, at, (T)3, &old));                                                   \
        EXPECT(old == 3);                                                                                    \
        OK(clump_pgas_max_##S(gas, at, (T)2));                                                               \
        OK(clump_pgas_all_store_sync(gas));                                                                  \
        OK(clump_pgas_fetch_max_##S(gas, at, (T)4, &old));                                                   \
        EXPECT(old == 3 || old == 4);                                                                        \
        OK(clump_pgas_barrier(gas));                                                                         \
        OK(clump_pgas_compare_swap_##S(gas, at, (T)4, (T)(5 + rank), &old));                                 \
        OK(clump_pgas_barrier(gas));                                                                         \
        OK(clump_pgas_read(gas, &sum, at, sizeof sum));                                                      \
        EXPECT((old == 4) == (sum == (T)(5 + rank)));                                                        \
        OK(clump_pgas_barrier(gas));                                                                         \
        OK(clump_pgas_swap_##S(gas, at, (T)1, &old));                                                        \
        OK(clump_pgas_barrier(gas));                                                                         \
    } while (0)

#define BITS(T, S)                                                                                           \
    do {                                                                                                     \
        T zero = 0, old = 0;                                                                                 \
        OK(clump_pgas_write(gas, mine, &zero, sizeof zero));                                                 \
        OK(clump_pgas_or_##S(gas, mine, 12));                                                                \
        OK(clump_pgas_sync(gas));                                                                            \
        OK(clump_pgas_and_##S(gas, mine, 6));                                                                \
        OK(clump_pgas_sync(gas));                                                                            \
        OK(clump_pgas_xor_##S(gas, mine, 1));                                                                \
        OK(clump_pgas_sync(gas));                                                                            \
        OK(clump_pgas_fetch_or_##S(gas, mine, 8, &old));                                                     \
        EXPECT(old == 5);                                                                                    \
        OK(clump_pgas_fetch_and_##S(gas, mine, 9, &old));                                                    \
        EXPECT(old == 13);                                                                                   \
        OK(clump_pgas_fetch_xor_##S(gas, mine, 1, &old));                                                    \
        EXPECT(old == 9);                                                                                    \
        OK(clump_pgas_max_##S(gas, mine, 20));                                                               \
        OK(clump_pgas_sync(gas));                                                                            \
        OK(clump_pgas_read(gas, &old, mine, sizeof old));                                                    \
        EXPECT(old == 20);                                                                                   \
    } while (0)

/* Atomics of every type; the word beside stays as it is. */
static void atomics(void) {
    clump_spread *words = clump_spread_alloc(gas, 2 * (size_t)nranks, 8, CLUMP_CYCLIC);
    EXPECT(words != NULL);
    TYPE(uint8_t, u8);
    TYPE(uint16_t, u16);
    TYPE(uint32_t, u32);
    TYPE(uint64_t, u64);
    TYPE(int8_t, i8);
    TYPE(int16_t, i16);
    TYPE(int32_t, i32);
    TYPE(int64_t, i64);
    TYPE(float, f32);
    TYPE(double, f64);
    clump_gptr mine = clump_spread_at(words, (size_t)(nranks + (rank + 1) % nranks));
    BITS(uint8_t, u8);
    BITS(uint16_t, u16);
    BITS(uint32_t, u32);
    BITS(uint64_t, u64);
    BITS(int8_t, i8);
    BITS(int16_t, i16);
    BITS(int32_t, i32);
    BITS(int64_t, i64);
    double real = 0;
    clump_type none = {99};
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, CLUMP_F64, CLUMP_BIT_AND, &real, NULL, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, CLUMP_U64, CLUMP_LOAD, &real, NULL, &real));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, CLUMP_U64, 77, &real, NULL, &real));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, none, CLUMP_ADD, &real, NULL, &real));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, CLUMP_U64, CLUMP_ADD, NULL, NULL, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_atomic(gas, mine, CLUMP_U64, CLUMP_COMPARE_SWAP, &real, NULL, &real));
    OK(clump_pgas_barrier(gas));
    OK(clump_spread_free(words));
}

static void locks(void) {
    clump_mutex *lock = clump_mutex_alloc(gas, rank == 0 ? 40 : 0);
    uint64_t word = 0;
    EXPECT(lock != NULL);
    for (int i = 0; i < 10; i++) {
        OK(clump_mutex_lock(lock, &word));
        FAILS(CLUMP_ERR_BUSY, clump_mutex_lock(lock, &word));
        FAILS(CLUMP_ERR_BUSY, clump_mutex_try_lock(lock, &word));
        OK(clump_mutex_unlock(lock, word + 1));
        FAILS(CLUMP_ERR_NOT_HELD, clump_mutex_unlock(lock, word));
    }
    OK(clump_pgas_barrier(gas));
    if (rank == 0) OK(clump_mutex_lock(lock, &word));
    EXPECT(rank != 0 || word == 40 + 10 * (uint64_t)nranks);
    OK(clump_pgas_barrier(gas));
    if (rank != 0) EXPECT(clump_mutex_try_lock(lock, NULL) == 0);
    OK(clump_pgas_barrier(gas));
    if (rank == 0) OK(clump_mutex_unlock(lock, 0));
    OK(clump_pgas_barrier(gas));
    OK(clump_mutex_free(lock));
}

/* Boundaries go around a ring of ranks, more often than places take turns. */
static void halos(void) {
    int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
    clump_halo_neighbour sides[2] = {{left, 1, 3}, {right, 0, 3}};
    clump_halo *ring = clump_halo_alloc(gas, sides, 2, sizeof(double));
    EXPECT(ring != NULL && clump_halo_neighbours(ring) == 2);
    double mine[3], cells[2][3];
    const void *from[2] = {mine, mine};
    void *to[2] = {cells[0], cells[1]};
    FAILS(CLUMP_ERR_ARGUMENT, clump_halo_exchange(ring, NULL, to));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++) mine[i] = 100 * round + 10 * rank + i;
        OK(clump_halo_exchange(ring, from, to));
        for (int i = 0; i < 3; i++) {
            EXPECT(cells[0][i] == 100 * round + 10 * left + i);
            EXPECT(cells[1][i] == 100 * round + 10 * right + i);
        }
    }
    OK(clump_pgas_barrier(gas));
    OK(clump_halo_free(ring));
    FAILS(CLUMP_ERR_HANDLE, clump_halo_exchange(ring, from, to));
    /* All learn of it, whether one does not agree or has none. */
    sides[0].count += rank == 0;
    NULLS(CLUMP_ERR_ARGUMENT, clump_halo_alloc(gas, sides, 2, sizeof(double)));
    NULLS(CLUMP_ERR_ARGUMENT, clump_halo_alloc(gas, rank == 0 ? NULL : sides, 2, sizeof(double)));
    EXPECT(clump_error_took_part() == 1);
    ring = clump_halo_alloc(gas, NULL, 0, sizeof(double));
    EXPECT(ring != NULL && clump_halo_neighbours(ring) == 0);
    OK(clump_halo_exchange(ring, NULL, NULL));
    OK(clump_pgas_barrier(gas));
    OK(clump_halo_free(ring));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl);
    nranks = clump_nranks(cl);
    gas = clump_pgas_open(cl);
    EXPECT(gas != NULL);
    arrays(clump_spread_alloc(gas, 97, 8, CLUMP_BLOCK));
    arrays(clump_spread_alloc(gas, 97, 8, CLUMP_CYCLIC));
    arrays(clump_spread_alloc_block_cyclic(gas, 97, 8, 5));
    blocks();
    bytes();
    atomics();
    locks();
    halos();
    clump_aggregation counts;
    OK(clump_pgas_aggregation(gas, &counts));
    EXPECT((counts.updates > 0) == (clump_nnodes(cl) > 1) && counts.batches <= counts.updates);
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_aggregation(gas, NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_spread_alloc(gas, 5, 8, 7));
    NULLS(CLUMP_ERR_ARGUMENT, clump_spread_alloc(gas, 5, 0, CLUMP_BLOCK));
    NULLS(CLUMP_ERR_ARGUMENT, clump_spread_alloc(gas, (size_t)-1, 8, CLUMP_BLOCK));
    NULLS(CLUMP_ERR_ARGUMENT, clump_spread_alloc_block_cyclic(gas, 5, 8, 0));
    NULLS(CLUMP_ERR_ARGUMENT, clump_spread_alloc_block_cyclic(gas, 5, 8, (size_t)-1));
    NULLS(CLUMP_ERR_ARGUMENT, clump_pgas_open(NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_pgas_sync(NULL));
    OK(clump_pgas_barrier(gas));
    OK(clump_pgas_close(gas));
    FAILS(CLUMP_ERR_HANDLE, clump_pgas_sync(gas));
    OK(clump_pgas_close(NULL));
    printf("rank %d: global memory is right\n", rank);
    OK(clump_finalize(cl));
    return 0;
}
