//! Barriers, read-write locks and semaphores of a program whose threads run on several ranks.

use crate::svm_sync::fault;
use crate::threads::own_number;
use crate::threads_heap::with_heap;
use crate::threads_object::{ThreadObject, object};
use clump::svm::{SharedArray, Svm};
use clump_ffi::fault::Result;
use clump_os::c_library as c;
use clump_os::error::set_errno;
use std::ffi::{c_int, c_uint};

/// Result of a barrier at one of its threads.
const SERIAL_THREAD: c_int = -1;
/// Words of a barrier: threads that it waits for; and those that have arrived, beside the number of
/// its round.
const COUNT: usize = 0;
const ARRIVED: usize = 1;
const ARRIVED_BITS: u32 = 24;
/// Words of a read-write lock: readers; writer, one more than its number.
const READERS: usize = 0;
const WRITER: usize = 1;
/// Word of a semaphore.
const VALUE: usize = 0;

/// Changes an object's words under its lock.
fn change<R>(
    object: &ThreadObject,
    what: &str,
    run: impl FnOnce(&Svm, &SharedArray<u64>) -> Result<R>,
) -> R {
    with_heap(what, |svm| {
        svm.enter(object.lock).map_err(fault)?;
        let done = run(svm, &object.words(svm)?)?;
        svm.leave(object.lock).map_err(fault)?;
        Ok(done)
    })
}

/// Changes an object's words under its lock, once `attempt` succeeds. Waits for it, or returns
/// false.
fn change_when(
    (object, waits, what): (&ThreadObject, bool, &str),
    attempt: impl Fn(&SharedArray<u64>) -> bool,
) -> bool {
    change(object, what, |svm, words| {
        let cond = object.cond(svm)?;
        while !attempt(words) {
            if !waits {
                return Ok(false);
            }
            cond.wait_under(object.lock).map_err(fault)?;
        }
        Ok(true)
    })
}

/// Stands in for `pthread_barrier_init`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_barrier_init(
    barrier: *mut c::pthread_barrier_t,
    attributes: *const c::pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    let Some(object) = object(barrier) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::pthread_barrier_init(barrier, attributes, count) };
    };
    if count == 0 || count >= 1 << ARRIVED_BITS {
        return c::EINVAL;
    }
    change(&object, "pthread_barrier_init", |_, words| {
        words.set(COUNT, u64::from(count));
        words.set(ARRIVED, words.get(ARRIVED) >> ARRIVED_BITS << ARRIVED_BITS);
        Ok(())
    });
    0
}

/// Stands in for `pthread_barrier_wait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_barrier_wait(barrier: *mut c::pthread_barrier_t) -> c_int {
    let Some(object) = object(barrier) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::pthread_barrier_wait(barrier) };
    };
    let (last, round) = change(&object, "pthread_barrier_wait", |_, words| {
        let state = words.get(ARRIVED) + 1;
        let (round, arrived) = (state >> ARRIVED_BITS, state & ((1 << ARRIVED_BITS) - 1));
        let last = arrived >= words.get(COUNT);
        words.set(ARRIVED, if last { (round + 1) << ARRIVED_BITS } else { state });
        Ok((last, round + 1))
    });
    with_heap("pthread_barrier_wait", |svm| {
        // What the others have written is seen behind the lock, and handed on by the flag.
        let waited = match last {
            true => svm.raise(object.rounds, round),
            false => svm.await_raised(object.rounds, round),
        };
        waited.map_err(fault)
    });
    if last { SERIAL_THREAD } else { 0 }
}

/// Stands in for `pthread_barrier_destroy`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_barrier_destroy(
    barrier: *mut c::pthread_barrier_t,
) -> c_int {
    if object(barrier).is_some() {
        return 0;
    }
    // SAFETY: as the program has asked for.
    unsafe { c::pthread_barrier_destroy(barrier) }
}

/// Stands in for `pthread_rwlock_init`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_init(
    lock: *mut c::pthread_rwlock_t,
    attributes: *const c::pthread_rwlockattr_t,
) -> c_int {
    let Some(object) = object(lock) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::pthread_rwlock_init(lock, attributes) };
    };
    change(&object, "pthread_rwlock_init", |_, words| {
        words.set(READERS, 0);
        words.set(WRITER, 0);
        Ok(())
    });
    0
}

/// Takes a read-write lock for reading.
fn read(object: &ThreadObject, waits: bool) -> c_int {
    let taken = change_when((object, waits, "pthread_rwlock_rdlock"), |words| {
        let free = words.get(WRITER) == 0;
        words.set(READERS, words.get(READERS) + u64::from(free));
        free
    });
    if taken { 0 } else { c::EBUSY }
}

/// Takes a read-write lock for writing.
fn write(object: &ThreadObject, waits: bool) -> c_int {
    let me = own_number() + 1;
    let taken = change_when((object, waits, "pthread_rwlock_wrlock"), |words| {
        let free = words.get(WRITER) == 0 && words.get(READERS) == 0;
        if free {
            words.set(WRITER, me);
        }
        free
    });
    if taken { 0 } else { c::EBUSY }
}

/// Stands in for `pthread_rwlock_rdlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_rdlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: as the program has asked for.
    object(lock).map_or_else(|| unsafe { c::pthread_rwlock_rdlock(lock) }, |own| read(&own, true))
}

/// Stands in for `pthread_rwlock_tryrdlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_tryrdlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: as the program has asked for.
    let native = || unsafe { c::pthread_rwlock_tryrdlock(lock) };
    object(lock).map_or_else(native, |own| read(&own, false))
}

/// Stands in for `pthread_rwlock_wrlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_wrlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: as the program has asked for.
    object(lock).map_or_else(|| unsafe { c::pthread_rwlock_wrlock(lock) }, |own| write(&own, true))
}

/// Stands in for `pthread_rwlock_trywrlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_trywrlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: as the program has asked for.
    let native = || unsafe { c::pthread_rwlock_trywrlock(lock) };
    object(lock).map_or_else(native, |own| write(&own, false))
}

/// Stands in for `pthread_rwlock_unlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_unlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    let Some(object) = object(lock) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::pthread_rwlock_unlock(lock) };
    };
    let me = own_number() + 1;
    let given = change(&object, "pthread_rwlock_unlock", |svm, words| {
        let (readers, writer) = (words.get(READERS), words.get(WRITER));
        if writer != me && readers == 0 {
            return Ok(false);
        }
        let left = if writer == me { 0 } else { readers - 1 };
        words.set(READERS, left);
        words.set(WRITER, 0);
        if left == 0 {
            object.cond(svm)?.notify_all().map_err(fault)?;
        }
        Ok(true)
    });
    if given { 0 } else { c::EPERM }
}

/// Stands in for `sem_init`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_init(
    sem: *mut c::sem_t,
    shared: c_int,
    value: c_uint,
) -> c_int {
    let Some(object) = object(sem) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::sem_init(sem, shared, value) };
    };
    change(&object, "sem_init", |_, words| {
        words.set(VALUE, u64::from(value));
        Ok(())
    });
    0
}

/// Takes one from a semaphore, once there is one.
fn lower(object: &ThreadObject, waits: bool) -> c_int {
    let taken = change_when((object, waits, "sem_wait"), |words| {
        let value = words.get(VALUE);
        words.set(VALUE, value.saturating_sub(1));
        value > 0
    });
    if taken {
        return 0;
    }
    set_errno(c::EAGAIN);
    -1
}

/// Stands in for `sem_wait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_wait(sem: *mut c::sem_t) -> c_int {
    // SAFETY: as the program has asked for.
    object(sem).map_or_else(|| unsafe { c::sem_wait(sem) }, |own| lower(&own, true))
}

/// Stands in for `sem_trywait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_trywait(sem: *mut c::sem_t) -> c_int {
    // SAFETY: as the program has asked for.
    object(sem).map_or_else(|| unsafe { c::sem_trywait(sem) }, |own| lower(&own, false))
}

/// Stands in for `sem_post`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_post(sem: *mut c::sem_t) -> c_int {
    let Some(object) = object(sem) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::sem_post(sem) };
    };
    change(&object, "sem_post", |svm, words| {
        words.set(VALUE, words.get(VALUE) + 1);
        object.cond(svm)?.notify_one().map_err(fault)
    });
    0
}

/// Stands in for `sem_getvalue`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_getvalue(sem: *mut c::sem_t, value: *mut c_int) -> c_int {
    let Some(object) = object(sem) else {
        // SAFETY: as the program has asked for.
        return unsafe { c::sem_getvalue(sem, value) };
    };
    let now = change(&object, "sem_getvalue", |_, words| Ok(words.get(VALUE)));
    // SAFETY: a place that the program has given.
    unsafe { value.write(c_int::try_from(now).unwrap_or(c_int::MAX)) };
    0
}
