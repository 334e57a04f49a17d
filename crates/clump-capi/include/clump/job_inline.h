/* The part of <clump/job.h> that is inline. Written by hand. */
#ifndef CLUMP_JOB_INLINE_H
#define CLUMP_JOB_INLINE_H

/* Joins the job as clump_init_abi does. Both arguments may be null. */
#define clump_init(argc, argv) clump_init_abi(CLUMP_ABI, (argc), (argv))

/* Constants of types that are structures, in all languages that include this. */
#ifdef __cplusplus
#define CLUMP_CONSTANT_(T, name, code) static constexpr T name = {code}
#else
#define CLUMP_CONSTANT_(T, name, code) static const T name = {code}
#endif

/* Element types of an all-reduce: uint8_t, ..., int8_t, ..., float, double. */
CLUMP_CONSTANT_(clump_type, CLUMP_U8, 1);
CLUMP_CONSTANT_(clump_type, CLUMP_U16, 2);
CLUMP_CONSTANT_(clump_type, CLUMP_U32, 3);
CLUMP_CONSTANT_(clump_type, CLUMP_U64, 4);
CLUMP_CONSTANT_(clump_type, CLUMP_I8, 5);
CLUMP_CONSTANT_(clump_type, CLUMP_I16, 6);
CLUMP_CONSTANT_(clump_type, CLUMP_I32, 7);
CLUMP_CONSTANT_(clump_type, CLUMP_I64, 8);
CLUMP_CONSTANT_(clump_type, CLUMP_F32, 9);
CLUMP_CONSTANT_(clump_type, CLUMP_F64, 10);

/* Sum and product of integers wrap around. */
CLUMP_CONSTANT_(clump_op, CLUMP_SUM, 1);
CLUMP_CONSTANT_(clump_op, CLUMP_PRODUCT, 2);
/* The smaller and the larger; of floating-point numbers, a NaN loses. */
CLUMP_CONSTANT_(clump_op, CLUMP_MIN, 3);
CLUMP_CONSTANT_(clump_op, CLUMP_MAX, 4);
/* Bits of integers: set in both, set in either, different. */
CLUMP_CONSTANT_(clump_op, CLUMP_AND, 5);
CLUMP_CONSTANT_(clump_op, CLUMP_OR, 6);
CLUMP_CONSTANT_(clump_op, CLUMP_XOR, 7);

#undef CLUMP_CONSTANT_

#endif /* CLUMP_JOB_INLINE_H */
