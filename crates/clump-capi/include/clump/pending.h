/* Operations that have begun, to be tested and waited for.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_PENDING_H
#define CLUMP_PENDING_H

#include "clump/job.h"


/**
 * An operation that has begun. Belongs to the thread that began it.
 */
typedef struct clump_pending clump_pending;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Returns 1 if an operation is complete, or failed; 0 if not yet. Polls.
 *
 * Errors: of a collective: those of ::clump_barrier, if it cannot complete any more.
 */
int clump_pending_test(struct clump_pending *pending);

/**
 * Waits until an operation is complete, writes the word that it returns to `value` (if that is not
 * null; a put and a collective return none, and 0 is written), and closes it, also if it failed.
 * The result of a collective is in its place when this returns.
 *
 * Errors: as ::clump_rma_get; ::CLUMP_ERR_ALIGNMENT. Of a collective: as the call that waits. Only
 * ::CLUMP_ERR_IN_HANDLER leaves a collective as it is.
 *
 * # Safety
 * `value` is null or a place to write to.
 */
int clump_pending_wait(struct clump_pending *pending, uint64_t *value);

/**
 * Lets an operation complete without waiting for it; a collective's result is not written. Null
 * does nothing.
 */
int clump_pending_drop(struct clump_pending *pending);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_PENDING_H */


