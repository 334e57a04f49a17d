/* One-sided operations: memory of other ranks, atomics, locks, flags.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_RMA_H
#define CLUMP_RMA_H

#include "clump/pending.h"


/**
 * Atomic operations on a word.
 */
typedef enum clump_atomic {
  /**
   * Reads it, and sees what its writer wrote before it.
   */
  CLUMP_LOAD = 0,
  /**
   * Writes it; a reader that reads it by ::CLUMP_LOAD sees what was written before.
   */
  CLUMP_STORE = 1,
  /**
   * Writes it and returns its old value.
   */
  CLUMP_SWAP = 2,
  /**
   * Writes the operand if the word is the other operand.
   */
  CLUMP_COMPARE_SWAP = 3,
  /**
   * Adds, wrapping around.
   */
  CLUMP_ADD = 4,
  /**
   * Keeps the bits of both.
   */
  CLUMP_BIT_AND = 5,
  /**
   * Sets the bits of either.
   */
  CLUMP_BIT_OR = 6,
  /**
   * Sets the bits that differ.
   */
  CLUMP_BIT_XOR = 7,
  /**
   * Keeps the smaller, as numbers without sign.
   */
  CLUMP_ATOMIC_MIN = 8,
  /**
   * Keeps the larger, as numbers without sign.
   */
  CLUMP_ATOMIC_MAX = 9,
  /**
   * Keeps the smaller, as numbers with sign.
   */
  CLUMP_ATOMIC_MIN_SIGNED = 10,
  /**
   * Keeps the larger, as numbers with sign.
   */
  CLUMP_ATOMIC_MAX_SIGNED = 11,
  /**
   * Adds, as floating-point numbers: `double`, or `float` in words of 4 bytes.
   */
  CLUMP_ADD_FLOAT = 12,
  /**
   * Keeps the smaller, as floating-point numbers; of a number and a NaN, the number.
   */
  CLUMP_ATOMIC_MIN_FLOAT = 13,
  /**
   * Keeps the larger, as floating-point numbers; of a number and a NaN, the number.
   */
  CLUMP_ATOMIC_MAX_FLOAT = 14
} clump_atomic;

/**
 * Comparisons of a word with a value.
 */
typedef enum clump_comparison {
  /**
   * Equal.
   */
  CLUMP_EQUAL = 0,
  /**
   * Not equal.
   */
  CLUMP_NOT_EQUAL = 1,
  /**
   * Greater or equal, as numbers without sign.
   */
  CLUMP_AT_LEAST = 2,
  /**
   * Less or equal, as numbers without sign.
   */
  CLUMP_AT_MOST = 3
} clump_comparison;

/**
 * A word that any rank sets or adds to, and any rank waits for. Belongs to the thread that opened
 * it.
 */
typedef struct clump_flag clump_flag;

/**
 * A fair lock of all ranks, with a word that travels with it. Belongs to the thread that opened
 * it.
 */
typedef struct clump_lock clump_lock;

/**
 * One-sided operations of the thread that opened them. Takes one of the rank's endpoints.
 */
typedef struct clump_rma clump_rma;

/**
 * Memory of this rank that others may access, until it is closed.
 */
typedef struct clump_segment clump_segment;

/**
 * A segment of any rank, to operate on. Belongs to the thread that opened it.
 */
typedef struct clump_target clump_target;

/**
 * The global name of a segment: plain data that ranks may send each other. 0 names nothing.
 */
typedef uint64_t clump_segment_id;

/**
 * Blocks of equal length at equal distances.
 */
typedef struct clump_strides {
  /**
   * Offset of the first block in bytes.
   */
  uint64_t offset;
  /**
   * Bytes of a block.
   */
  size_t block;
  /**
   * Bytes from the beginning of one to that of the next.
   */
  uint64_t stride;
} clump_strides;

/**
 * A word that is written after a put: a rank that sees it sees what was put.
 */
typedef struct clump_signal {
  /**
   * A segment of the node that is put to.
   */
  clump_segment_id segment;
  /**
   * Offset in it; a multiple of 8.
   */
  uint64_t offset;
  /**
   * The value that is written there, or added.
   */
  uint64_t value;
  /**
   * 1 if it is added, else 0.
   */
  int adds;
} clump_signal;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Opens one-sided operations for the calling thread.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open). Closed by
 * ::clump_rma_close, at the end of the thread, or by ::clump_finalize.
 */
struct clump_rma *clump_rma_open(clump_t *cl);

/**
 * Closes one-sided operations. Targets, segments, locks and flags that were opened through them
 * stay open. Null does nothing.
 *
 * Errors: ::CLUMP_ERR_HANDLE, ::CLUMP_ERR_THREAD, ::CLUMP_ERR_BUSY.
 */
int clump_rma_close(struct clump_rma *rma);

/**
 * Handles answers that have arrived, without waiting; every call that waits does so too. Returns
 * how many messages were handled.
 */
int clump_rma_poll(struct clump_rma *rma);

/**
 * Orders operations: those that this thread begins after it on a target come after all that it
 * began before on targets of the same node. Does not wait.
 */
int clump_rma_fence(struct clump_rma *rma);

/**
 * Waits until everything that this thread began is complete, everywhere. Does not wait for gets in
 * flight (::clump_rma_get_start).
 *
 * Errors: the first refused operation of those begun without waiting since the last call
 * (::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT, ::CLUMP_ERR_OWNER_DIED), with
 * their number in the text; ::CLUMP_ERR_NODE_LOST (a node was lost with such operations in flight;
 * reported once, afterwards the call covers the other nodes); ::CLUMP_ERR_RANK_DIED.
 */
int clump_rma_quiet(struct clump_rma *rma);

/**
 * Waits until everything that was begun by ::clump_rma_get_start through this has arrived.
 *
 * Errors: of the first that was refused, as of ::clump_rma_get.
 */
int clump_rma_sync(struct clump_rma *rma);

/**
 * Exports `bytes` bytes of zeroed memory, with address space for `reserved` bytes if that is more,
 * which ::clump_segment_grow fills. A rank exports up to 64 segments at one time, those of
 * endpoints among them.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM. Closed by ::clump_segment_close,
 * at the end of the thread, or by ::clump_finalize; then the memory is freed.
 */
struct clump_segment *clump_segment_export(struct clump_rma *rma, uint64_t bytes, uint64_t reserved);

/**
 * Closes a segment: operations on it are refused from then on. Null does nothing.
 */
int clump_segment_close(struct clump_segment *segment);

/**
 * Returns the global name of a segment, to send to other ranks; 0 on failure.
 */
clump_segment_id clump_segment_name(const struct clump_segment *segment);

/**
 * Returns the address of a segment of this rank; null on failure. (A target of it has the same
 * memory at another address.) Others write there at any time: words that they access are read by
 * atomics.
 */
void *clump_segment_base(const struct clump_segment *segment);

/**
 * Grows a segment to `bytes` bytes, if it is shorter; the new bytes are zero. Other ranks are not
 * notified.
 *
 * Errors: ::CLUMP_ERR_LIMIT (more than was reserved), ::CLUMP_ERR_SYSTEM (memory has run out).
 */
int clump_segment_grow(struct clump_segment *segment, uint64_t bytes);

/**
 * Exports `bytes` bytes of zeroed memory on each rank, and writes the targets of all ranks to
 * `all`, by rank: space for as many targets as there are ranks. Collective: all ranks call it.
 * Returns this rank's segment.
 *
 * Returns null on failure: as ::clump_segment_export and ::clump_barrier.
 *
 * # Safety
 * `all` has space for a target of each rank.
 */
struct clump_segment *clump_allocate(clump_t *cl,
                                     struct clump_rma *rma,
                                     uint64_t bytes,
                                     struct clump_target **all);

/**
 * Opens the segment of that name, to operate on. If it is no longer exported on another node, the
 * first operation that reaches it fails.
 *
 * Returns null on failure: ::CLUMP_ERR_SEGMENT (it is to be on this node, and is not),
 * ::CLUMP_ERR_SYSTEM, ::CLUMP_ERR_LIMIT. Closed by ::clump_target_close, at the end of the thread,
 * or by ::clump_finalize.
 */
struct clump_target *clump_target_open(struct clump_rma *rma, clump_segment_id name);

/**
 * Closes a target; the segment stays. Null does nothing.
 */
int clump_target_close(struct clump_target *target);

/**
 * Returns the name of a target's segment; 0 on failure.
 */
clump_segment_id clump_target_name(const struct clump_target *target);

/**
 * Returns 1 if a target is on this node, so that operations are executed at once; 0 if not.
 */
int clump_target_is_near(const struct clump_target *target);

/**
 * Returns the address in this process of `[offset, offset + bytes)` of a segment of this node, for
 * plain loads and stores; null if it is on another node (no error), or on failure:
 * ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT. Valid while the target is open.
 */
void *clump_target_near(const struct clump_target *target, uint64_t offset, uint64_t bytes);

/**
 * Writes `from`, `bytes` bytes, to `offset` of a segment. `from` may be reused when this returns;
 * ::clump_rma_quiet waits until the bytes are there.
 *
 * Errors: on this node: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT; on another, ::clump_rma_quiet
 * reports them. ::CLUMP_ERR_NODE_LOST.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_rma_put(struct clump_target *target, uint64_t offset, const void *from, size_t bytes);

/**
 * Reads `bytes` bytes at `offset` of a segment to `to`; they are there when this returns.
 *
 * Errors: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_OWNER_DIED, ::CLUMP_ERR_NODE_LOST,
 * ::CLUMP_ERR_RANK_DIED. Then `to` may hold anything.
 *
 * # Safety
 * `to` has space for `bytes` bytes.
 */
int clump_rma_get(struct clump_target *target, uint64_t offset, void *to, size_t bytes);

/**
 * Begins to read `bytes` bytes at `offset` of a segment to `to`, which must not be used or freed
 * until ::clump_rma_sync has returned (or ::clump_rma_close, and all targets opened through it are
 * closed). From this node they are there at once.
 *
 * Errors: on this node: as ::clump_rma_get; on another, ::clump_rma_sync reports them.
 *
 * # Safety
 * `to` has space for `bytes` bytes, for so long.
 */
int clump_rma_get_start(struct clump_target *target, uint64_t offset, void *to, size_t bytes);

/**
 * Does `op` (a ::clump_atomic) to the word of 8 bytes at `offset` of a segment, with `operand`,
 * and for ::CLUMP_COMPARE_SWAP with `other`, which the word is compared with. The old value of the
 * word is written to `old`. If that is null, the operation is only begun, and ::clump_rma_quiet
 * waits until it is complete (except ::CLUMP_COMPARE_SWAP, which is waited for). After
 * ::CLUMP_STORE, `old` is what was stored.
 *
 * Errors: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT (offset no multiple of 8),
 * ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_OWNER_DIED, ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED,
 * ::CLUMP_ERR_ARGUMENT (no such operation, or ::CLUMP_LOAD to nowhere).
 *
 * # Safety
 * `old` is null or a place to write to.
 */
int clump_rma_atomic_u64(struct clump_target *target,
                         uint64_t offset,
                         int op,
                         uint64_t operand,
                         uint64_t other,
                         uint64_t *old);

/**
 * Does ::clump_rma_atomic_u64 to a word of 4 bytes, at a multiple of 4.
 *
 * # Safety
 * `old` is null or a place to write to.
 */
int clump_rma_atomic_u32(struct clump_target *target,
                         uint64_t offset,
                         int op,
                         uint32_t operand,
                         uint32_t other,
                         uint32_t *old);

/**
 * Begins to write `from`, `bytes` bytes, to `offset` of a segment; `from` may be reused when this
 * returns. The pending operation is waited for, or dropped.
 *
 * Returns null on failure: as ::clump_rma_put.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
clump_pending *clump_rma_put_start(struct clump_target *target,
                                   uint64_t offset,
                                   const void *from,
                                   size_t bytes);

/**
 * Begins ::clump_rma_atomic_u64. The pending operation is waited for, which returns the old value
 * of the word, or dropped.
 *
 * Returns null on failure: as that.
 */
clump_pending *clump_rma_atomic_start_u64(struct clump_target *target,
                                          uint64_t offset,
                                          int op,
                                          uint64_t operand,
                                          uint64_t other);

/**
 * Begins ::clump_rma_atomic_u32.
 */
clump_pending *clump_rma_atomic_start_u32(struct clump_target *target,
                                          uint64_t offset,
                                          int op,
                                          uint32_t operand,
                                          uint32_t other);

/**
 * Waits until the word of 8 bytes at `offset` of a segment of this node compares to `value` by
 * `how` (a ::clump_comparison), and writes it to `seen`, if that is not null. Signals to a segment
 * wake its own rank at once, and others of the node after some milliseconds.
 *
 * Errors: ::CLUMP_ERR_SEGMENT (it is on another node), ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT,
 * ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_ARGUMENT.
 *
 * # Safety
 * `seen` is null or a place to write to.
 */
int clump_rma_wait_until_u64(struct clump_target *target,
                             uint64_t offset,
                             int how,
                             uint64_t value,
                             uint64_t *seen);

/**
 * Writes `from`, whole blocks one behind the other, to the blocks of `to`.
 *
 * Errors: ::CLUMP_ERR_BOUNDS (also if `from` is not made of whole blocks); else as
 * ::clump_rma_put.
 *
 * # Safety
 * `to` are strides, `from` has `bytes` bytes.
 */
int clump_rma_put_strided(struct clump_target *target,
                          const struct clump_strides *to,
                          const void *from,
                          size_t bytes);

/**
 * Reads the blocks of `from` to `to`, one behind the other, until its `bytes` bytes are full.
 *
 * Errors: ::CLUMP_ERR_BOUNDS (also if `to` does not hold whole blocks); else as ::clump_rma_get.
 *
 * # Safety
 * `from` are strides, `to` has space for `bytes` bytes.
 */
int clump_rma_get_strided(struct clump_target *target,
                          const struct clump_strides *from,
                          void *to,
                          size_t bytes);

/**
 * Writes `from`, `bytes` bytes, to `offset`, and then a signal: a rank that waits for that
 * (::clump_rma_wait_until_u64), or reads it by ::CLUMP_LOAD, sees what was put.
 *
 * Errors: as ::clump_rma_put.
 *
 * # Safety
 * `from` has `bytes` bytes, `signal` is one.
 */
int clump_rma_put_signal(struct clump_target *target,
                         uint64_t offset,
                         const void *from,
                         size_t bytes,
                         const struct clump_signal *signal);

/**
 * Writes a word of 8 bytes at `offset`, or adds to it if `adds` is not 0, and wakes the segment's
 * rank if it waits. Ordered after everything that this thread has put to that node if
 * ::clump_rma_fence came between.
 *
 * Errors: as ::clump_rma_put; ::CLUMP_ERR_ALIGNMENT.
 */
int clump_rma_signal(struct clump_target *target, uint64_t offset, uint64_t value, int adds);

/**
 * Exports `count` locks, all free, their words 0. Their home is this rank's node.
 *
 * Returns null on failure: as ::clump_segment_export.
 */
struct clump_segment *clump_locks_export(struct clump_rma *rma, uint64_t count);

/**
 * Opens lock number `index`, from 0, of those exported under the name `locks`.
 *
 * Returns null on failure: as ::clump_target_open.
 */
struct clump_lock *clump_lock_open(struct clump_rma *rma, clump_segment_id locks, uint64_t index);

/**
 * Closes a lock, and releases it if it is held. Null does nothing.
 */
int clump_lock_close(struct clump_lock *lock);

/**
 * Waits for the lock. Claims are served in the order in which they reach its home.
 *
 * Errors: ::CLUMP_ERR_HOLDER_DIED (the rank that held it died with it; for every rank from then
 * on), ::CLUMP_ERR_BUSY (this object holds it), ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED,
 * ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS (no lock of that number).
 */
int clump_lock_acquire(struct clump_lock *lock);

/**
 * Takes the lock if it is free: returns 1 if so, 0 if not. If the holder has died, it returns 0
 * until the home of the lock is notified of the death, and then always ::CLUMP_ERR_HOLDER_DIED.
 *
 * Errors: as ::clump_lock_acquire.
 */
int clump_lock_try(struct clump_lock *lock);

/**
 * Waits for the lock for `limit_ns` nanoseconds at most: returns 1 if it was taken, 0 if not.
 *
 * Errors: as ::clump_lock_acquire.
 */
int clump_lock_acquire_within(struct clump_lock *lock, uint64_t limit_ns);

/**
 * Writes the word that came with the lock to `word`.
 *
 * Errors: ::CLUMP_ERR_NOT_HELD, ::CLUMP_ERR_ARGUMENT.
 *
 * # Safety
 * `word` is null or a place to write to.
 */
int clump_lock_word(const struct clump_lock *lock, uint64_t *word);

/**
 * Sets the word that is passed on with the lock.
 *
 * Errors: ::CLUMP_ERR_NOT_HELD.
 */
int clump_lock_set_word(struct clump_lock *lock, uint64_t word);

/**
 * Releases the lock. Data put to other nodes while it was held is visible to its next holder only
 * after ::clump_rma_quiet.
 *
 * Errors: ::CLUMP_ERR_NOT_HELD, ::CLUMP_ERR_NODE_LOST.
 */
int clump_lock_release(struct clump_lock *lock);

/**
 * Exports `count` flags, all 0. Their home is this rank's node.
 *
 * Returns null on failure: as ::clump_segment_export.
 */
struct clump_segment *clump_flags_export(struct clump_rma *rma, uint64_t count);

/**
 * Opens flag number `index`, from 0, of those exported under the name `flags`.
 *
 * Returns null on failure: as ::clump_target_open.
 */
struct clump_flag *clump_flag_open(struct clump_rma *rma, clump_segment_id flags, uint64_t index);

/**
 * Closes a flag. Null does nothing.
 */
int clump_flag_close(struct clump_flag *flag);

/**
 * Sets a flag. A rank that sees the new value sees what this thread has put to its node before a
 * ::clump_rma_fence that came before this.
 *
 * Errors: on this node: ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS (no flag of that number); on
 * another, ::clump_rma_quiet reports them. ::CLUMP_ERR_NODE_LOST.
 */
int clump_flag_set(struct clump_flag *flag, uint64_t value);

/**
 * Adds to a flag; otherwise as ::clump_flag_set.
 */
int clump_flag_add(struct clump_flag *flag, uint64_t value);

/**
 * Writes the current value of a flag to `value`.
 *
 * Errors: as ::clump_rma_get; ::CLUMP_ERR_ARGUMENT.
 *
 * # Safety
 * `value` is null or a place to write to.
 */
int clump_flag_get(struct clump_flag *flag, uint64_t *value);

/**
 * Waits until a flag compares to `value` by `how` (a ::clump_comparison); writes it to `seen`, if
 * that is not null.
 *
 * Errors: as ::clump_rma_get; ::CLUMP_ERR_ARGUMENT.
 *
 * # Safety
 * `seen` is null or a place to write to.
 */
int clump_flag_wait(struct clump_flag *flag, int how, uint64_t value, uint64_t *seen);

/**
 * Waits as ::clump_flag_wait does, for `limit_ns` nanoseconds at most: returns 1 if the flag
 * compares so, 0 if the time has passed.
 *
 * Errors: as ::clump_flag_wait.
 *
 * # Safety
 * `seen` is null or a place to write to.
 */
int clump_flag_wait_within(struct clump_flag *flag,
                           int how,
                           uint64_t value,
                           uint64_t limit_ns,
                           uint64_t *seen);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_RMA_H */

#include "clump/rma_inline.h"
