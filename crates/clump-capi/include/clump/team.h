/* Teams: ranks that execute collectives together, at once or in two phases.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_TEAM_H
#define CLUMP_TEAM_H

#include "clump/pending.h"


/**
 * Ranks of the job that execute collectives together: all of them (::clump_team_world), or those
 * of one color (::clump_team_split). They are numbered from 0 in the team. Any thread may use it.
 */
typedef struct clump_team clump_team;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Opens the team of all ranks. Not a collective. It executes the collectives of the job:
 * ::clump_barrier and ::clump_team_barrier of it are the same.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT. Any thread.
 */
struct clump_team *clump_team_world(clump_t *cl);

/**
 * Divides a team: ranks that give the same `color` form a team, in the order of their `key`s, and
 * of their ranks in `team` where keys are equal. It is written to `part`. If `color` is negative,
 * this rank is in none, and null is written. A collective: all ranks of `team` call it.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null); ::CLUMP_ERR_LIMIT.
 *
 * # Safety
 * `part` is null or a place to write to.
 */
int clump_team_split(struct clump_team *team, int64_t color, int64_t key, struct clump_team **part);

/**
 * Closes a team at this rank. Not a collective. A collective that was begun on it may be waited
 * for afterwards. One that this rank has dropped is given up: ranks that wait for it have done so
 * before. Null does nothing.
 *
 * Errors: ::CLUMP_ERR_BUSY (a call on it has not returned).
 */
int clump_team_free(struct clump_team *team);

/**
 * Returns the number of this rank in a team, from 0. Negative on failure.
 */
int clump_team_rank(const struct clump_team *team);

/**
 * Returns the number of ranks of a team. Negative on failure.
 */
int clump_team_nranks(const struct clump_team *team);

/**
 * Returns the job's number of rank `rank` of a team. Errors: ::CLUMP_ERR_ARGUMENT if the team has
 * no such rank.
 */
int clump_team_member(const struct clump_team *team, int rank);

/**
 * Returns once all ranks of a team have called it; polls meanwhile. All ranks of a team make the
 * same collective calls on it in the same order; calls on different teams have no order.
 *
 * Errors: as ::clump_barrier, with the death of a rank of the team. Any thread; different threads
 * may execute collectives of different teams at one time.
 */
int clump_team_barrier(struct clump_team *team);

/**
 * Begins a barrier of a team: when ::clump_pending_wait returns, all ranks of the team have begun
 * it.
 *
 * This and the other calls that begin a collective return null on failure: as
 * ::clump_team_barrier. Several may be under way at one time, of one team or of several, and be
 * waited for in any order, between other calls. They progress whenever this rank polls or waits.
 * Each counts as a call of its team: all ranks of the team begin the same ones in the same order.
 * One that is dropped (::clump_pending_drop) progresses as long as the team is open.
 */
clump_pending *clump_team_barrier_start(struct clump_team *team);

/**
 * Executes ::clump_broadcast among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_broadcast.
 */
int clump_team_broadcast(struct clump_team *team, int root, void *values, size_t values_bytes);

/**
 * Begins ::clump_team_broadcast. On the root `values` may be reused when this returns;
 * ::clump_pending_wait writes them on all ranks: they must live until then.
 *
 * # Safety
 * `values` has `values_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
 * returned.
 */
clump_pending *clump_team_broadcast_start(struct clump_team *team,
                                          int root,
                                          void *values,
                                          size_t values_bytes);

/**
 * Executes ::clump_gather among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_gather.
 */
int clump_team_gather(struct clump_team *team, int root, const void *mine, size_t mine_bytes, void *all);

/**
 * Begins ::clump_team_gather. `mine` may be reused when this returns; on the root
 * ::clump_pending_wait writes `all`, which must live until then.
 *
 * # Safety
 * `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank until
 * ::clump_pending_wait or ::clump_pending_drop has returned.
 */
clump_pending *clump_team_gather_start(struct clump_team *team,
                                       int root,
                                       const void *mine,
                                       size_t mine_bytes,
                                       void *all);

/**
 * Executes ::clump_all_gather among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_all_gather.
 */
int clump_team_all_gather(struct clump_team *team, const void *mine, size_t mine_bytes, void *all);

/**
 * Begins ::clump_team_all_gather. `mine` may be reused when this returns; ::clump_pending_wait
 * writes `all`, which must live until then.
 *
 * # Safety
 * `mine` has `mine_bytes` bytes; `all` has space for as many of each rank until
 * ::clump_pending_wait or ::clump_pending_drop has returned.
 */
clump_pending *clump_team_all_gather_start(struct clump_team *team,
                                           const void *mine,
                                           size_t mine_bytes,
                                           void *all);

/**
 * Executes ::clump_scatter among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_scatter.
 */
int clump_team_scatter(struct clump_team *team, int root, const void *all, void *mine, size_t mine_bytes);

/**
 * Begins ::clump_team_scatter. `all` may be reused when this returns; ::clump_pending_wait writes
 * `mine`, which must live until then.
 *
 * # Safety
 * `mine` has space for `mine_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
 * returned; on the root `all` has as many bytes for each rank.
 */
clump_pending *clump_team_scatter_start(struct clump_team *team,
                                        int root,
                                        const void *all,
                                        void *mine,
                                        size_t mine_bytes);

/**
 * Executes ::clump_all_to_all among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_all_to_all.
 */
int clump_team_all_to_all(struct clump_team *team, const void *from, void *to, size_t each_bytes);

/**
 * Begins ::clump_team_all_to_all. `from` may be reused when this returns; ::clump_pending_wait
 * writes `to`, which must live until then.
 *
 * # Safety
 * `from` has `each_bytes` bytes for each rank of the team; `to` has space for as many until
 * ::clump_pending_wait or ::clump_pending_drop has returned.
 */
clump_pending *clump_team_all_to_all_start(struct clump_team *team,
                                           const void *from,
                                           void *to,
                                           size_t each_bytes);

/**
 * Executes ::clump_all_to_all_v among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_all_to_all_v.
 */
int clump_team_all_to_all_v(struct clump_team *team,
                            const void *from,
                            const size_t *from_bytes,
                            void *to,
                            size_t room,
                            size_t *to_bytes);

/**
 * Begins ::clump_team_all_to_all_v. `from` and `from_bytes` may be reused when this returns;
 * ::clump_pending_wait writes `to` and `to_bytes`, which must live until then, and returns
 * ::CLUMP_ERR_TOO_LONG if `to` has too little space.
 *
 * # Safety
 * `from_bytes` has a number for each rank, and `from` as many bytes as those say; until
 * ::clump_pending_wait or ::clump_pending_drop has returned, `to_bytes` has space for a number for
 * each rank, and `to` for `room` bytes.
 */
clump_pending *clump_team_all_to_all_v_start(struct clump_team *team,
                                             const void *from,
                                             const size_t *from_bytes,
                                             void *to,
                                             size_t room,
                                             size_t *to_bytes);

/**
 * Executes ::clump_all_reduce among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_all_reduce.
 */
int clump_team_all_reduce(struct clump_team *team,
                          const void *from,
                          void *to,
                          size_t count,
                          clump_type type,
                          clump_op op);

/**
 * Begins ::clump_team_all_reduce. `from` may be reused when this returns; ::clump_pending_wait
 * writes `to`, which must live until then.
 *
 * # Safety
 * `from` has `count` elements; `to` has space for them until ::clump_pending_wait or
 * ::clump_pending_drop has returned.
 */
clump_pending *clump_team_all_reduce_start(struct clump_team *team,
                                           const void *from,
                                           void *to,
                                           size_t count,
                                           clump_type type,
                                           clump_op op);

/**
 * Executes ::clump_reduce among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_reduce.
 */
int clump_team_reduce(struct clump_team *team,
                      int root,
                      const void *from,
                      void *to,
                      size_t count,
                      clump_type type,
                      clump_op op);

/**
 * Begins ::clump_team_reduce. `from` may be reused when this returns; on the root
 * ::clump_pending_wait writes `to`, which must live until then.
 *
 * # Safety
 * `from` has `count` elements; on the root `to` has space for them until ::clump_pending_wait or
 * ::clump_pending_drop has returned.
 */
clump_pending *clump_team_reduce_start(struct clump_team *team,
                                       int root,
                                       const void *from,
                                       void *to,
                                       size_t count,
                                       clump_type type,
                                       clump_op op);

/**
 * Executes ::clump_scan among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_scan.
 */
int clump_team_scan(struct clump_team *team,
                    const void *from,
                    void *to,
                    size_t count,
                    clump_type type,
                    clump_op op);

/**
 * Begins ::clump_team_scan. `from` may be reused when this returns; ::clump_pending_wait writes
 * `to`, which must live until then.
 *
 * # Safety
 * As for ::clump_team_all_reduce_start.
 */
clump_pending *clump_team_scan_start(struct clump_team *team,
                                     const void *from,
                                     void *to,
                                     size_t count,
                                     clump_type type,
                                     clump_op op);

/**
 * Executes ::clump_exclusive_scan among the ranks of a team, by their numbers in it.
 *
 * # Safety
 * As for ::clump_exclusive_scan.
 */
int clump_team_exclusive_scan(struct clump_team *team,
                              const void *from,
                              void *to,
                              size_t count,
                              clump_type type,
                              clump_op op);

/**
 * Begins ::clump_team_exclusive_scan. `from` may be reused when this returns; on ranks other than
 * the first ::clump_pending_wait writes `to`, which must live until then.
 *
 * # Safety
 * As for ::clump_team_all_reduce_start.
 */
clump_pending *clump_team_exclusive_scan_start(struct clump_team *team,
                                               const void *from,
                                               void *to,
                                               size_t count,
                                               clump_type type,
                                               clump_op op);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_TEAM_H */


