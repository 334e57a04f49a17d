/* The part of <clump/svm.h> that is inline. Written by hand. */
#ifndef CLUMP_SVM_INLINE_H
#define CLUMP_SVM_INLINE_H

/* Joins the job and opens the heap; passes on the version of these headers. */
#define svm_init(argc, argv, threads) svm_init_abi(CLUMP_ABI, (argc), (argv), (threads))

/* The home of pages that all lie on one node. */
#define SVM_HOME_NODE(node) (16 + (node))

#endif
