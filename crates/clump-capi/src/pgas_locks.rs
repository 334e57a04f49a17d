//! Arrays of locks, dealt out over all ranks.

use crate::pgas::{clump_pgas, space};
use crate::pgas_calls::clump_work;
use crate::rma::{close, write_if};
use crate::team_bytes::prepared;
use clump::pgas::{LockArray, LockKind};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::{Result, null, range};
use clump_ffi::slot::{Object, Slot};
use std::ffi::{c_int, c_void};

/// An array of locks of all ranks, a block of them at each. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_locks(());

/// Manner in which ranks wait for the locks of an array.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_lock_kind {
    /// In a queue at the lock's home, without messages.
    CLUMP_LOCK_QUEUE = 0,
    /// By test-and-set, again and again.
    CLUMP_LOCK_SPIN = 1,
}

/// The object behind a ::clump_locks.
#[derive(Debug)]
pub(crate) struct LocksHandle {
    locks: LockArray,
}

impl Object for LocksHandle {
    const KIND: u32 = 19;
    const NAME: &'static str = "array of locks (clump_locks)";
}

fn with<R>(locks: *const clump_locks, run: impl FnOnce(&LocksHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<LocksHandle, R>(locks.cast(), |held, _| run(held))
}

/// Creates `count` locks of a ::clump_lock_kind, all free. Collective: all ranks give the same.
///
/// Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such kind, more than memory holds), and as
/// ::clump_spread_alloc. Closed by ::clump_locks_free, at the end of the thread, or by
/// ::clump_finalize: meet in a barrier before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_locks_alloc(
    gas: *mut clump_pgas,
    count: usize,
    kind: c_int,
) -> *mut clump_locks {
    guard_pointer(|| {
        space(gas, |space| {
            let kind = match kind {
                0 => Ok(LockKind::Queue),
                1 => Ok(LockKind::Spin),
                other => Err(range("a kind of lock", other, "one of clump_lock_kind")),
            };
            let kind = prepared(space.pgas.team(), kind)?;
            let locks = LockArray::create(&space.pgas, count, kind)?;
            Ok(Slot::fill(LocksHandle { locks })?.pointer())
        })
    })
}

/// Frees locks. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_locks_free(locks: *mut clump_locks) -> c_int {
    close::<LocksHandle>(locks.cast_const().cast())
}

/// Waits for a lock, runs `work` under it, and gives it back when everything that this thread began
/// has happened. Returns what `work` has.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such lock; null), ::CLUMP_ERR_HOLDER_DIED,
/// ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// `work` can be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_locks_with(
    locks: *mut clump_locks,
    index: usize,
    work: clump_work,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(locks, |held| {
            let Some(work) = work else { return Err(null("a function to run")) };
            // SAFETY: the caller's.
            held.locks.with(index, || Ok(unsafe { work(data) }))
        })
    })
}

/// Writes attempts of this rank: those that acquired a lock, and those that found it held, of which
/// queues have none.
///
/// # Safety
/// `acquired` and `failed` are null or places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_locks_attempts(
    locks: *mut clump_locks,
    acquired: *mut u64,
    failed: *mut u64,
) -> c_int {
    guard(|| {
        with(locks, |held| {
            let attempts = held.locks.attempts();
            write_if(acquired, attempts.acquired);
            write_if(failed, attempts.failed);
            Ok(0)
        })
    })
}
