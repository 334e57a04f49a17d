/* Irregular programs: copies of objects, queues of tasks, locks, channels, cost zones.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_WORK_H
#define CLUMP_WORK_H

#include "clump/pgas.h"


/**
 * Manner in which ranks wait for the locks of an array.
 */
typedef enum clump_lock_kind {
  /**
   * In a queue at the lock's home, without messages.
   */
  CLUMP_LOCK_QUEUE = 0,
  /**
   * By test-and-set, again and again.
   */
  CLUMP_LOCK_SPIN = 1
} clump_lock_kind;

/**
 * Copies of objects of other nodes that do not change for a while. Belongs to the thread that made
 * it.
 */
typedef struct clump_cache clump_cache;

/**
 * Channels from each rank to each. Belongs to the thread that made it.
 */
typedef struct clump_channel clump_channel;

/**
 * An array of locks of all ranks, a block of them at each. Belongs to the thread that made it.
 */
typedef struct clump_locks clump_locks;

/**
 * Queues of tasks of all ranks; a task is a word. Belongs to the thread that made it.
 */
typedef struct clump_queues clump_queues;

/**
 * Lookups of the objects of a class.
 */
typedef struct clump_cache_counts {
  /**
   * Lookups of objects in memory of this node, of which there are no copies.
   */
  uint64_t near;
  /**
   * Lookups that found a copy.
   */
  uint64_t hits;
  /**
   * Lookups for which an object was fetched.
   */
  uint64_t misses;
  /**
   * Copies that gave way to others.
   */
  uint64_t evicted;
} clump_cache_counts;

/**
 * Does a task, and may push others: returns 0, or a failure below 0.
 */
typedef int (*clump_task)(struct clump_queues *queues, uint64_t task, void *data);

/**
 * Tasks of a rank, since its queue was made.
 */
typedef struct clump_queue_counts {
  /**
   * Tasks done.
   */
  uint64_t done;
  /**
   * Tasks stolen from others.
   */
  uint64_t stolen;
  /**
   * Steals that brought tasks.
   */
  uint64_t steals;
  /**
   * Steals of which the victim had no task any more.
   */
  uint64_t failed;
} clump_queue_counts;

/**
 * Takes `count` items of a sender: returns 0, or a failure below 0. They are there until it
 * returns.
 */
typedef int (*clump_receive)(void *data, int from, const void *items, size_t count);

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Creates a cache of up to `capacity` bytes of objects, or of one, if that is larger. Not a
 * collective.
 *
 * Returns null on failure. Closed by ::clump_cache_free, at the end of the thread, or by
 * ::clump_finalize.
 */
struct clump_cache *clump_cache_alloc(clump_pgas *gas, size_t capacity);

/**
 * Frees a cache. Null does nothing.
 */
int clump_cache_free(struct clump_cache *cache);

/**
 * Adds a class of objects of `bytes` bytes each, and returns its number: lookups are counted by
 * class.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (objects without bytes).
 */
int clump_cache_class(struct clump_cache *cache, size_t bytes);

/**
 * Copies an object to `to`, if it is in memory of this node or there is a copy, and returns 1.
 * Else returns 0: it is missing, and the next ::clump_cache_fetch requests it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such class, outside of the pointer's memory),
 * ::CLUMP_ERR_SEGMENT.
 *
 * # Safety
 * `to` has space for an object of the class.
 */
int clump_cache_find(struct clump_cache *cache, int class_, clump_gptr from, void *to);

/**
 * Copies an object to `to`, and waits for it if it is missing.
 *
 * Errors: as ::clump_cache_find and ::clump_cache_fetch.
 *
 * # Safety
 * `to` has space for an object of the class.
 */
int clump_cache_get(struct clump_cache *cache, int class_, clump_gptr from, void *to);

/**
 * Fetches all missing objects, those of one rank's memory in one request. At least the last that
 * was missed is found afterwards, and all where the cache has room for them.
 *
 * Errors: ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED.
 */
int clump_cache_fetch(struct clump_cache *cache);

/**
 * Forgets all copies: objects may have changed.
 */
int clump_cache_invalidate(struct clump_cache *cache);

/**
 * Writes the counts of a class to `counts`.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such class; null).
 *
 * # Safety
 * `counts` is null or a place to write to.
 */
int clump_cache_count(struct clump_cache *cache, int class_, struct clump_cache_counts *counts);

/**
 * Creates queues of which others may steal up to `capacity` tasks at a time. Collective.
 *
 * Returns null on failure: as ::clump_spread_alloc. Closed by ::clump_queues_free, at the end of
 * the thread, or by ::clump_finalize: meet in a barrier before.
 */
struct clump_queues *clump_queues_alloc(clump_pgas *gas, size_t capacity);

/**
 * Frees queues. Null does nothing.
 */
int clump_queues_free(struct clump_queues *queues);

/**
 * Adds `count` tasks to this rank's queue. Those that others have no room to steal stay with it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null), ::CLUMP_ERR_HOLDER_DIED, ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * There are so many `tasks`.
 */
int clump_queues_push(struct clump_queues *queues, const uint64_t *tasks, size_t count);

/**
 * Does tasks until no rank has any: those of this rank, then those of its node's ranks, then those
 * of others. Collective. A rank whose `task` has failed does no more; the others do what is left.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null; a task failed, with what it returned in the text),
 * ::CLUMP_ERR_BUSY (a task calls it), and as ::clump_barrier.
 *
 * # Safety
 * `task` can be called with `data`.
 */
int clump_queues_run(struct clump_queues *queues, clump_task task, void *data);

/**
 * Writes the counts of this rank to `counts`.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null).
 *
 * # Safety
 * `counts` is null or a place to write to.
 */
int clump_queues_count(struct clump_queues *queues, struct clump_queue_counts *counts);

/**
 * Writes the costs at which the objects of a rank begin and end, all objects before them summed
 * up: zones of equal cost, one for each of `ranks` ranks. Not a collective.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such rank).
 *
 * # Safety
 * `first` and `end` are null or places to write to.
 */
int clump_cost_zone(uint64_t all, int ranks, int rank, uint64_t *first, uint64_t *end);

/**
 * Returns the rank whose zone an object is in, given the costs of all objects before it.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no rank).
 */
int clump_cost_owner(uint64_t all, int ranks, uint64_t before);

/**
 * Creates `count` locks of a ::clump_lock_kind, all free. Collective: all ranks give the same.
 *
 * Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such kind, more than memory holds), and as
 * ::clump_spread_alloc. Closed by ::clump_locks_free, at the end of the thread, or by
 * ::clump_finalize: meet in a barrier before.
 */
struct clump_locks *clump_locks_alloc(clump_pgas *gas, size_t count, int kind);

/**
 * Frees locks. Null does nothing.
 */
int clump_locks_free(struct clump_locks *locks);

/**
 * Waits for a lock, runs `work` under it, and gives it back when everything that this thread began
 * has happened. Returns what `work` has.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such lock; null), ::CLUMP_ERR_HOLDER_DIED,
 * ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * `work` can be called with `data`.
 */
int clump_locks_with(struct clump_locks *locks, size_t index, clump_work work, void *data);

/**
 * Writes attempts of this rank: those that acquired a lock, and those that found it held, of which
 * queues have none.
 *
 * # Safety
 * `acquired` and `failed` are null or places to write to.
 */
int clump_locks_attempts(struct clump_locks *locks, uint64_t *acquired, uint64_t *failed);

/**
 * Opens channels for items of `bytes` bytes, with room for `capacity` items of each sender at each
 * receiver. Collective: all ranks give the same.
 *
 * Returns null on failure: ::CLUMP_ERR_ARGUMENT (items without bytes, more than memory holds), and
 * as ::clump_spread_alloc. Closed by ::clump_channel_close, at the end of the thread, or by
 * ::clump_finalize: call ::clump_channel_finish before.
 */
struct clump_channel *clump_channel_open(clump_pgas *gas, size_t bytes, size_t capacity);

/**
 * Closes channels. Null does nothing.
 */
int clump_channel_close(struct clump_channel *channel);

/**
 * Sends items to a rank. While that has no room, runs `receive` on what has arrived here, so that
 * ranks which send to each other never wait for each other.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such rank; null; `receive` failed), ::CLUMP_ERR_NODE_LOST,
 * ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * There are so many `items`; `receive` can be called with `data`.
 */
int clump_channel_send(struct clump_channel *channel,
                       int to,
                       const void *items,
                       size_t count,
                       clump_receive receive,
                       void *data);

/**
 * Runs `receive` on the items that have arrived, sender by sender, and returns their number.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null; `receive` failed, whose items are received then).
 *
 * # Safety
 * `receive` can be called with `data`.
 */
int clump_channel_receive(struct clump_channel *channel, clump_receive receive, void *data);

/**
 * Sends no more, and runs `receive` on all that is still to come, from all ranks. The channels can
 * be used again afterwards. Collective.
 *
 * Errors: as ::clump_channel_receive, when everything has been received, and as ::clump_barrier.
 *
 * # Safety
 * `receive` can be called with `data`.
 */
int clump_channel_finish(struct clump_channel *channel, clump_receive receive, void *data);

/**
 * Runs `work`, which may send, and `receive` on what arrives, until `work` has returned 0 at all
 * ranks and nothing is under way. `work` is called again while it returns more than 0, and after
 * each receive. Collective.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null; `work` or `receive` failed, which is said when all is over),
 * and as ::clump_barrier.
 *
 * # Safety
 * `work` and `receive` can be called with `data`.
 */
int clump_channel_run(struct clump_channel *channel, clump_work work, clump_receive receive, void *data);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_WORK_H */


