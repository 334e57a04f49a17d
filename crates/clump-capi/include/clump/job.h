/* Starting and ending, who is who, errors, barrier and other collectives.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_JOB_H
#define CLUMP_JOB_H

#include <stddef.h>
#include <stdint.h>


/**
 * Version of the binary interface. It is in the name of the shared library (`libclump.so.1`), and
 * ::clump_init compares it with that of the headers that a program was compiled with. It changes
 * when a function, a type or the layout that inline functions rely on changes in a way that
 * programs notice.
 */
#define CLUMP_ABI 1

/**
 * Result of a function that returns `int`: 0 or a number of things on success, one of these on
 * failure. The values never change. Any error leaves a text (::clump_error_text) that names the
 * fault, rank and peer, and the remedy.
 */
typedef enum clump_status {
  /**
   * Success.
   */
  CLUMP_OK = 0,
  /**
   * A null pointer where none may be, or a number outside of its range. A program error here.
   */
  CLUMP_ERR_ARGUMENT = -1,
  /**
   * No such object: closed before, of another kind, or never made by this library. A program
   * error here.
   */
  CLUMP_ERR_HANDLE = -2,
  /**
   * The object belongs to another thread, the one that opened it. A program error here.
   */
  CLUMP_ERR_THREAD = -3,
  /**
   * ::clump_init was not called, or ::clump_finalize was. A program error here.
   */
  CLUMP_ERR_NOT_RUNNING = -4,
  /**
   * ::clump_init was called before in this process, or another process has joined as this rank.
   */
  CLUMP_ERR_ALREADY = -5,
  /**
   * This may not be done inside a handler (of this endpoint). A program error here.
   */
  CLUMP_ERR_IN_HANDLER = -6,
  /**
   * The token's handler has returned, or it has replied. A program error here.
   */
  CLUMP_ERR_TOKEN = -7,
  /**
   * The object is in use: by another thread, by a call that has not returned, or by what depends
   * on it.
   */
  CLUMP_ERR_BUSY = -8,
  /**
   * More than eight words, or a payload longer than ::clump_max_medium.
   */
  CLUMP_ERR_TOO_LONG = -9,
  /**
   * That number is not in the endpoint's translation table.
   */
  CLUMP_ERR_DESTINATION = -10,
  /**
   * A limit was reached: endpoints, segments, queued requests, objects. The text says which and
   * how many.
   */
  CLUMP_ERR_LIMIT = -11,
  /**
   * Memory or address space has run out, or the operating system refused something.
   */
  CLUMP_ERR_SYSTEM = -12,
  /**
   * A rank died, so what this waits for may never come.
   */
  CLUMP_ERR_RANK_DIED = -13,
  /**
   * A rank finalized, so what this waits for will never come.
   */
  CLUMP_ERR_RANK_LEFT = -14,
  /**
   * A message was returned to sender and the endpoint has no handler for that
   * (::clump_ep_on_returned).
   */
  CLUMP_ERR_RETURNED = -15,
  /**
   * A handler reported that it failed (::clump_token_fail).
   */
  CLUMP_ERR_HANDLER_FAILED = -16,
  /**
   * A peer wrote or sent what no clump of this version does.
   */
  CLUMP_ERR_DAMAGED = -17,
  /**
   * The network between nodes cannot be used.
   */
  CLUMP_ERR_NETWORK = -18,
  /**
   * A setting (`CLUMP_*`, or the configuration file) has no meaning. The user's fault.
   */
  CLUMP_ERR_SETTING = -19,
  /**
   * Header, library, launcher or job are of different versions.
   */
  CLUMP_ERR_VERSION = -20,
  /**
   * The segment is not exported (any more), or the name names none.
   */
  CLUMP_ERR_SEGMENT = -21,
  /**
   * An access outside of its segment.
   */
  CLUMP_ERR_BOUNDS = -22,
  /**
   * A word must lie at a multiple of its size.
   */
  CLUMP_ERR_ALIGNMENT = -23,
  /**
   * The rank that exported the segment has died.
   */
  CLUMP_ERR_OWNER_DIED = -24,
  /**
   * The node of the segment is lost.
   */
  CLUMP_ERR_NODE_LOST = -25,
  /**
   * The rank that held the lock died with it; no rank can acquire it any more.
   */
  CLUMP_ERR_HOLDER_DIED = -26,
  /**
   * It took longer than it was allowed to. No function returns this today: those with a limit
   * return 0.
   */
  CLUMP_ERR_TIMED_OUT = -27,
  /**
   * Another rank or thread has the lock. No function returns this today: ::clump_lock_try
   * returns 0.
   */
  CLUMP_ERR_LOCK_BUSY = -28,
  /**
   * The lock is not held.
   */
  CLUMP_ERR_NOT_HELD = -29,
  /**
   * The process is a child by `fork` of a rank: nothing of clump works in it. A program error
   * here.
   */
  CLUMP_ERR_FORKED = -30,
  /**
   * A fault of this library.
   */
  CLUMP_ERR_INTERNAL = -99
} clump_status;

/**
 * The job that this process is a rank of. One per process.
 */
typedef struct clump_t clump_t;

/**
 * The element type of a reduction: one of ::CLUMP_U8 to ::CLUMP_F64. A type of its own, so that
 * no compiler takes it for a ::clump_op.
 */
typedef struct clump_type {
  /**
   * Number of the type, which never changes.
   */
  int code;
} clump_type;

/**
 * The operation of a reduction on two elements: one of ::CLUMP_SUM to ::CLUMP_XOR.
 */
typedef struct clump_op {
  /**
   * Number of the operation, which never changes.
   */
  int code;
} clump_op;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Returns the version of the library as text, for people: `"0.1.0"`. Valid for ever. Any thread,
 * also before ::clump_init.
 */
const char *clump_version(void);

/**
 * Returns the binary interface of the library that runs, to compare with ::CLUMP_ABI of the
 * headers. Any thread, also before ::clump_init.
 */
int clump_abi(void);

/**
 * Returns the meaning of a status in one line, valid for ever; for the last failure,
 * ::clump_error_text has details. Any thread, also before ::clump_init.
 */
const char *clump_strerror(int status);

/**
 * Returns the status of the last function that failed in this thread; ::CLUMP_OK if none has.
 */
int clump_error(void);

/**
 * Returns the text of the last failure in this thread: whose fault it is, rank and peer, the
 * remedy, and the chain of causes behind it, each after `": "`. Empty if none has failed. Valid
 * until the next function fails in this thread.
 */
const char *clump_error_text(void);

/**
 * Returns one link of that chain: 0 is what happened, 1 its cause, and so on; null beyond the
 * last. Valid as long as ::clump_error_text.
 */
const char *clump_error_cause(int depth);

/**
 * Returns 1 if the last failure of this thread is one that a collective returned and in which this
 * rank took part: its next collective is the next one of all. So it is with an error of something
 * that was begun before, with wrong arguments of this rank (ranks that needed its contribution
 * fail, too), and where ranks do not agree. 0 if the collective was refused before it began (a
 * handler runs, a handle is none), a rank died or left, or the last failure is not a collective's.
 */
int clump_error_took_part(void);

/**
 * Forgets the last failure of this thread.
 */
void clump_error_clear(void);

/**
 * Returns the number of links of the chain of causes: 0 if nothing has failed in this thread.
 */
int clump_error_depth(void);

/**
 * Joins the job that this process was started in by `clump run`, and waits until all ranks have
 * joined. A program that is started alone is a job of one rank. `argc` and `argv` may be null;
 * they are not changed today.
 *
 * Returns null on failure: ::CLUMP_ERR_ALREADY (called before in this process, or by another
 * process of this rank), ::CLUMP_ERR_SETTING, ::CLUMP_ERR_VERSION (of headers, library, launcher),
 * ::CLUMP_ERR_SYSTEM, ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_FORKED. Any thread, once.
 *
 * Programs call it as `clump_init(&argc, &argv)`, a macro that passes on the version of their
 * headers.
 */
struct clump_t *clump_init_abi(int abi, int *argc, char ***argv);

/**
 * Ends this rank's part in the job; the process may go on with something else. Closes what this
 * thread has open, and all endpoints that threads share. It is no barrier: a rank that others
 * still need calls ::clump_barrier before. Only ::clump_version, ::clump_abi, ::clump_strerror,
 * ::clump_error_text and the like, and ::clump_wall_ns work afterwards; all other functions fail
 * with ::CLUMP_ERR_NOT_RUNNING.
 *
 * Errors: ::CLUMP_ERR_BUSY (another thread is inside a call, or has objects of its own open),
 * ::CLUMP_ERR_IN_HANDLER, ::CLUMP_ERR_NOT_RUNNING. After an error nothing has been closed, or only
 * what could be, and it may be called again. Any thread, outside of handlers. Any other error is
 * one of an endpoint that no poll of the program has reported: of a returned message that no
 * handler took, for example (::CLUMP_ERR_RETURNED). The rank has left then.
 *
 * A rank whose process ends without calling it counts as dead, whatever its exit code.
 */
int clump_finalize(struct clump_t *cl);

/**
 * Ends this process at once with `code` (1 if that is 0), and with it the job: the other ranks are
 * notified which rank aborted, and `clump run` exits with that code. Buffered output of the
 * process is lost, and functions registered by `atexit` do not run. `why` (or null) is printed on
 * the error stream. Any thread, also inside handlers; does not return.
 *
 * # Safety
 * `why` is null or a string.
 */
void clump_abort(struct clump_t *cl, int code, const char *why);

/**
 * Returns the number of this rank, from 0. Any thread. Negative on failure.
 */
int clump_rank(const struct clump_t *cl);

/**
 * Returns the number of ranks of the job. Any thread. Negative on failure.
 */
int clump_nranks(const struct clump_t *cl);

/**
 * Returns the number of this rank's node, from 0. Any thread. Negative on failure.
 */
int clump_node(const struct clump_t *cl);

/**
 * Returns the number of nodes of the job. Any thread. Negative on failure.
 */
int clump_nnodes(const struct clump_t *cl);

/**
 * Returns the node of `rank`. Any thread. Errors: ::CLUMP_ERR_ARGUMENT if the job has no such
 * rank.
 */
int clump_node_of(const struct clump_t *cl, int rank);

/**
 * Returns the wall clock: nanoseconds since some moment in the past, equal for all processes of a
 * machine. It is monotonic and cannot be set. Any thread, at any time.
 */
uint64_t clump_wall_ns(void);

/**
 * Returns once all ranks have called it; polls meanwhile. All ranks make the same collective calls
 * in the same order.
 *
 * Errors: ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_RANK_LEFT, ::CLUMP_ERR_IN_HANDLER; errors of handlers
 * that run meanwhile. Any thread, one collective at a time; endpoints of the calling thread are
 * polled.
 */
int clump_barrier(struct clump_t *cl);

/**
 * Lets the network seem slower than it is from now on, as the variable CLUMP_EMU does from the
 * start: "o=+5us,g=10us,L=+20us,G=+1ns/B,scope=net"; an empty text ends that. A collective: all
 * ranks give the same text. Messages on their way keep what they were sent with.
 *
 * Errors: ::CLUMP_ERR_SETTING (the text names no knobs), ::CLUMP_ERR_ARGUMENT (null), and as
 * ::clump_barrier.
 *
 * # Safety
 * `knobs` is null or a string.
 */
int clump_emulate(struct clump_t *cl, const char *knobs);

/**
 * Gathers one word of each rank as ::clump_all_gather does, names of endpoints and segments for
 * example.
 *
 * # Safety
 * `all` has space for a word of each rank.
 */
int clump_all_gather_u64(struct clump_t *cl, uint64_t mine, uint64_t *all);

/**
 * Returns the time of this rank: nanoseconds since its program began where time is virtual
 * (`clump run --virtual`), else those of ::clump_wall_ns. 0 on failure. Any thread.
 */
uint64_t clump_now_ns(const struct clump_t *cl);

/**
 * Gives the cost of the computation between the call of clump before this and the next, in
 * nanoseconds, where time is virtual: it counts instead of what is measured. Costs that are given
 * before the same call add up. Any thread.
 */
int clump_cost(struct clump_t *cl, uint64_t ns);

/**
 * Begins to execute a region of the program that it executes often, `name` for each, and at about
 * equal cost. Returns 1 if it is to be executed; ::clump_sample_end follows then. Where time is
 * virtual, `times` executions are measured, and 0 is returned for those that follow: they are not
 * to be executed, and have cost the mean. Elsewhere every one is executed. The region calls
 * nothing of clump. Any thread, one region of a name at a time.
 *
 * ```c
 * if (clump_sample_begin(cl, "multiply", 5) == 1) {
 *     multiply();
 *     clump_sample_end(cl, "multiply");
 * }
 * ```
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null, or `times` is not positive), ::CLUMP_ERR_BUSY (the region
 * has not ended).
 *
 * # Safety
 * `name` is null or a string.
 */
int clump_sample_begin(struct clump_t *cl, const char *name, int times);

/**
 * Ends the execution of a region that ::clump_sample_begin has begun.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null, or no region of that name has begun).
 *
 * # Safety
 * `name` is null or a string.
 */
int clump_sample_end(struct clump_t *cl, const char *name);

/**
 * Copies the `values_bytes` bytes of `root` to all ranks, which give equally many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank).
 *
 * # Safety
 * `values` has `values_bytes` bytes.
 */
int clump_broadcast(struct clump_t *cl, int root, void *values, size_t values_bytes);

/**
 * Gathers `mine_bytes` bytes of every rank in `all` on `root`, in rank order: there `all` has
 * space for as many as there are ranks; elsewhere it is not used. All ranks contribute equally
 * many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank; on the root also: a rank
 * gave another number of bytes).
 *
 * # Safety
 * `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank.
 */
int clump_gather(struct clump_t *cl, int root, const void *mine, size_t mine_bytes, void *all);

/**
 * Gathers `mine_bytes` bytes of every rank in `all` on every rank, in rank order: `all` has space
 * for as many as there are ranks; `mine` may be this rank's place there. All ranks contribute
 * equally many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
 *
 * # Safety
 * `mine` has `mine_bytes` bytes, `all` space for as many of each rank.
 */
int clump_all_gather(struct clump_t *cl, const void *mine, size_t mine_bytes, void *all);

/**
 * Hands out what `root` gives: `mine_bytes` bytes for each rank, in rank order in `all`, which is
 * not used elsewhere. This rank's go to `mine`. All ranks expect equally many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank, the root gives another
 * number of bytes).
 *
 * # Safety
 * On the root `all` has `mine_bytes` bytes for each rank; `mine` has space for as many.
 */
int clump_scatter(struct clump_t *cl, int root, const void *all, void *mine, size_t mine_bytes);

/**
 * Gives `each_bytes` bytes of `from` to each rank, in rank order, and puts those that each rank
 * gives to this one in `to`, in rank order. All ranks give equally many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
 *
 * # Safety
 * `from` has `each_bytes` bytes for each rank; `to` has space for as many.
 */
int clump_all_to_all(struct clump_t *cl, const void *from, void *to, size_t each_bytes);

/**
 * Gives `from_bytes[i]` bytes of `from` to rank i, in rank order, and puts those that each rank
 * gives to this one in `to`, in rank order, and their numbers in `to_bytes`. Ranks give any
 * numbers of bytes. `to` has space for `room` bytes.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null); ::CLUMP_ERR_TOO_LONG (`to` has too
 * little space: it is not written, `to_bytes` is; other ranks do not notice).
 *
 * # Safety
 * `from_bytes` has, and `to_bytes` has space for, a number for each rank; `from` has the bytes of
 * `from_bytes`, `to` has space for `room` bytes.
 */
int clump_all_to_all_v(struct clump_t *cl,
                       const void *from,
                       const size_t *from_bytes,
                       void *to,
                       size_t room,
                       size_t *to_bytes);

/**
 * Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
 * in rank order; all ranks get the same bits. `from` and `to` may be the same. All ranks give
 * equally many.
 *
 * Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such type or operation, bits of
 * floating-point numbers).
 *
 * # Safety
 * `from` has, and `to` has space for, `count` elements.
 */
int clump_all_reduce(struct clump_t *cl,
                     const void *from,
                     void *to,
                     size_t count,
                     struct clump_type type,
                     struct clump_op op);

/**
 * Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
 * in rank order, in `to` of `root`: the bits that ::clump_all_reduce gives. `to` of other ranks is
 * not used. `from` and `to` may be the same. All ranks give equally many.
 *
 * Errors: as ::clump_all_reduce; ::CLUMP_ERR_ARGUMENT (no such rank).
 *
 * # Safety
 * `from` has, and `to` of the root has space for, `count` elements.
 */
int clump_reduce(struct clump_t *cl,
                 int root,
                 const void *from,
                 void *to,
                 size_t count,
                 struct clump_type type,
                 struct clump_op op);

/**
 * Combines the `count` elements of all ranks up to this one, this one's included, in rank order.
 * `from` and `to` may be the same. All ranks give equally many.
 *
 * Errors: as ::clump_all_reduce.
 *
 * # Safety
 * `from` has, and `to` has space for, `count` elements.
 */
int clump_scan(struct clump_t *cl,
               const void *from,
               void *to,
               size_t count,
               struct clump_type type,
               struct clump_op op);

/**
 * Combines the `count` elements of all ranks before this one, in rank order; `to` of rank 0 is not
 * written. `from` and `to` may be the same. All ranks give equally many.
 *
 * Errors: as ::clump_all_reduce.
 *
 * # Safety
 * `from` has, and `to` has space for, `count` elements.
 */
int clump_exclusive_scan(struct clump_t *cl,
                         const void *from,
                         void *to,
                         size_t count,
                         struct clump_type type,
                         struct clump_op op);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_JOB_H */

#include "clump/job_inline.h"
