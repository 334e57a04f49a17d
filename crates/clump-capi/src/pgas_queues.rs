//! Queues of tasks, one at each rank, from which idle ranks steal; and equal shares of work.

use crate::pgas::{clump_pgas, space};
use crate::pgas_calls::failed;
use crate::rma::{close, write_if};
use clump::pgas::{CostZones, WorkCounts, WorkQueues};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::slot::{Object, Slot};
use clump_ffi::status::clump_status as S;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Queues of tasks of all ranks; a task is a word. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_queues(());

/// Tasks of a rank, since its queue was made.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_queue_counts {
    /// Tasks done.
    pub done: u64,
    /// Tasks stolen from others.
    pub stolen: u64,
    /// Steals that brought tasks.
    pub steals: u64,
    /// Steals of which the victim had no task any more.
    pub failed: u64,
}

/// Does a task, and may push others: returns 0, or a failure below 0.
pub type clump_task =
    Option<unsafe extern "C" fn(queues: *mut clump_queues, task: u64, data: *mut c_void) -> c_int>;

/// The object behind a ::clump_queues.
#[derive(Debug)]
pub(crate) struct QueuesHandle {
    queues: WorkQueues<u64>,
    /// True while ::clump_queues_run runs.
    runs: Cell<bool>,
}

impl Object for QueuesHandle {
    const KIND: u32 = 18;
    const NAME: &'static str = "queues of tasks (clump_queues)";
}

fn with<R>(queues: *const clump_queues, run: impl FnOnce(&QueuesHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<QueuesHandle, R>(queues.cast(), |held, _| run(held))
}

/// Creates queues of which others may steal up to `capacity` tasks at a time. Collective.
///
/// Returns null on failure: as ::clump_spread_alloc. Closed by ::clump_queues_free, at the end of
/// the thread, or by ::clump_finalize: meet in a barrier before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_queues_alloc(gas: *mut clump_pgas, capacity: usize) -> *mut clump_queues {
    guard_pointer(|| {
        space(gas, |space| {
            let queues = WorkQueues::create(&space.pgas, capacity)?;
            Ok(Slot::fill(QueuesHandle { queues, runs: Cell::new(false) })?.pointer())
        })
    })
}

/// Frees queues. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_queues_free(queues: *mut clump_queues) -> c_int {
    close::<QueuesHandle>(queues.cast_const().cast())
}

/// Adds `count` tasks to this rank's queue. Those that others have no room to steal stay with it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null), ::CLUMP_ERR_HOLDER_DIED, ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// There are so many `tasks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_queues_push(
    queues: *mut clump_queues,
    tasks: *const u64,
    count: usize,
) -> c_int {
    guard(|| {
        with(queues, |held| {
            if count == 0 {
                return Ok(0);
            }
            if tasks.is_null() {
                return Err(null("tasks"));
            }
            // SAFETY: the caller's; not null.
            held.queues.push_all(unsafe { std::slice::from_raw_parts(tasks, count) })?;
            Ok(0)
        })
    })
}

/// Does tasks until no rank has any: those of this rank, then those of its node's ranks, then those
/// of others. Collective. A rank whose `task` has failed does no more; the others do what is left.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null; a task failed, with what it returned in the text),
/// ::CLUMP_ERR_BUSY (a task calls it), and as ::clump_barrier.
///
/// # Safety
/// `task` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_queues_run(
    queues: *mut clump_queues,
    task: clump_task,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(queues, |held| {
            let Some(task) = task else { return Err(null("a function for tasks")) };
            if held.runs.replace(true) {
                return Err(Fault::new(S::CLUMP_ERR_BUSY, "these queues run already"));
            }
            // SAFETY: the caller's.
            let result = held.queues.run(|_, word| match unsafe { task(queues, word, data) } {
                status if status < 0 => Err(failed(status)),
                _ => Ok(()),
            });
            held.runs.set(false);
            result?;
            Ok(0)
        })
    })
}

/// Writes the counts of this rank to `counts`.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null).
///
/// # Safety
/// `counts` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_queues_count(
    queues: *mut clump_queues,
    counts: *mut clump_queue_counts,
) -> c_int {
    guard(|| {
        with(queues, |held| {
            if counts.is_null() {
                return Err(null("a place for counts"));
            }
            let WorkCounts { done, stolen, steals, failed } = held.queues.counts();
            // SAFETY: the caller's; not null.
            unsafe { counts.write(clump_queue_counts { done, stolen, steals, failed }) };
            Ok(0)
        })
    })
}

/// Writes the costs at which the objects of a rank begin and end, all objects before them summed
/// up: zones of equal cost, one for each of `ranks` ranks. Not a collective.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such rank).
///
/// # Safety
/// `first` and `end` are null or places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_cost_zone(
    all: u64,
    ranks: c_int,
    rank: c_int,
    first: *mut u64,
    end: *mut u64,
) -> c_int {
    guard(|| {
        let zones = zones(all, ranks)?;
        let known = usize::try_from(rank).ok().filter(|_| rank < ranks);
        let zone = zones.zone(known.ok_or_else(|| range("a rank", rank, "one of the ranks"))?);
        write_if(first, zone.start);
        write_if(end, zone.end);
        Ok(0)
    })
}

/// Returns the rank whose zone an object is in, given the costs of all objects before it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no rank).
#[unsafe(no_mangle)]
pub extern "C" fn clump_cost_owner(all: u64, ranks: c_int, before: u64) -> c_int {
    guard(|| Ok(to_int(zones(all, ranks)?.owner(before))))
}

fn zones(all: u64, ranks: c_int) -> Result<CostZones> {
    let count = usize::try_from(ranks).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| range("a number of ranks", ranks, "1 or more"))?;
    Ok(CostZones::new(all, count))
}
