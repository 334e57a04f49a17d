/* What <clump/job.h> adds that is no function of the library. Written by hand. */
#ifndef CLUMP_JOB_INLINE_H
#define CLUMP_JOB_INLINE_H

/* Joins the job; see clump_init_abi. Both arguments may be null. */
#define clump_init(argc, argv) clump_init_abi(CLUMP_ABI, (argc), (argv))

#endif /* CLUMP_JOB_INLINE_H */
