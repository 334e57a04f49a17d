/* The part of <clump/rma.h> that is inline: operations on single words, which on memory of this
 * node are one load, store or atomic instruction after a comparison with the segment's end. Written
 * by hand.
 *
 * Each fails as clump_rma_atomic_u64 does. `target` is null, or came from clump_target_open or
 * clump_allocate; a closed one is recognised. (Other pointers are not, in these functions alone.)
 * Words of memory of this node may be operated on from any thread while the target is open.
 */
#ifndef CLUMP_RMA_INLINE_H
#define CLUMP_RMA_INLINE_H

#if defined(__cplusplus) && defined(__GNUC__)
/* C++ programs may ask for warnings about casts of C. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#if !defined(__GNUC__)
#error "these headers use the atomic builtins of GCC and Clang"
#endif

/* The beginning of a target, as programs see it; crates/clump-ffi/src/slot.rs asserts the same. */
typedef struct clump_layout_target {
    /* Words that begin before this offset may be accessed, at */
    uint64_t near_end;
    /* this address. */
    unsigned char *near_base;
} clump_layout_target;

#ifdef __cplusplus
static_assert(offsetof(clump_layout_target, near_end) == 0, "the layout that the library has");
static_assert(offsetof(clump_layout_target, near_base) == 8, "the layout that the library has");
#else
__extension__ _Static_assert(offsetof(clump_layout_target, near_end) == 0, "the layout that the library has");
__extension__ _Static_assert(offsetof(clump_layout_target, near_base) == 8, "the layout that the library has");
#endif

/* Returns the word of `bytes` bytes at `offset`, if it is on this node, inside and aligned; else
 * null. */
static __inline__ void *clump_near_word_(const clump_target *target, uint64_t offset, uint64_t bytes) {
    const clump_layout_target *at = (const clump_layout_target *)(const void *)target;
    if (__builtin_expect(target != NULL && offset < at->near_end && offset % bytes == 0, 1))
        return at->near_base + offset;
    return NULL;
}

/* For words of 8 bytes (u64) at multiples of 8, and of 4 bytes (u32) at multiples of 4:
 *
 *   int clump_rma_put_u64(target, offset, value)         write; clump_rma_quiet waits for it
 *   int clump_rma_get_u64(target, offset, &value)        read
 *   int clump_rma_store_u64(target, offset, value)       write, ordered after earlier writes
 *   int clump_rma_load_u64(target, offset, &value)       read, and see what was written before
 *   int clump_rma_swap_u64(target, offset, value, &old)  write, and return the old value
 *   int clump_rma_compare_swap_u64(target, offset, expected, desired, &old)
 *   int clump_rma_fetch_add_u64(target, offset, operand, &old)      also and, or, xor, min, max
 *   int clump_rma_add_u64(target, offset, operand)                  without a result: not waited for
 *
 * A null pointer for a result is CLUMP_ERR_ARGUMENT.
 */
#define CLUMP_WORD_OPERATIONS_(T, S, BYTES)                                                                  \
    static __inline__ int clump_rma_put_##S(clump_target *target, uint64_t offset, T value) {                    \
        T *word = (T *)clump_near_word_(target, offset, BYTES);                                              \
        if (word == NULL) return clump_rma_atomic_##S(target, offset, CLUMP_STORE, value, 0, NULL);          \
        __atomic_store_n(word, value, __ATOMIC_RELAXED);                                                     \
        return 0;                                                                                            \
    }                                                                                                        \
    static __inline__ int clump_rma_get_##S(clump_target *target, uint64_t offset, T *value) {                   \
        const T *word = (const T *)clump_near_word_(target, offset, BYTES);                                  \
        if (word == NULL || value == NULL)                                                                   \
            return clump_rma_atomic_##S(target, offset, CLUMP_LOAD, 0, 0, value);                            \
        *value = __atomic_load_n(word, __ATOMIC_RELAXED);                                                    \
        return 0;                                                                                            \
    }                                                                                                        \
    static __inline__ int clump_rma_store_##S(clump_target *target, uint64_t offset, T value) {                  \
        T *word = (T *)clump_near_word_(target, offset, BYTES);                                              \
        if (word == NULL) return clump_rma_atomic_##S(target, offset, CLUMP_STORE, value, 0, NULL);          \
        __atomic_store_n(word, value, __ATOMIC_RELEASE);                                                     \
        return 0;                                                                                            \
    }                                                                                                        \
    static __inline__ int clump_rma_load_##S(clump_target *target, uint64_t offset, T *value) {                  \
        const T *word = (const T *)clump_near_word_(target, offset, BYTES);                                  \
        if (word == NULL || value == NULL)                                                                   \
            return clump_rma_atomic_##S(target, offset, CLUMP_LOAD, 0, 0, value);                            \
        *value = __atomic_load_n(word, __ATOMIC_ACQUIRE);                                                    \
        return 0;                                                                                            \
    }                                                                                                        \
    static __inline__ int clump_rma_compare_swap_##S(clump_target *target, uint64_t offset, T expected,          \
                                                 T desired, T *old) {                                        \
        T *word = (T *)clump_near_word_(target, offset, BYTES);                                              \
        if (word == NULL || old == NULL)                                                                     \
            return clump_rma_result_##S(target, offset, CLUMP_COMPARE_SWAP, desired, expected, old);         \
        *old = expected;                                                                                     \
        (void)__atomic_compare_exchange_n(word, old, desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);        \
        return 0;                                                                                            \
    }
#define CLUMP_FETCHING_OPERATION_(T, S, BYTES, NAME, OP, BUILTIN)                                            \
    static __inline__ int NAME##S(clump_target *target, uint64_t offset, T operand, T *old) {                    \
        T *word = (T *)clump_near_word_(target, offset, BYTES);                                              \
        if (word == NULL || old == NULL)                                                                     \
            return clump_rma_result_##S(target, offset, OP, operand, 0, old);                                \
        *old = BUILTIN(word, operand, __ATOMIC_ACQ_REL);                                                     \
        return 0;                                                                                            \
    }
#define CLUMP_SILENT_OPERATION_(T, S, BYTES, NAME, OP, BUILTIN)                                              \
    static __inline__ int NAME##S(clump_target *target, uint64_t offset, T operand) {                            \
        T *word = (T *)clump_near_word_(target, offset, BYTES);                                              \
        if (word == NULL) return clump_rma_atomic_##S(target, offset, OP, operand, 0, NULL);                 \
        (void)BUILTIN(word, operand, __ATOMIC_ACQ_REL);                                                      \
        return 0;                                                                                            \
    }
/* There are no instructions for these two. */
#define CLUMP_CHOOSING_OPERATION_(T, S, NAME, OP)                                                            \
    static __inline__ int clump_rma_fetch_##NAME##S(clump_target *target, uint64_t offset, T operand, T *old) {  \
        return clump_rma_result_##S(target, offset, OP, operand, 0, old);                                    \
    }                                                                                                        \
    static __inline__ int clump_rma_##NAME##S(clump_target *target, uint64_t offset, T operand) {                \
        return clump_rma_atomic_##S(target, offset, OP, operand, 0, NULL);                                   \
    }
#define CLUMP_ALL_OPERATIONS_(T, S, BYTES)                                                                   \
    /* Without a place for a result that is asked for, this fails as reading to nowhere does. */             \
    static __inline__ int clump_rma_result_##S(clump_target *target, uint64_t offset, int op, T operand,         \
                                           T other, T *old) {                                                \
        return clump_rma_atomic_##S(target, offset, old == NULL ? CLUMP_LOAD : op, operand, other, old);     \
    }                                                                                                        \
    CLUMP_WORD_OPERATIONS_(T, S, BYTES)                                                                      \
    CLUMP_FETCHING_OPERATION_(T, S, BYTES, clump_rma_swap_, CLUMP_SWAP, __atomic_exchange_n)                 \
    CLUMP_FETCHING_OPERATION_(T, S, BYTES, clump_rma_fetch_add_, CLUMP_ADD, __atomic_fetch_add)              \
    CLUMP_FETCHING_OPERATION_(T, S, BYTES, clump_rma_fetch_and_, CLUMP_BIT_AND, __atomic_fetch_and)          \
    CLUMP_FETCHING_OPERATION_(T, S, BYTES, clump_rma_fetch_or_, CLUMP_BIT_OR, __atomic_fetch_or)             \
    CLUMP_FETCHING_OPERATION_(T, S, BYTES, clump_rma_fetch_xor_, CLUMP_BIT_XOR, __atomic_fetch_xor)          \
    CLUMP_SILENT_OPERATION_(T, S, BYTES, clump_rma_add_, CLUMP_ADD, __atomic_fetch_add)                      \
    CLUMP_SILENT_OPERATION_(T, S, BYTES, clump_rma_and_, CLUMP_BIT_AND, __atomic_fetch_and)                  \
    CLUMP_SILENT_OPERATION_(T, S, BYTES, clump_rma_or_, CLUMP_BIT_OR, __atomic_fetch_or)                     \
    CLUMP_SILENT_OPERATION_(T, S, BYTES, clump_rma_xor_, CLUMP_BIT_XOR, __atomic_fetch_xor)                  \
    CLUMP_CHOOSING_OPERATION_(T, S, min_, CLUMP_ATOMIC_MIN)                                                        \
    CLUMP_CHOOSING_OPERATION_(T, S, max_, CLUMP_ATOMIC_MAX)

CLUMP_ALL_OPERATIONS_(uint64_t, u64, 8)
CLUMP_ALL_OPERATIONS_(uint32_t, u32, 4)

#undef CLUMP_ALL_OPERATIONS_
#undef CLUMP_WORD_OPERATIONS_
#undef CLUMP_FETCHING_OPERATION_
#undef CLUMP_SILENT_OPERATION_
#undef CLUMP_CHOOSING_OPERATION_

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* CLUMP_RMA_INLINE_H */
