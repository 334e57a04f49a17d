/* The global address space: pointers, spread arrays, operations that aggregate.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_PGAS_H
#define CLUMP_PGAS_H

#include "clump/rma.h"


/**
 * Distribution of an array's elements over ranks.
 */
typedef enum clump_layout {
  /**
   * One contiguous block for each rank.
   */
  CLUMP_BLOCK = 0,
  /**
   * Element by element, around all ranks.
   */
  CLUMP_CYCLIC = 1
} clump_layout;

/**
 * The call that a function executes; valid until the function returns.
 */
typedef struct clump_call clump_call;

/**
 * A thread's remote calls.
 */
typedef struct clump_calls clump_calls;

/**
 * A call under way, whose result is waited for. Belongs to the thread that made it.
 */
typedef struct clump_future clump_future;

/**
 * An exchange of boundaries between neighbours, in rounds. Belongs to the thread that made it.
 */
typedef struct clump_halo clump_halo;

/**
 * A lock of all ranks, with the word that it protects. Ranks that wait for it form a queue.
 * Belongs to the thread that made it.
 */
typedef struct clump_mutex clump_mutex;

/**
 * The global address space, as the thread that opened it uses it.
 */
typedef struct clump_pgas clump_pgas;

/**
 * An array whose elements are in the memories of all ranks. Belongs to the thread that made it.
 */
typedef struct clump_spread clump_spread;

/**
 * A global pointer: an address in the memory of any rank. Plain data that ranks may send each
 * other. All zero points nowhere. Arithmetic: ::clump_gptr_add.
 */
typedef struct clump_gptr {
  /**
   * The segment that it points into.
   */
  uint64_t segment;
  /**
   * Offset in that, in bytes.
   */
  uint64_t offset;
  /**
   * End of the memory that it may be used in.
   */
  uint64_t end;
} clump_gptr;

/**
 * Counters of aggregation since a ::clump_pgas was opened.
 */
typedef struct clump_aggregation {
  /**
   * Operations that were sent in batches.
   */
  uint64_t updates;
  /**
   * Batches that were sent.
   */
  uint64_t batches;
} clump_aggregation;

/**
 * A neighbour of a rank in a ::clump_halo.
 */
typedef struct clump_halo_neighbour {
  /**
   * The rank that it is; this one, too, where a grid is closed.
   */
  int rank;
  /**
   * The position, among the neighbours of that rank, of this rank on this side: what is given
   * here arrives there.
   */
  int entry;
  /**
   * Elements that each gives the other in a round.
   */
  size_t count;
} clump_halo_neighbour;

/**
 * A function that ranks call: gets the call, what it was registered with, and its arguments, which
 * are freed when it returns. Returns 0, or a failure, which its caller gets as
 * ::CLUMP_ERR_ARGUMENT, with the number in the text. It may not wait.
 */
typedef int (*clump_remote)(struct clump_call *call, void *data, const void *arguments, size_t bytes);

/**
 * Some of a rank's own work, for ::clump_calls_end: returns 1 if it did some, 0 if there was none,
 * or a failure below 0.
 */
typedef int (*clump_work)(void *data);

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Opens the global address space for the calling thread. Collective: all ranks call it. Takes one
 * of the rank's endpoints. The settings `CLUMP_PGAS_*` bound its aggregation.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open), and as ::clump_barrier.
 * Closed by ::clump_pgas_close, at the end of the thread, or by ::clump_finalize.
 */
struct clump_pgas *clump_pgas_open(clump_t *cl);

/**
 * Closes the global address space. Collected operations are sent with the next operation of its
 * arrays, which stay open: call ::clump_pgas_sync before. Null does nothing.
 */
int clump_pgas_close(struct clump_pgas *gas);

/**
 * Spreads an array of `count` elements of `bytes` bytes each, all zero, over all ranks, in a
 * ::clump_layout. Collective: all ranks give the same.
 *
 * Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such layout, an array that no memory holds,
 * different ones), ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM, and as ::clump_barrier. Closed by
 * ::clump_spread_free, at the end of the thread, or by ::clump_finalize: meet in a barrier before.
 */
struct clump_spread *clump_spread_alloc(struct clump_pgas *gas, size_t count, size_t bytes, int layout);

/**
 * Spreads an array as ::clump_spread_alloc does, in blocks of `block` elements, around all ranks.
 * Collective: all ranks give the same.
 *
 * Returns null on failure: as that; ::CLUMP_ERR_ARGUMENT (blocks of no elements).
 */
struct clump_spread *clump_spread_alloc_block_cyclic(struct clump_pgas *gas,
                                                     size_t count,
                                                     size_t bytes,
                                                     size_t block);

/**
 * Frees this rank's part of an array: operations of other ranks on it are refused from then on.
 * Null does nothing.
 */
int clump_spread_free(struct clump_spread *spread);

/**
 * Returns the pointer to an element; one that points nowhere on failure, and beyond the end.
 */
struct clump_gptr clump_spread_at(const struct clump_spread *spread, size_t index);

/**
 * Returns the pointer to the first element at a rank; one that points nowhere on failure.
 */
struct clump_gptr clump_spread_on(const struct clump_spread *spread, int rank);

/**
 * Returns the rank of an element, or a status below 0.
 */
int clump_spread_owner(const struct clump_spread *spread, size_t index);

/**
 * Returns the number of elements at this rank; 0 on failure.
 */
size_t clump_spread_count(const struct clump_spread *spread);

/**
 * Returns the address of this rank's elements, for plain loads and stores; null on failure. Other
 * ranks may write there at any time: words that they access meanwhile are read by atomics.
 */
void *clump_spread_local(const struct clump_spread *spread);

/**
 * Waits until the puts, stores, gets and atomics that this thread began have happened.
 *
 * Errors: of the first that was refused, as ::clump_rma_quiet; ::CLUMP_ERR_NODE_LOST,
 * ::CLUMP_ERR_RANK_DIED. After an error, what was being read may hold anything.
 */
int clump_pgas_sync(struct clump_pgas *gas);

/**
 * Waits as ::clump_pgas_sync does, and for what handlers of this thread began meanwhile.
 *
 * Errors: as ::clump_pgas_sync.
 */
int clump_pgas_quiet(struct clump_pgas *gas);

/**
 * Waits until `bytes` bytes more have been stored at this rank (::clump_pgas_store), by any rank.
 * Where two ranks store here in rounds, one that is a round ahead makes up for the other, and
 * overwrites what this rank still reads: let all ranks meet between rounds
 * (::clump_pgas_all_store_sync).
 *
 * Errors: ::CLUMP_ERR_RANK_DIED.
 */
int clump_pgas_store_sync(struct clump_pgas *gas, size_t bytes);

/**
 * Returns when everything that any rank began before has landed, everywhere. Collective. Bytes
 * that were not waited for by ::clump_pgas_store_sync are forgotten.
 *
 * Errors: as ::clump_pgas_sync, when all ranks have come and this one, too; as ::clump_barrier.
 */
int clump_pgas_all_store_sync(struct clump_pgas *gas);

/**
 * Returns once all ranks have called it. Sends what was collected, and does not wait for it.
 *
 * Errors: as ::clump_barrier.
 */
int clump_pgas_barrier(struct clump_pgas *gas);

/**
 * Sends what was collected, and handles messages that have arrived, without waiting. Programs that
 * compute for long between operations call it.
 *
 * Errors: ::CLUMP_ERR_NODE_LOST.
 */
int clump_pgas_flush(struct clump_pgas *gas);

/**
 * Writes counters of aggregation to `to`.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT.
 *
 * # Safety
 * `to` is null, or a place to write to.
 */
int clump_pgas_aggregation(const struct clump_pgas *gas, struct clump_aggregation *to);

/**
 * Begins to write `bytes` bytes; `from` may be reused when this returns. Aligned words of 8 and 4
 * bytes for other nodes are collected, and sent many at a time. ::clump_pgas_sync waits for it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory), ::CLUMP_ERR_NODE_LOST; on this
 * node ::CLUMP_ERR_SEGMENT; on another, ::clump_pgas_sync reports that.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_pgas_put(struct clump_pgas *gas, struct clump_gptr to, const void *from, size_t bytes);

/**
 * Begins to write as ::clump_pgas_put does, and sends it at once.
 *
 * Errors: as ::clump_pgas_put.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_pgas_put_now(struct clump_pgas *gas, struct clump_gptr to, const void *from, size_t bytes);

/**
 * Begins to write as ::clump_pgas_put does, and counts the bytes at the rank that they go to
 * (::clump_pgas_store_sync).
 *
 * Errors: as ::clump_pgas_put.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_pgas_store(struct clump_pgas *gas, struct clump_gptr to, const void *from, size_t bytes);

/**
 * Writes `bytes` bytes, and waits until they are there.
 *
 * Errors: as ::clump_pgas_put and ::clump_pgas_sync.
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_pgas_write(struct clump_pgas *gas, struct clump_gptr to, const void *from, size_t bytes);

/**
 * Reads `bytes` bytes; they are there when this returns.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory), ::CLUMP_ERR_SEGMENT,
 * ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED. Then `to` may hold anything.
 *
 * # Safety
 * `to` has space for `bytes` bytes.
 */
int clump_pgas_read(struct clump_pgas *gas, void *to, struct clump_gptr from, size_t bytes);

/**
 * Begins to read `bytes` bytes to `to`, which must not be used or freed until ::clump_pgas_sync,
 * ::clump_pgas_quiet or ::clump_pgas_all_store_sync has returned, or ::clump_pgas_close. Two gets
 * in flight must not overlap. Words of 8 bytes of other nodes are requested many at a time.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory, null); others are reported by
 * ::clump_pgas_sync.
 *
 * # Safety
 * `to` has space for `bytes` bytes, for so long.
 */
int clump_pgas_get(struct clump_pgas *gas, void *to, struct clump_gptr from, size_t bytes);

/**
 * Begins to write whole blocks of `block` bytes, one behind the other in `from`, to blocks that
 * are `stride` bytes apart. ::clump_pgas_sync waits for it.
 *
 * Errors: as ::clump_pgas_put; ::CLUMP_ERR_ARGUMENT (no whole number of blocks).
 *
 * # Safety
 * `from` has `bytes` bytes.
 */
int clump_pgas_put_strided(struct clump_pgas *gas,
                           struct clump_gptr to,
                           size_t block,
                           size_t stride,
                           const void *from,
                           size_t bytes);

/**
 * Reads whole blocks of `block` bytes that are `stride` bytes apart, to `to`, one behind the
 * other.
 *
 * Errors: as ::clump_pgas_read; ::CLUMP_ERR_ARGUMENT (no whole number of blocks).
 *
 * # Safety
 * `to` has space for `bytes` bytes.
 */
int clump_pgas_get_strided(struct clump_pgas *gas,
                           void *to,
                           struct clump_gptr from,
                           size_t block,
                           size_t stride,
                           size_t bytes);

/**
 * Begins to write elements of an array: element `indexes[i]` becomes value `i` of `values`. Writes
 * to other nodes are collected as by ::clump_pgas_put. ::clump_pgas_sync waits for it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, null): then some have been begun; others
 * as ::clump_pgas_put.
 *
 * # Safety
 * `indexes` has `count` numbers, and `values` has `count` elements.
 */
int clump_spread_scatter(struct clump_spread *spread,
                         const size_t *indexes,
                         size_t count,
                         const void *values);

/**
 * Reads elements of an array: place `i` of `to` gets element `indexes[i]`. They are there when
 * this returns. Elements of 1, 2, 4 and 8 bytes on other nodes are requested many at a time.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, null), and as ::clump_pgas_read. Then
 * `to` may hold anything.
 *
 * # Safety
 * `indexes` has `count` numbers, and `to` has room for `count` elements.
 */
int clump_spread_gather(struct clump_spread *spread, const size_t *indexes, size_t count, void *to);

/**
 * Begins to add the number at `operand`, of `type` (::clump_type), to elements of an array, as
 * often as each is named. ::clump_pgas_sync waits for it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, a type of another size than elements,
 * null): then some have been begun; others as ::clump_pgas_atomic.
 *
 * # Safety
 * `indexes` has `count` numbers; `operand` is a number of that type.
 */
int clump_spread_scatter_add(struct clump_spread *spread,
                             clump_type type,
                             const size_t *indexes,
                             size_t count,
                             const void *operand);

/**
 * Does `op` (a ::clump_atomic: not load or store) to the number of `type` (::clump_type) at `at`,
 * with `operand`. The previous number is written to `old`; if that is null, the operation is only
 * begun, collected with others for the same node where it is of 8 or 4 bytes, and
 * ::clump_pgas_sync waits for it (a swap and ::CLUMP_COMPARE_SWAP are waited for). `other` is what
 * ::CLUMP_COMPARE_SWAP compares with, else null. Typed forms: ::clump_pgas_add_u64 and its like.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory; no multiple of the size; no such
 * operation or type; bits of floating-point numbers; null), and as ::clump_pgas_read.
 *
 * # Safety
 * `operand` is a number of that type; `other` and `old` are null, or places for one.
 */
int clump_pgas_atomic(struct clump_pgas *gas,
                      struct clump_gptr at,
                      clump_type type,
                      int op,
                      const void *operand,
                      const void *other,
                      void *old);

/**
 * Prepares an exchange of boundaries with `count` neighbours, of elements of `bytes` bytes.
 * Collective; ranks have as many neighbours as they like, none too. If rank a has rank b at
 * position i, with entry j, then b has a at position j, with entry i and the same count.
 *
 * Returns null on failure: ::CLUMP_ERR_ARGUMENT (null; neighbours do not agree: at all ranks),
 * ::CLUMP_ERR_SYSTEM (a rank has no memory for it), and as ::clump_barrier. Closed by
 * ::clump_halo_free, at the end of the thread, or by ::clump_finalize: meet in a barrier before.
 *
 * # Safety
 * `neighbours` has `count` neighbours.
 */
struct clump_halo *clump_halo_alloc(struct clump_pgas *gas,
                                    const struct clump_halo_neighbour *neighbours,
                                    int count,
                                    size_t bytes);

/**
 * Gives each neighbour its boundary, and writes what each gave in this round into the halo cells;
 * both by position. Returns when all neighbours' are there: ranks that are no neighbours are not
 * waited for.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null: nothing is sent), ::CLUMP_ERR_NODE_LOST,
 * ::CLUMP_ERR_RANK_DIED, and as ::clump_rma_quiet where a store is refused; a refusal on another
 * node is reported by ::clump_pgas_sync.
 *
 * # Safety
 * `boundaries` and `cells` have a pointer for each neighbour, to as many elements as were agreed;
 * cells overlap neither each other nor boundaries.
 */
int clump_halo_exchange(struct clump_halo *halo, const void *const *boundaries, void *const *cells);

/**
 * Returns the number of neighbours of this rank. Negative on failure.
 */
int clump_halo_neighbours(const struct clump_halo *halo);

/**
 * Frees this rank's part of an exchange: meet in a barrier before. Null does nothing.
 */
int clump_halo_free(struct clump_halo *halo);

/**
 * Creates a lock with the word that it protects, whose value is that of rank 0. Collective.
 *
 * Returns null on failure: as ::clump_spread_alloc. Closed by ::clump_mutex_free, at the end of
 * the thread, or by ::clump_finalize: meet in a barrier before.
 */
struct clump_mutex *clump_mutex_alloc(struct clump_pgas *gas, uint64_t word);

/**
 * Frees a lock, and gives it back if it is held. Null does nothing.
 */
int clump_mutex_free(struct clump_mutex *mutex);

/**
 * Waits for the lock, and writes its word to `word`, if that is not null. Operations that its last
 * holder began before the release have been executed.
 *
 * Errors: ::CLUMP_ERR_BUSY (this object holds it), ::CLUMP_ERR_HOLDER_DIED, ::CLUMP_ERR_NODE_LOST,
 * ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * `word` is null or a place to write to.
 */
int clump_mutex_lock(struct clump_mutex *mutex, uint64_t *word);

/**
 * Takes the lock if it is free, as ::clump_mutex_lock does: returns 1 if so, 0 if not.
 *
 * Errors: as ::clump_mutex_lock.
 *
 * # Safety
 * `word` is null or a place to write to.
 */
int clump_mutex_try_lock(struct clump_mutex *mutex, uint64_t *word);

/**
 * Gives the lock back with its word, once everything that this thread began has happened.
 *
 * Errors: ::CLUMP_ERR_NOT_HELD, and as ::clump_pgas_sync.
 */
int clump_mutex_unlock(struct clump_mutex *mutex, uint64_t word);

/**
 * Opens remote calls for the calling thread. Collective. Takes one of the rank's endpoints.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open), and as ::clump_barrier.
 * Closed by ::clump_calls_close, at the end of the thread, or by ::clump_finalize: meet in
 * ::clump_calls_end before.
 */
struct clump_calls *clump_calls_open(struct clump_pgas *gas);

/**
 * Closes remote calls. Null does nothing.
 */
int clump_calls_close(struct clump_calls *calls);

/**
 * Registers a function under a name that describes its arguments and result. Collective: all ranks
 * register the same functions in the same order; a rank of another build fails here. Returns the
 * function's number. `data` is handed to it; it must live as long as `calls`.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (ranks register different names; null), and as ::clump_barrier.
 *
 * # Safety
 * `name` is a text; `function` may be called with `data` whenever this thread polls or waits.
 */
int clump_calls_register(struct clump_calls *calls, const char *name, clump_remote function, void *data);

/**
 * Begins to call a function at a rank. Its result is had by ::clump_future_wait.
 *
 * Calls to ranks of other nodes are collected: what waits sends them, and ::clump_pgas_flush.
 *
 * Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such function or rank; arguments longer than
 * ::clump_max_medium less 16 bytes), and as ::clump_request.
 *
 * # Safety
 * `arguments` has `bytes` bytes.
 */
struct clump_future *clump_call_begin(struct clump_calls *calls,
                                      int rank,
                                      int function,
                                      const void *arguments,
                                      size_t bytes);

/**
 * Calls a function at a rank, and does not wait for it: ::clump_calls_end does.
 *
 * Errors: as ::clump_call_begin.
 *
 * # Safety
 * `arguments` has `bytes` bytes.
 */
int clump_call_send(struct clump_calls *calls, int rank, int function, const void *arguments, size_t bytes);

/**
 * Returns 1 if the result of a call is there, else 0. Sends what was collected, and polls.
 *
 * Errors: as ::clump_calls_poll.
 */
int clump_future_ready(struct clump_future *future);

/**
 * Waits for the result of a call, writes it to `to`, and frees the future, whatever happens.
 * Returns the bytes of the result.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (the function failed: its rank and number are in the text; the
 * result is longer than `room`), ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * `to` has room for `room` bytes.
 */
int clump_future_wait(struct clump_future *future, void *to, size_t room);

/**
 * Frees a future; its call is executed all the same. Null does nothing.
 */
int clump_future_free(struct clump_future *future);

/**
 * Runs functions that others have called here, without waiting.
 *
 * Errors: ::CLUMP_ERR_HANDLER_FAILED (a one-way call has failed here), ::CLUMP_ERR_RANK_DIED.
 */
int clump_calls_poll(struct clump_calls *calls);

/**
 * Returns once no call is under way anywhere, what functions called included, and no rank has work
 * of its own. Collective. `work`, which may be null, does some of this rank's; it is called again
 * whenever functions may have left some.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (`work` failed), and as ::clump_calls_poll and ::clump_barrier.
 *
 * # Safety
 * `work` may be called with `data`.
 */
int clump_calls_end(struct clump_calls *calls, clump_work work, void *data);

/**
 * Returns the rank that has called.
 *
 * # Safety
 * `call` is what a function that runs was given.
 */
int clump_call_from(struct clump_call *call);

/**
 * Sets the result of a call. Called again, it replaces the result.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null).
 *
 * # Safety
 * `call` is what a function that runs was given; `result` has `bytes` bytes.
 */
int clump_call_result(struct clump_call *call, const void *result, size_t bytes);

/**
 * Calls a function at a rank, one-way, once the one that runs has returned.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such function or rank; arguments longer than
 * ::clump_max_medium less 16 bytes), ::CLUMP_ERR_LIMIT (too many are queued).
 *
 * # Safety
 * `call` is what a function that runs was given; `arguments` has `bytes` bytes.
 */
int clump_call_forward(struct clump_call *call, int rank, int function, const void *arguments, size_t bytes);

/**
 * Makes this rank's object known to functions, under a number that all ranks get. Collective: all
 * ranks make objects of the same types in the same order; `type` names the type. Functions may use
 * the object before this returns, and until ::clump_calls_object_free.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (ranks name different types; null), and as ::clump_barrier.
 *
 * # Safety
 * `type` is a text.
 */
int clump_calls_object(struct clump_calls *calls, const char *type, void *object);

/**
 * Takes this rank's object away: functions do not find it any more. Not a collective: meet in
 * ::clump_calls_end before.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such object).
 */
int clump_calls_object_free(struct clump_calls *calls, int object);

/**
 * Returns this rank's object of a number, in a function that runs; the number may have come as an
 * argument. Null on failure: ::CLUMP_ERR_ARGUMENT (there is none).
 *
 * # Safety
 * `call` is what a function that runs was given.
 */
void *clump_call_object(struct clump_call *call, int object);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_PGAS_H */

#include "clump/pgas_inline.h"
