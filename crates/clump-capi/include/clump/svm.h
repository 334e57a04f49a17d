/* Shared virtual memory: one heap at the same address in all ranks.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_SVM_H
#define CLUMP_SVM_H

#include "clump/job.h"


/**
 * Homes of an allocation's pages: these, or `SVM_HOME_NODE(n)`.
 */
typedef enum svm_home {
  /**
   * Consecutive pages share a home, as many for each node.
   */
  SVM_HOME_BLOCK = 0,
  /**
   * Page by page, each node in turn.
   */
  SVM_HOME_CYCLIC = 1,
  /**
   * The node that first writes a page.
   */
  SVM_HOME_FIRST_WRITE = 2
} svm_home;

/**
 * Options of a heap.
 */
typedef struct svm_options {
  /**
   * Bytes of address space; 0: 128 GiB.
   */
  uint64_t bytes;
  /**
   * Bytes of it for ::svm_alloc, that is for allocation by single ranks; 0: three quarters.
   */
  uint64_t dynamic_bytes;
  /**
   * Periods between barriers after which a page moves to the node that was its only writer; 0:
   * pages stay.
   */
  uint8_t move_after;
} svm_options;

/**
 * Time of this rank since it opened the heap, in ns, by what it waited for.
 */
typedef struct svm_breakdown {
  /**
   * All time, of all threads that use the heap.
   */
  uint64_t elapsed_ns;
  /**
   * The rank's own computation.
   */
  uint64_t compute_ns;
  /**
   * Page faults.
   */
  uint64_t data_ns;
  /**
   * Acquires of locks, and waits for flags.
   */
  uint64_t lock_ns;
  /**
   * Releases, and flags that were set.
   */
  uint64_t release_ns;
  /**
   * Barriers.
   */
  uint64_t barrier_ns;
  /**
   * Changes of rights by the kernel; within the times above.
   */
  uint64_t protection_ns;
  /**
   * Number of page faults.
   */
  uint64_t faults;
} svm_breakdown;

/**
 * A lock. Lies in shared memory; one rank initialises it by ::svm_lock_init before others use it.
 */
typedef struct svm_lock {
  /**
   * Number of the lock.
   */
  uint64_t id;
} svm_lock;

/**
 * A flag: a number that only grows, and that ranks wait for. As ::svm_lock.
 */
typedef struct svm_flag {
  /**
   * Number of the flag.
   */
  uint64_t id;
} svm_flag;

/**
 * A condition variable. As ::svm_lock.
 */
typedef struct svm_cond {
  /**
   * Words of the condition variable.
   */
  uint64_t words[3];
} svm_cond;

/**
 * A function that a worker runs.
 */
typedef void (*svm_worker)(void);

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Joins the job as ::clump_init_abi does, and opens a shared heap of 128 GiB of address space, at
 * the same address in all ranks. So many `threads` of a rank use it, at least 1; each may call
 * what is no collective. `argc` and `argv` may be null.
 *
 * Returns null on failure: as ::clump_init_abi and ::svm_open; ::CLUMP_ERR_ARGUMENT (`threads`).
 * Programs call it as `svm_init(&argc, &argv, 1)`, and ::clump_finalize at the end.
 */
clump_t *svm_init_abi(int abi, int *argc, char ***argv, int threads);

/**
 * Opens the shared heap of a job that was joined by ::clump_init_abi: so many bytes of address
 * space, or 128 GiB if that is 0. Collective: all ranks pass the same.
 *
 * Errors: ::CLUMP_ERR_ALREADY, ::CLUMP_ERR_LIMIT (no address space), ::CLUMP_ERR_SYSTEM,
 * ::CLUMP_ERR_RANK_DIED.
 */
int svm_open(clump_t *cl, uint64_t bytes);

/**
 * Opens the shared heap as ::svm_open does, with options. Collective: all ranks pass the same.
 *
 * Errors: as ::svm_open; ::CLUMP_ERR_ARGUMENT (null, a part larger than the heap).
 *
 * # Safety
 * `options` is null or points to options.
 */
int svm_open_with(clump_t *cl, const struct svm_options *options);

/**
 * Returns the job of this process; null before it has joined one, and after it has left.
 */
clump_t *svm_current(void);

/**
 * Returns the number of this process among those that share the heap, from 0: its rank. Negative
 * on failure.
 */
int svm_proc_id(const clump_t *cl);

/**
 * Returns the number of processes that share the heap. Negative on failure.
 */
int svm_nprocs(const clump_t *cl);

/**
 * Allocates zeroed memory in whole pages, with homes by ::svm_home. Collective: all ranks pass the
 * same, and get the same address. It is never given back.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT (the heap is full), ::CLUMP_ERR_ARGUMENT (no such
 * home or node, different arguments), ::CLUMP_ERR_RANK_DIED.
 */
void *svm_alloc_all(clump_t *cl, size_t bytes, int home);

/**
 * Allocates zeroed memory on node 0, as ::svm_alloc_all does: for the structure that all ranks
 * find everything else by.
 */
void *svm_alloc_once(clump_t *cl, size_t bytes);

/**
 * Allocates zeroed memory for this rank alone, which hands its address to others through memory.
 * More than 1 KiB take whole pages, with homes by ::svm_home; less is homed on this node.
 *
 * Returns null on failure: as ::svm_alloc_all.
 */
void *svm_alloc(clump_t *cl, size_t bytes, int home);

/**
 * Gives memory back that ::svm_alloc returned in any rank. Null does nothing.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (it is no such memory), ::CLUMP_ERR_RANK_DIED.
 */
int svm_free(clump_t *cl, void *memory);

/**
 * Returns once all ranks have called it; each then sees what the others had written.
 *
 * Errors: ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_SYSTEM (no memory for a page).
 */
int svm_barrier(clump_t *cl);

/**
 * Publishes what this rank has written, for ranks that learn of it by messages.
 *
 * Errors: as ::svm_barrier.
 */
int svm_fence(clump_t *cl);

/**
 * Makes memory of the heap ready for a system call that reads it, or, if `stores` is not 0, writes
 * it: such a call fails with EFAULT on pages that are not here. It stays ready until the next call
 * of this interface. Other memory is left alone.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (null; memory of the heap that was not allocated: nothing is
 * fetched).
 *
 * # Safety
 * The caller may read the memory, and write it if `stores` is not 0.
 */
int svm_touch(const void *memory, size_t bytes, int stores);

/**
 * Writes to `out` where this rank's time went.
 *
 * # Safety
 * `out` is null or a place to write to.
 */
int svm_times(const clump_t *cl, struct svm_breakdown *out);

/**
 * Initialises a lock, which is free.
 *
 * Errors: ::CLUMP_ERR_LIMIT (too many on one node).
 *
 * # Safety
 * `lock` is null or a place to write to.
 */
int svm_lock_init(struct svm_lock *lock);

/**
 * Waits for a lock, and takes it. Earlier writes under it are visible.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (not initialised, or this rank has it), ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * `lock` is null or a lock.
 */
int svm_lock_acquire(const struct svm_lock *lock);

/**
 * Gives a lock back.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (not initialised, or this rank does not have it),
 * ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_SYSTEM (no memory for a page).
 *
 * # Safety
 * `lock` is null or a lock.
 */
int svm_lock_release(const struct svm_lock *lock);

/**
 * Initialises a flag, which is 0.
 *
 * Errors: as ::svm_lock_init.
 *
 * # Safety
 * `flag` is null or a place to write to.
 */
int svm_flag_init(struct svm_flag *flag);

/**
 * Makes a flag at least `value`.
 *
 * Errors: as ::svm_lock_release.
 *
 * # Safety
 * `flag` is null or a flag.
 */
int svm_flag_set(const struct svm_flag *flag, uint64_t value);

/**
 * Waits until a flag is at least `value`. Writes of the ranks that set it are visible.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (not initialised), ::CLUMP_ERR_RANK_DIED.
 *
 * # Safety
 * `flag` is null or a flag.
 */
int svm_flag_wait(const struct svm_flag *flag, uint64_t value);

/**
 * Initialises a condition variable, without waiting threads.
 *
 * Errors: as ::svm_lock_init and ::svm_alloc.
 *
 * # Safety
 * `cond` is null or a place to write to.
 */
int svm_cond_init(struct svm_cond *cond);

/**
 * Gives `lock` back, waits to be woken, and takes it again. Ranks are woken in the order in which
 * they came.
 *
 * Errors: as ::svm_lock_acquire and ::svm_lock_release.
 *
 * # Safety
 * `cond` is null or a condition variable, `lock` null or a lock.
 */
int svm_cond_wait(const struct svm_cond *cond, const struct svm_lock *lock);

/**
 * Wakes the rank that has waited longest, if any waits.
 *
 * Errors: as ::svm_flag_set.
 *
 * # Safety
 * `cond` is null or a condition variable.
 */
int svm_cond_signal(const struct svm_cond *cond);

/**
 * Wakes all ranks that wait.
 *
 * Errors: as ::svm_flag_set.
 *
 * # Safety
 * `cond` is null or a condition variable.
 */
int svm_cond_broadcast(const struct svm_cond *cond);

/**
 * Reads as `read` does, into memory of the heap or other memory. The call alone fails with EFAULT
 * on pages that are not here; this makes them ready before, and again when other threads have
 * taken some away. Memory of the heap that was not allocated is an error (EFAULT), whatever the
 * call would have moved.
 *
 * Returns the bytes moved, which may be fewer, or -1: `errno` is that of `read`, and
 * ::clump_error_text has the reason.
 *
 * # Safety
 * The caller may write the memory.
 */
int64_t svm_read(int fd, void *memory, size_t bytes);

/**
 * Writes as `write` does, from memory of the heap or other memory: as ::svm_read.
 *
 * # Safety
 * The caller may read the memory.
 */
int64_t svm_write(int fd, const void *memory, size_t bytes);

/**
 * Reads as `pread` does, from byte `offset` of the file on: as ::svm_read.
 *
 * # Safety
 * The caller may write the memory.
 */
int64_t svm_pread(int fd, void *memory, size_t bytes, uint64_t offset);

/**
 * Writes as `pwrite` does, from byte `offset` of the file on: as ::svm_read.
 *
 * # Safety
 * The caller may read the memory.
 */
int64_t svm_pwrite(int fd, const void *memory, size_t bytes, uint64_t offset);

/**
 * Receives as `recv` does: as ::svm_read.
 *
 * # Safety
 * The caller may write the memory.
 */
int64_t svm_recv(int fd, void *memory, size_t bytes, int flags);

/**
 * Sends as `send` does: as ::svm_read. A closed peer is an error, never a signal.
 *
 * # Safety
 * The caller may read the memory.
 */
int64_t svm_send(int fd, const void *memory, size_t bytes, int flags);

/**
 * Begins a program whose `main` creates workers: joins the job and opens the heap, as
 * ::svm_init_abi does. Returns at rank 0. The other ranks carry out what it creates, and end with
 * the program: there it does not return. Once it has returned, other calls of it do nothing.
 *
 * The program's globals are from `first` to `last`; `libc_object` is the address of an object of
 * the C library, which must not be among them. The program is compiled with `-fPIC`, linked with
 * `-no-pie` and with libclump.so. If it ends with code 0 when no worker runs, ::svm_workers_end is
 * called.
 *
 * Errors: as ::svm_init_abi; ::CLUMP_ERR_ARGUMENT (how the program was compiled or linked).
 *
 * # Safety
 * The globals may be overwritten at ranks other than 0.
 */
int svm_workers_begin(int abi, void *first, void *last, const void *libc_object);

/**
 * Declares that the program means each rank to have globals of its own: stores in them are not
 * reported.
 */
void svm_workers_own_globals(void);

/**
 * Has another rank run `function`, with a copy of the globals as they are now. Rank 0 calls it.
 *
 * Errors: ::CLUMP_ERR_LIMIT (all ranks have work: start the program with more), as ::svm_alloc.
 */
int svm_worker_create(svm_worker function);

/**
 * Waits until all functions that ::svm_worker_create has handed on have returned. Rank 0 calls it.
 * Variables of the program that a rank has stored in meanwhile are named in one line of the error
 * stream, since no other rank sees that, unless ::svm_workers_own_globals was called.
 *
 * Errors: ::CLUMP_ERR_RANK_DIED.
 */
int svm_workers_wait(void);

/**
 * Names in a line of the error stream, if the last failure of this thread was the death of a rank,
 * what a worker may have died of: variables that point to memory of rank 0 alone. Rank 0 calls it.
 */
void svm_workers_explain(void);

/**
 * Ends the other ranks, and this rank's part in the job. Rank 0 calls it, when no worker runs.
 *
 * Errors: as ::clump_finalize.
 */
int svm_workers_end(void);

/**
 * Allocates memory as ::svm_alloc does, for programs that do not carry the job around.
 *
 * Returns null on failure.
 */
void *svm_workers_alloc(size_t bytes, int home);

/**
 * Gives memory of ::svm_workers_alloc back. Null does nothing.
 */
int svm_workers_free(void *memory);

/**
 * Returns once `count` ranks have called it, each with the same lock, condition and words: a
 * barrier of some ranks. `words` are two zeroes at first, in shared memory.
 *
 * Errors: as ::svm_cond_wait.
 *
 * # Safety
 * `lock` and `cond` are such objects, `words` two words of shared memory without other users.
 */
int svm_barrier_some(const struct svm_lock *lock, const struct svm_cond *cond, uint64_t *words, int count);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_SVM_H */

#include "clump/svm_inline.h"
