//! Fair locks of all ranks.

use crate::endpoint::write_to;
use crate::rma::{access, close, clump_rma, clump_segment, clump_segment_id, exported};
use clump::rma::{Guard, Lock, SegmentName};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::slot::{Object, Slot};
use clump_ffi::status::clump_status as S;
use std::cell::RefCell;
use std::ffi::c_int;
use std::time::Duration;

/// A fair lock of all ranks, with a word that travels with it. Belongs to the thread that opened
/// it.
#[derive(Debug)]
pub struct clump_lock(());

/// The object behind a ::clump_lock.
#[derive(Debug)]
pub(crate) struct LockHandle {
    /// Dropped before the lock that it borrows.
    guard: RefCell<Option<Guard<'static>>>,
    lock: Box<Lock>,
}

impl Object for LockHandle {
    const KIND: u32 = 8;
    const NAME: &'static str = "lock (clump_lock)";
}

impl LockHandle {
    /// Returns the lock with the lifetime that a guard needs; the guard is dropped first.
    fn lock(&self) -> &'static Lock {
        // SAFETY: boxed, so it stays where it is while this lives; guards are in `guard`, which is
        // dropped first, and never handed out.
        unsafe { &*std::ptr::from_ref::<Lock>(&self.lock) }
    }

    fn none_held(&self) -> Result<()> {
        if self.guard.borrow().is_none() {
            return Ok(());
        }
        let what = "this thread holds this lock already, and would wait for itself";
        Err(Fault::new(S::CLUMP_ERR_BUSY, what))
    }

    fn keep(&self, guard: Option<Guard<'static>>) -> c_int {
        let taken = guard.is_some();
        *self.guard.borrow_mut() = guard;
        c_int::from(taken)
    }
}

fn with<R>(lock: *const clump_lock, run: impl FnOnce(&LockHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<LockHandle, R>(lock.cast(), |held, _| run(held))
}

#[cold]
fn not_held() -> Fault {
    Fault::new(S::CLUMP_ERR_NOT_HELD, "this thread does not hold this lock")
}

/// Exports `count` locks, all free, their words 0. Their home is this rank's node.
///
/// Returns null on failure: as ::clump_segment_export.
#[unsafe(no_mangle)]
pub extern "C" fn clump_locks_export(rma: *mut clump_rma, count: u64) -> *mut clump_segment {
    guard_pointer(|| access(rma, |access| exported(access.rma.export_locks(count)?)))
}

/// Opens lock number `index`, from 0, of those exported under the name `locks`.
///
/// Returns null on failure: as ::clump_target_open.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_open(
    rma: *mut clump_rma,
    locks: clump_segment_id,
    index: u64,
) -> *mut clump_lock {
    guard_pointer(|| {
        access(rma, |access| {
            let lock = Box::new(access.rma.lock(SegmentName::from_bits(locks), index)?);
            Ok(Slot::fill(LockHandle { guard: RefCell::new(None), lock })?.pointer())
        })
    })
}

/// Closes a lock, and releases it if it is held. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_close(lock: *mut clump_lock) -> c_int {
    close::<LockHandle>(lock.cast_const().cast())
}

/// Waits for the lock. Claims are served in the order in which they reach its home.
///
/// Errors: ::CLUMP_ERR_HOLDER_DIED (the rank that held it died with it; for every rank from then
/// on), ::CLUMP_ERR_BUSY (this object holds it), ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED,
/// ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS (no lock of that number).
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_acquire(lock: *mut clump_lock) -> c_int {
    guard(|| {
        with(lock, |held| {
            held.none_held()?;
            held.keep(Some(held.lock().acquire()?));
            Ok(0)
        })
    })
}

/// Takes the lock if it is free: returns 1 if so, 0 if not. If the holder has died, it returns 0
/// until the home of the lock is notified of the death, and then always ::CLUMP_ERR_HOLDER_DIED.
///
/// Errors: as ::clump_lock_acquire.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_try(lock: *mut clump_lock) -> c_int {
    guard(|| {
        with(lock, |held| {
            held.none_held()?;
            Ok(held.keep(held.lock().try_acquire()?))
        })
    })
}

/// Waits for the lock for `limit_ns` nanoseconds at most: returns 1 if it was taken, 0 if not.
///
/// Errors: as ::clump_lock_acquire.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_acquire_within(lock: *mut clump_lock, limit_ns: u64) -> c_int {
    guard(|| {
        with(lock, |held| {
            held.none_held()?;
            Ok(held.keep(held.lock().acquire_within(Duration::from_nanos(limit_ns))?))
        })
    })
}

/// Writes the word that came with the lock to `word`.
///
/// Errors: ::CLUMP_ERR_NOT_HELD, ::CLUMP_ERR_ARGUMENT.
///
/// # Safety
/// `word` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_lock_word(lock: *const clump_lock, word: *mut u64) -> c_int {
    guard(|| {
        let found =
            with(lock, |held| held.guard.borrow().as_ref().map(Guard::word).ok_or_else(not_held))?;
        write_to(word, found, "the place for the lock's word")?;
        Ok(0)
    })
}

/// Sets the word that is passed on with the lock.
///
/// Errors: ::CLUMP_ERR_NOT_HELD.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_set_word(lock: *mut clump_lock, word: u64) -> c_int {
    guard(|| {
        with(lock, |held| {
            held.guard.borrow_mut().as_mut().ok_or_else(not_held)?.set_word(word);
            Ok(0)
        })
    })
}

/// Releases the lock. Data put to other nodes while it was held is visible to its next holder only
/// after ::clump_rma_quiet.
///
/// Errors: ::CLUMP_ERR_NOT_HELD, ::CLUMP_ERR_NODE_LOST.
#[unsafe(no_mangle)]
pub extern "C" fn clump_lock_release(lock: *mut clump_lock) -> c_int {
    guard(|| {
        with(lock, |held| {
            let guard = held.guard.borrow_mut().take();
            guard.ok_or_else(not_held)?.release()?;
            Ok(0)
        })
    })
}
