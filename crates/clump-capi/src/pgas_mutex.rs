//! Locks of all ranks, with the word that they protect.

use crate::pgas::{clump_pgas, space};
use crate::rma::{close, write_if};
use clump::pgas::{GlobalGuard, GlobalMutex};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::slot::{Object, Slot};
use clump_ffi::status::clump_status as S;
use std::cell::RefCell;
use std::ffi::c_int;

/// A lock of all ranks, with the word that it protects. Ranks that wait for it form a queue.
/// Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_mutex(());

/// The object behind a ::clump_mutex.
#[derive(Debug)]
pub(crate) struct MutexHandle {
    /// Dropped before the lock that it borrows.
    guard: RefCell<Option<GlobalGuard<'static, u64>>>,
    mutex: Box<GlobalMutex<u64>>,
}

impl Object for MutexHandle {
    const KIND: u32 = 12;
    const NAME: &'static str = "lock with a word (clump_mutex)";
}

impl MutexHandle {
    /// Returns the lock with the lifetime that a guard needs; the guard is dropped first.
    fn mutex(&self) -> &'static GlobalMutex<u64> {
        // SAFETY: boxed, so it stays where it is while this lives; guards are in `guard`, which is
        // dropped first, and never handed out.
        unsafe { &*std::ptr::from_ref::<GlobalMutex<u64>>(&self.mutex) }
    }

    fn none_held(&self) -> Result<()> {
        if self.guard.borrow().is_none() {
            return Ok(());
        }
        let what = "this thread holds this lock already, and would wait for itself";
        Err(Fault::new(S::CLUMP_ERR_BUSY, what))
    }
}

fn with<R>(mutex: *const clump_mutex, run: impl FnOnce(&MutexHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<MutexHandle, R>(mutex.cast(), |held, _| run(held))
}

#[cold]
fn not_held() -> Fault {
    Fault::new(S::CLUMP_ERR_NOT_HELD, "this thread does not hold this lock")
}

/// Creates a lock with the word that it protects, whose value is that of rank 0. Collective.
///
/// Returns null on failure: as ::clump_spread_alloc. Closed by ::clump_mutex_free, at the end of
/// the thread, or by ::clump_finalize: meet in a barrier before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_mutex_alloc(gas: *mut clump_pgas, word: u64) -> *mut clump_mutex {
    guard_pointer(|| {
        space(gas, |space| {
            let mutex = Box::new(space.pgas.mutex(word)?);
            Ok(Slot::fill(MutexHandle { guard: RefCell::new(None), mutex })?.pointer())
        })
    })
}

/// Frees a lock, and gives it back if it is held. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_mutex_free(mutex: *mut clump_mutex) -> c_int {
    close::<MutexHandle>(mutex.cast_const().cast())
}

/// Waits for the lock, and writes its word to `word`, if that is not null. Operations that its last
/// holder began before the release have been executed.
///
/// Errors: ::CLUMP_ERR_BUSY (this object holds it), ::CLUMP_ERR_HOLDER_DIED, ::CLUMP_ERR_NODE_LOST,
/// ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// `word` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_mutex_lock(mutex: *mut clump_mutex, word: *mut u64) -> c_int {
    guard(|| {
        with(mutex, |held| {
            held.none_held()?;
            let guard = held.mutex().lock()?;
            write_if(word, *guard);
            *held.guard.borrow_mut() = Some(guard);
            Ok(0)
        })
    })
}

/// Takes the lock if it is free, as ::clump_mutex_lock does: returns 1 if so, 0 if not.
///
/// Errors: as ::clump_mutex_lock.
///
/// # Safety
/// `word` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_mutex_try_lock(mutex: *mut clump_mutex, word: *mut u64) -> c_int {
    guard(|| {
        with(mutex, |held| {
            held.none_held()?;
            let Some(guard) = held.mutex().try_lock()? else { return Ok(0) };
            write_if(word, *guard);
            *held.guard.borrow_mut() = Some(guard);
            Ok(1)
        })
    })
}

/// Gives the lock back with its word, once everything that this thread began has happened.
///
/// Errors: ::CLUMP_ERR_NOT_HELD, and as ::clump_pgas_sync.
#[unsafe(no_mangle)]
pub extern "C" fn clump_mutex_unlock(mutex: *mut clump_mutex, word: u64) -> c_int {
    guard(|| {
        with(mutex, |held| {
            let guard = held.guard.borrow_mut().take();
            let mut guard = guard.ok_or_else(not_held)?;
            *guard = word;
            guard.release()?;
            Ok(0)
        })
    })
}
