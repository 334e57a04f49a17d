//! Locks, flags and condition variables in shared structures.

use crate::svm::heap;
use clump::svm::{SharedMemoryError, Svm, SyncObject};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null};
use std::ffi::c_int;

/// A lock. Lies in shared memory; one rank initialises it by ::svm_lock_init before others use it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct svm_lock {
    /// Number of the lock.
    pub id: u64,
}

/// A flag: a number that only grows, and that ranks wait for. As ::svm_lock.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct svm_flag {
    /// Number of the flag.
    pub id: u64,
}

/// A condition variable. As ::svm_lock.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct svm_cond {
    /// Words of the condition variable.
    pub words: [u64; 3],
}

pub(crate) fn fault(error: SharedMemoryError) -> Fault {
    clump::Error::from(error).into()
}

/// Makes an object, and writes it to `at`.
fn make<T>(what: &str, at: *mut T, object: impl FnOnce(&Svm) -> Result<T>) -> c_int {
    guard(|| {
        if at.is_null() {
            return Err(null(what));
        }
        heap(what, |svm| {
            // SAFETY: the caller gave a place to write to.
            unsafe { at.write(object(svm)?) };
            Ok(0)
        })
    })
}

/// Runs `run` with the object at `at`.
fn with<T: Copy>(what: &str, at: *const T, run: impl FnOnce(&Svm, T) -> Result<()>) -> c_int {
    guard(|| {
        if at.is_null() {
            return Err(null(what));
        }
        // SAFETY: the caller gave an object, which is plain data.
        let object = unsafe { at.read() };
        heap(what, |svm| run(svm, object).map(|()| 0))
    })
}

fn numbered(id: u64) -> Result<SyncObject> {
    SyncObject::from_number(id).map_err(fault)
}

/// Initialises a lock, which is free.
///
/// Errors: ::CLUMP_ERR_LIMIT (too many on one node).
///
/// # Safety
/// `lock` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_lock_init(lock: *mut svm_lock) -> c_int {
    make("svm_lock_init", lock, |svm| {
        Ok(svm_lock { id: svm.sync_object().map_err(fault)?.number() })
    })
}

/// Waits for a lock, and takes it. Earlier writes under it are visible.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (not initialised, or this rank has it), ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// `lock` is null or a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_lock_acquire(lock: *const svm_lock) -> c_int {
    with("svm_lock_acquire", lock, |svm, lock| svm.enter(numbered(lock.id)?).map_err(fault))
}

/// Gives a lock back.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (not initialised, or this rank does not have it),
/// ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_SYSTEM (no memory for a page).
///
/// # Safety
/// `lock` is null or a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_lock_release(lock: *const svm_lock) -> c_int {
    with("svm_lock_release", lock, |svm, lock| svm.leave(numbered(lock.id)?).map_err(fault))
}

/// Initialises a flag, which is 0.
///
/// Errors: as ::svm_lock_init.
///
/// # Safety
/// `flag` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_flag_init(flag: *mut svm_flag) -> c_int {
    make("svm_flag_init", flag, |svm| {
        Ok(svm_flag { id: svm.sync_object().map_err(fault)?.number() })
    })
}

/// Makes a flag at least `value`.
///
/// Errors: as ::svm_lock_release.
///
/// # Safety
/// `flag` is null or a flag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_flag_set(flag: *const svm_flag, value: u64) -> c_int {
    with("svm_flag_set", flag, |svm, flag| svm.raise(numbered(flag.id)?, value).map_err(fault))
}

/// Waits until a flag is at least `value`. Writes of the ranks that set it are visible.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (not initialised), ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// `flag` is null or a flag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_flag_wait(flag: *const svm_flag, value: u64) -> c_int {
    with("svm_flag_wait", flag, |svm, flag| {
        svm.await_raised(numbered(flag.id)?, value).map_err(fault)
    })
}

/// Initialises a condition variable, without waiting threads.
///
/// Errors: as ::svm_lock_init and ::svm_alloc.
///
/// # Safety
/// `cond` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_cond_init(cond: *mut svm_cond) -> c_int {
    make("svm_cond_init", cond, |svm| Ok(svm_cond { words: svm.condvar_alone().map_err(fault)? }))
}

/// Gives `lock` back, waits to be woken, and takes it again. Ranks are woken in the order in which
/// they came.
///
/// Errors: as ::svm_lock_acquire and ::svm_lock_release.
///
/// # Safety
/// `cond` is null or a condition variable, `lock` null or a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_cond_wait(cond: *const svm_cond, lock: *const svm_lock) -> c_int {
    with("svm_cond_wait", cond, |svm, cond| {
        if lock.is_null() {
            return Err(null("svm_cond_wait"));
        }
        // SAFETY: the caller gave a lock.
        let lock = numbered(unsafe { lock.read() }.id)?;
        let cond = svm.condvar_of(cond.words).map_err(fault)?;
        cond.wait_under(lock).map_err(fault)
    })
}

/// Wakes the rank that has waited longest, if any waits.
///
/// Errors: as ::svm_flag_set.
///
/// # Safety
/// `cond` is null or a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_cond_signal(cond: *const svm_cond) -> c_int {
    with("svm_cond_signal", cond, |svm, cond| {
        svm.condvar_of(cond.words).and_then(|cond| cond.notify_one()).map_err(fault)
    })
}

/// Wakes all ranks that wait.
///
/// Errors: as ::svm_flag_set.
///
/// # Safety
/// `cond` is null or a condition variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_cond_broadcast(cond: *const svm_cond) -> c_int {
    with("svm_cond_broadcast", cond, |svm, cond| {
        svm.condvar_of(cond.words).and_then(|cond| cond.notify_all()).map_err(fault)
    })
}
