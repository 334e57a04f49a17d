/* One-sided operations, locks and flags among all ranks, and their misuse. */
#include "expect.h"

enum { BYTES = 1 << 16, COUNTER = 0, SMALL = 8, WORDS = 64, BLOCK = 4096, SIGNAL = 128, PLACE = 8192 };

static clump_t *cl;
static clump_rma *rma;
static clump_target **all;
static int rank, nranks;

/* Words of 4 bytes: the one beside stays as it is. */
/* Words as signed numbers and as floating-point numbers. */
static void other_numbers(clump_target *t, uint64_t at) {
    uint64_t v;
    uint32_t h;
    double d = 1.5;
    float f = -0.25f;
    OK(clump_rma_put_u64(t, at, 3));
    OK(clump_rma_atomic_u64(t, at, CLUMP_ATOMIC_MIN_SIGNED, (uint64_t)-5, 0, &v));
    EXPECT(v == 3);
    OK(clump_rma_atomic_u64(t, at, CLUMP_ATOMIC_MAX_SIGNED, 2, 0, &v));
    EXPECT(v == (uint64_t)-5);
    memcpy(&v, &d, sizeof v);
    OK(clump_rma_put_u64(t, at, v));
    OK(clump_rma_atomic_u64(t, at, CLUMP_ADD_FLOAT, v, 0, &v));
    OK(clump_rma_load_u64(t, at, &v));
    memcpy(&d, &v, sizeof d);
    EXPECT(d == 3.0);
    memcpy(&h, &f, sizeof h);
    OK(clump_rma_put_u32(t, at, h));
    OK(clump_rma_atomic_u32(t, at, CLUMP_ATOMIC_MAX_FLOAT, 0, 0, &h));
    memcpy(&f, &h, sizeof f);
    EXPECT(f == -0.25f);
    OK(clump_rma_load_u32(t, at, &h));
    EXPECT(h == 0);
}

static void half_words(clump_target *t, uint64_t at) {
    uint32_t v = 0, beside = 0;
    OK(clump_rma_put_u32(t, at + 4, 0xabcd));
    OK(clump_rma_store_u32(t, at, 5));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_swap_u32(t, at, 6, &v));
    EXPECT(v == 5);
    OK(clump_rma_compare_swap_u32(t, at, 7, 1, &v));
    EXPECT(v == 6);
    OK(clump_rma_compare_swap_u32(t, at, 6, 15, &v));
    EXPECT(v == 6);
    OK(clump_rma_fetch_and_u32(t, at, 14, &v));
    EXPECT(v == 15);
    OK(clump_rma_fetch_or_u32(t, at, 1, &v));
    EXPECT(v == 14);
    OK(clump_rma_fetch_xor_u32(t, at, 2, &v));
    EXPECT(v == 15);
    OK(clump_rma_fetch_min_u32(t, at, 5, &v));
    EXPECT(v == 13);
    OK(clump_rma_fetch_max_u32(t, at, 9, &v));
    EXPECT(v == 5);
    OK(clump_rma_and_u32(t, at, 13));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_or_u32(t, at, 2));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_xor_u32(t, at, 1));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_max_u32(t, at, 3));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_min_u32(t, at, 100));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_get_u32(t, at, &v));
    OK(clump_rma_get_u32(t, at + 4, &beside));
    EXPECT(v == (((9 & 13) | 2) ^ 1) && beside == 0xabcd);
}

/* Every word operation, at a place of this rank's in the next one's memory. */
static void words(clump_target *t) {
    uint64_t at = PLACE + 64 * (uint64_t)rank, v = 0;
    uint32_t h = 0;
    OK(clump_rma_put_u64(t, at, 40));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_get_u64(t, at, &v));
    EXPECT(v == 40);
    OK(clump_rma_store_u64(t, at, 41));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_load_u64(t, at, &v));
    EXPECT(v == 41);
    OK(clump_rma_swap_u64(t, at, 6, &v));
    EXPECT(v == 41);
    OK(clump_rma_compare_swap_u64(t, at, 7, 1, &v));
    EXPECT(v == 6);
    OK(clump_rma_compare_swap_u64(t, at, 6, 12, &v));
    EXPECT(v == 6);
    OK(clump_rma_fetch_add_u64(t, at, 3, &v));
    EXPECT(v == 12);
    OK(clump_rma_fetch_and_u64(t, at, 14, &v));
    EXPECT(v == 15);
    OK(clump_rma_fetch_or_u64(t, at, 1, &v));
    EXPECT(v == 14);
    OK(clump_rma_fetch_xor_u64(t, at, 2, &v));
    EXPECT(v == 15);
    OK(clump_rma_fetch_min_u64(t, at, 5, &v));
    EXPECT(v == 13);
    OK(clump_rma_fetch_max_u64(t, at, 9, &v));
    EXPECT(v == 5);
    OK(clump_rma_add_u64(t, at, 6));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_and_u64(t, at, 13));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_or_u64(t, at, 2));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_xor_u64(t, at, 1));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_max_u64(t, at, 3));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_min_u64(t, at, 100));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_get_u64(t, at, &v));
    EXPECT(v == (((((9 + 6) & 13) | 2) ^ 1)));
    OK(clump_rma_put_u32(t, at + 4, 7));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_fetch_add_u32(t, at + 4, 1, &h));
    EXPECT(h == 7);
    OK(clump_rma_load_u32(t, at + 4, &h));
    EXPECT(h == 8);
    half_words(t, at + 8);
    other_numbers(t, at + 8);
    clump_pending *p = clump_rma_atomic_start_u64(t, at, CLUMP_SWAP, 77, 0);
    EXPECT(p != NULL);
    int done;
    while ((done = clump_pending_test(p)) == 0) {}
    EXPECT(done == 1);
    OK(clump_pending_wait(p, &v));
    FAILS(CLUMP_ERR_HANDLE, clump_pending_wait(p, &v));
    FAILS(CLUMP_ERR_HANDLE, clump_pending_test(p));
    EXPECT((uint32_t)v == 14);
    p = clump_rma_atomic_start_u32(t, at, CLUMP_ADD, 1, 0);
    OK(clump_pending_wait(p, &v));
    EXPECT(v == 77);
    p = clump_rma_atomic_start_u64(t, at, CLUMP_LOAD, 0, 0);
    EXPECT(p != NULL);
    OK(clump_pending_drop(p));
    OK(clump_pending_drop(NULL));
    /* Invalid ones. */
    FAILS(CLUMP_ERR_ALIGNMENT, clump_rma_load_u64(t, at + 4, &v));
    FAILS(CLUMP_ERR_ALIGNMENT, clump_rma_fetch_add_u32(t, at + 2, 1, &h));
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_load_u64(t, BYTES, &v));
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_fetch_add_u64(t, UINT64_MAX - 7, 1, &v));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_load_u64(t, at, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_get_u32(t, at, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_swap_u64(t, at, 1, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_compare_swap_u64(t, at, 1, 1, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_fetch_max_u64(t, at, 1, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_atomic_u64(t, at, 15, 1, 1, &v));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_atomic_u32(t, at, -1, 1, 1, &h));
    NULLS(CLUMP_ERR_ARGUMENT, clump_rma_atomic_start_u64(t, at, 99, 0, 0));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_put_u64(NULL, 0, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_get_u64(NULL, 0, &v));
    /* Failures of operations that are not waited for come from quiet, on another node, or at
     * once. */
    int put = clump_rma_put_u64(t, BYTES, 1), quiet = clump_rma_quiet(rma);
    EXPECT((put == CLUMP_ERR_BOUNDS && quiet == 0) || (put == 0 && quiet == CLUMP_ERR_BOUNDS));
    EXPECT(clump_target_is_near(t) == (put != 0));
    OK(clump_rma_quiet(rma));
}

static void blocks(clump_target *t) {
    enum { EACH = 1024 };
    uint64_t at = 16384 + EACH * (uint64_t)rank;
    unsigned char out[EACH], in[EACH], two[EACH];
    for (int i = 0; i < EACH; i++) out[i] = (unsigned char)(i * 3 + rank);
    OK(clump_rma_put(t, at, out, EACH));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_get(t, at, in, EACH));
    EXPECT(memcmp(in, out, EACH) == 0);
    memset(in, 0, EACH);
    OK(clump_rma_get_start(t, at, in, EACH / 2));
    OK(clump_rma_get_start(t, at + EACH / 2, in + EACH / 2, EACH / 2));
    OK(clump_rma_get_start(t, at, two, EACH));
    OK(clump_rma_sync(rma));
    EXPECT(memcmp(in, out, EACH) == 0 && memcmp(two, out, EACH) == 0);
    clump_strides s = {at, 8, 16};
    OK(clump_rma_put_strided(t, &s, out, 64));
    OK(clump_rma_quiet(rma));
    OK(clump_rma_get_strided(t, &s, in, 64));
    EXPECT(memcmp(in, out, 64) == 0);
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_put_strided(t, &s, out, 63));
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_get_strided(t, &s, in, 63));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_put_strided(t, NULL, out, 64));
    clump_pending *p = clump_rma_put_start(t, at, out, EACH);
    uint64_t nothing = 5;
    OK(clump_pending_wait(p, &nothing));
    EXPECT(nothing == 0);
    OK(clump_rma_put(t, at, NULL, 0));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_put(t, at, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_get(t, at, NULL, 1));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_get(t, at, in, SIZE_MAX));
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_get(t, BYTES - 1, in, 2));
    int begun = clump_rma_get_start(t, BYTES - 1, in, 2), ended = clump_rma_sync(rma);
    EXPECT((begun == CLUMP_ERR_BOUNDS && ended == 0) || (begun == 0 && ended == CLUMP_ERR_BOUNDS));
    void *near = clump_target_near(t, at, EACH);
    EXPECT((near != NULL) == (clump_target_is_near(t) == 1));
    if (near != NULL) {
        EXPECT(memcmp(near, out, EACH) == 0);
        NULLS(CLUMP_ERR_BOUNDS, clump_target_near(t, BYTES - 1, 2));
        NULLS(CLUMP_ERR_BOUNDS, clump_target_near(t, UINT64_MAX, 2));
    }
    /* Bytes followed by a word. */
    clump_signal signal = {clump_target_name(t), SIGNAL, 1, 1};
    OK(clump_rma_put_signal(t, at, out, EACH, &signal));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_put_signal(t, at, out, EACH, NULL));
    uint64_t seen = 0;
    OK(clump_rma_wait_until_u64(all[rank], SIGNAL, CLUMP_EQUAL, 1, &seen));
    EXPECT(seen == 1);
    OK(clump_rma_signal(t, SIGNAL + 8, 9, 0));
    OK(clump_rma_wait_until_u64(all[rank], SIGNAL + 8, CLUMP_AT_LEAST, 9, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_wait_until_u64(all[rank], SIGNAL, 4, 1, NULL));
    FAILS(CLUMP_ERR_ALIGNMENT, clump_rma_wait_until_u64(all[rank], 4, CLUMP_EQUAL, 1, NULL));
}

static void locks_and_flags(void) {
    clump_segment *locks = rank == 0 ? clump_locks_export(rma, 2) : NULL;
    clump_segment *flags = rank == 0 ? clump_flags_export(rma, 2) : NULL;
    uint64_t names[2] = {0};
    if (rank == 0) {
        EXPECT(locks && flags);
        names[0] = clump_segment_name(locks), names[1] = clump_segment_name(flags);
    }
    OK(clump_broadcast(cl, 0, names, sizeof names));
    clump_lock *lock = clump_lock_open(rma, names[0], 1), *none = clump_lock_open(rma, names[0], 99);
    clump_flag *flag = clump_flag_open(rma, names[1], 1), *nothing = clump_flag_open(rma, names[1], 999);
    EXPECT(lock && flag && none && nothing);
    uint64_t word = 0;
    FAILS(CLUMP_ERR_NOT_HELD, clump_lock_release(lock));
    FAILS(CLUMP_ERR_NOT_HELD, clump_lock_word(lock, &word));
    FAILS(CLUMP_ERR_NOT_HELD, clump_lock_set_word(lock, 1));
    FAILS(CLUMP_ERR_BOUNDS, clump_lock_acquire(none));
    for (int i = 0; i < 50; i++) {
        OK(clump_lock_acquire(lock));
        FAILS(CLUMP_ERR_BUSY, clump_lock_acquire(lock));
        FAILS(CLUMP_ERR_BUSY, clump_lock_try(lock));
        OK(clump_lock_word(lock, &word));
        OK(clump_lock_set_word(lock, word + 1));
        OK(clump_lock_release(lock));
    }
    FAILS(CLUMP_ERR_ARGUMENT, clump_lock_word(lock, NULL) == CLUMP_ERR_NOT_HELD ? clump_rank(NULL) : 0);
    OK(clump_barrier(cl));
    OK(clump_lock_acquire(lock));
    OK(clump_lock_word(lock, &word));
    EXPECT(word == 50 * (uint64_t)nranks);
    OK(clump_lock_release(lock));
    OK(clump_barrier(cl));
    /* Locks released by others may still be in flight. */
    int got = 0;
    while (rank == 0 && got == 0) OK(got = clump_lock_try(lock));
    OK(clump_barrier(cl));
    if (rank != 0) EXPECT(clump_lock_try(lock) == 0 && clump_lock_acquire_within(lock, 1000000) == 0);
    OK(clump_barrier(cl));
    OK(clump_lock_close(lock)); /* releases it */
    OK(clump_barrier(cl));
    lock = clump_lock_open(rma, names[0], 1);
    EXPECT(clump_lock_acquire_within(lock, UINT64_MAX) == 1);
    OK(clump_lock_release(lock));
    OK(clump_lock_close(lock));
    OK(clump_lock_close(none));

    uint64_t seen = 0;
    EXPECT(clump_flag_wait_within(flag, CLUMP_AT_LEAST, 1000, 1000, &seen) == 0);
    OK(clump_flag_add(flag, 1));
    OK(clump_flag_wait(flag, CLUMP_EQUAL, (uint64_t)nranks, &seen));
    EXPECT(seen == (uint64_t)nranks);
    OK(clump_barrier(cl));
    if (rank == 0) OK(clump_flag_set(flag, 1000));
    OK(clump_flag_wait(flag, CLUMP_AT_LEAST, 1000, NULL));
    EXPECT(clump_flag_wait_within(flag, CLUMP_NOT_EQUAL, 1, 1000, NULL) == 1);
    OK(clump_flag_get(flag, &seen));
    EXPECT(seen == 1000);
    FAILS(CLUMP_ERR_ARGUMENT, clump_flag_get(flag, NULL));
    FAILS(CLUMP_ERR_ARGUMENT, clump_flag_wait(flag, 9, 0, NULL));
    FAILS(CLUMP_ERR_BOUNDS, clump_flag_wait(nothing, CLUMP_EQUAL, 0, NULL));
    int set = clump_flag_set(nothing, 1), quiet = clump_rma_quiet(rma);
    EXPECT((set == CLUMP_ERR_BOUNDS && quiet == 0) || (set == 0 && quiet == CLUMP_ERR_BOUNDS));
    OK(clump_flag_close(flag));
    FAILS(CLUMP_ERR_HANDLE, clump_flag_set(flag, 1));
    FAILS(CLUMP_ERR_HANDLE, clump_flag_close(flag));
    OK(clump_barrier(cl));
    OK(clump_segment_close(locks));
    OK(clump_segment_close(flags));
}

static void segments(void) {
    clump_segment *growing = clump_segment_export(rma, 4096, 1 << 20);
    EXPECT(growing != NULL);
    clump_target *t = clump_target_open(rma, clump_segment_name(growing));
    uint64_t v = 1;
    EXPECT(clump_segment_base(growing) != NULL && clump_target_near(t, 0, 1) != NULL);
    FAILS(CLUMP_ERR_BOUNDS, clump_rma_get_u64(t, 4096, &v));
    OK(clump_segment_grow(growing, 8192));
    OK(clump_rma_get_u64(t, 4096, &v));
    EXPECT(v == 0);
    OK(clump_rma_put_u64(t, 8184, 3));
    EXPECT(((uint64_t *)clump_segment_base(growing))[1023] == 3);
    FAILS(CLUMP_ERR_LIMIT, clump_segment_grow(growing, 1 << 21));
    clump_segment_id name = clump_segment_name(growing);
    OK(clump_segment_close(growing));
    FAILS(CLUMP_ERR_HANDLE, clump_segment_grow(growing, 1));
    NULLS(CLUMP_ERR_SEGMENT, clump_target_open(rma, name));
    NULLS(CLUMP_ERR_SEGMENT, clump_target_open(rma, UINT64_MAX));
    NULLS(CLUMP_ERR_LIMIT, clump_segment_export(rma, UINT64_MAX, 0));
    OK(clump_target_close(t));
    FAILS(CLUMP_ERR_HANDLE, clump_rma_put_u64(t, 0, 1));
    FAILS(CLUMP_ERR_HANDLE, clump_rma_get_u64(t, 0, &v));
    FAILS(CLUMP_ERR_HANDLE, clump_target_close(t));
    EXPECT(clump_segment_name(NULL) == 0 && clump_segment_base(NULL) == NULL && clump_target_name(NULL) == 0);
    clump_segment *many[100];
    int count = 0;
    while (count < 100 && (many[count] = clump_segment_export(rma, 1, 0)) != NULL) count++;
    EXPECT(count > 30 && count < 100 && clump_error() == CLUMP_ERR_LIMIT);
    while (count > 0) OK(clump_segment_close(many[--count]));
}

int main(int argc, char **argv) {
    cl = clump_init(&argc, &argv);
    EXPECT(cl != NULL);
    rank = clump_rank(cl), nranks = clump_nranks(cl);
    rma = clump_rma_open(cl);
    EXPECT(rma != NULL);
    all = calloc((size_t)nranks, sizeof *all);
    NULLS(CLUMP_ERR_ARGUMENT, clump_allocate(cl, rma, BYTES, NULL));
    NULLS(CLUMP_ERR_ARGUMENT, clump_allocate(cl, NULL, BYTES, all));
    clump_segment *mine = clump_allocate(cl, rma, BYTES, all);
    EXPECT(mine != NULL && clump_segment_name(mine) == clump_target_name(all[rank]));
    clump_target *next = all[(rank + 1) % nranks];

    uint64_t ticket = 0;
    for (int i = 0; i < 100; i++) OK(clump_rma_fetch_add_u64(all[0], COUNTER, 1, &ticket));
    for (int i = 0; i < 100; i++) OK(clump_rma_add_u32(all[0], SMALL, 1));
    OK(clump_rma_fence(rma));
    OK(clump_rma_quiet(rma));
    OK(clump_barrier(cl));
    uint32_t small = 0;
    OK(clump_rma_load_u64(all[0], COUNTER, &ticket));
    OK(clump_rma_load_u32(all[0], SMALL, &small));
    EXPECT(ticket == 100 * (uint64_t)nranks && small == 100 * (uint32_t)nranks);
    OK(clump_rma_poll(rma));
    words(next);
    blocks(next);
    OK(clump_barrier(cl));
    segments();
    locks_and_flags();
    FAILS(CLUMP_ERR_ARGUMENT, clump_rma_quiet(NULL));
    FAILS(CLUMP_ERR_HANDLE, clump_rma_quiet((clump_rma *)mine));
    NULLS(CLUMP_ERR_ARGUMENT, clump_rma_open(NULL));
    OK(clump_barrier(cl));
    OK(clump_rma_close(rma));
    FAILS(CLUMP_ERR_HANDLE, clump_rma_quiet(rma));
    OK(clump_rma_get_u64(next, COUNTER, &ticket)); /* targets stay open */
    OK(clump_barrier(cl));
    OK(clump_finalize(cl));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_rma_get_u64(next, COUNTER, &ticket));
    FAILS(CLUMP_ERR_NOT_RUNNING, clump_segment_grow(mine, 1));
    printf("rank %d: one-sided operations are right\n", rank);
    free(all);
    return 0;
}
