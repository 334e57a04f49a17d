/* The part of <clump/pgas.h> that is inline: arithmetic on pointers, and operations on numbers.
 * Written by hand.
 */
#ifndef CLUMP_PGAS_INLINE_H
#define CLUMP_PGAS_INLINE_H

#if defined(__cplusplus) && defined(__GNUC__)
/* C++ programs may ask for warnings about casts of C. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/* Returns the pointer `bytes` bytes further on, or back; it may point anywhere, but only be used
 * inside the memory that it was made of. */
static __inline__ clump_gptr clump_gptr_add(clump_gptr at, int64_t bytes) {
    at.offset += (uint64_t)bytes;
    return at;
}

/* Returns 1 if two pointers point to the same place. */
static __inline__ int clump_gptr_equal(clump_gptr a, clump_gptr b) {
    return a.segment == b.segment && a.offset == b.offset;
}

/* For u8 to u64, i8 to i64, f32 and f64:
 *
 *   int clump_pgas_add_u64(gas, at, operand)               begun; also min, max
 *   int clump_pgas_fetch_add_u64(gas, at, operand, &old)   waited for; also min, max, swap
 *   int clump_pgas_compare_swap_u64(gas, at, expected, desired, &old)
 *
 * and for integers and, or, xor, fetch_and, fetch_or, fetch_xor. Each fails as clump_pgas_atomic
 * does. `old` may be null if the result is not needed.
 */
#define CLUMP_PGAS_BEGUN_(T, S, TYPE, NAME, OP)                                                              \
    static __inline__ int clump_pgas_##NAME##_##S(clump_pgas *gas, clump_gptr at, T operand) {               \
        return clump_pgas_atomic(gas, at, TYPE, OP, &operand, NULL, NULL);                                   \
    }
#define CLUMP_PGAS_WAITED_(T, S, TYPE, NAME, OP)                                                             \
    static __inline__ int clump_pgas_##NAME##_##S(clump_pgas *gas, clump_gptr at, T operand, T *old) {       \
        T unused;                                                                                            \
        return clump_pgas_atomic(gas, at, TYPE, OP, &operand, NULL, old == NULL ? &unused : old);            \
    }
#define CLUMP_PGAS_NUMBER_(T, S, TYPE)                                                                       \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, add, CLUMP_ADD)                                                            \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, min, CLUMP_ATOMIC_MIN)                                                     \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, max, CLUMP_ATOMIC_MAX)                                                     \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_add, CLUMP_ADD)                                                     \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_min, CLUMP_ATOMIC_MIN)                                              \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_max, CLUMP_ATOMIC_MAX)                                              \
    CLUMP_PGAS_WAITED_(T, S, TYPE, swap, CLUMP_SWAP)                                                         \
    static __inline__ int clump_pgas_compare_swap_##S(clump_pgas *gas, clump_gptr at, T expected, T desired, \
                                                      T *old) {                                              \
        return clump_pgas_atomic(gas, at, TYPE, CLUMP_COMPARE_SWAP, &desired, &expected, old);               \
    }
#define CLUMP_PGAS_INTEGER_(T, S, TYPE)                                                                      \
    CLUMP_PGAS_NUMBER_(T, S, TYPE)                                                                           \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, and, CLUMP_BIT_AND)                                                        \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, or, CLUMP_BIT_OR)                                                          \
    CLUMP_PGAS_BEGUN_(T, S, TYPE, xor, CLUMP_BIT_XOR)                                                        \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_and, CLUMP_BIT_AND)                                                 \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_or, CLUMP_BIT_OR)                                                   \
    CLUMP_PGAS_WAITED_(T, S, TYPE, fetch_xor, CLUMP_BIT_XOR)

CLUMP_PGAS_INTEGER_(uint8_t, u8, CLUMP_U8)
CLUMP_PGAS_INTEGER_(uint16_t, u16, CLUMP_U16)
CLUMP_PGAS_INTEGER_(uint32_t, u32, CLUMP_U32)
CLUMP_PGAS_INTEGER_(uint64_t, u64, CLUMP_U64)
CLUMP_PGAS_INTEGER_(int8_t, i8, CLUMP_I8)
CLUMP_PGAS_INTEGER_(int16_t, i16, CLUMP_I16)
CLUMP_PGAS_INTEGER_(int32_t, i32, CLUMP_I32)
CLUMP_PGAS_INTEGER_(int64_t, i64, CLUMP_I64)
CLUMP_PGAS_NUMBER_(float, f32, CLUMP_F32)
CLUMP_PGAS_NUMBER_(double, f64, CLUMP_F64)

#undef CLUMP_PGAS_INTEGER_
#undef CLUMP_PGAS_NUMBER_
#undef CLUMP_PGAS_WAITED_
#undef CLUMP_PGAS_BEGUN_

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* CLUMP_PGAS_INLINE_H */
