//! Barriers, read-write locks and semaphores of a program whose threads run on several ranks.

use crate::svm_sync::fault;
use crate::threads::own_number;
use crate::threads_heap::with_heap;
use crate::threads_kernel::KernelCall;
use crate::threads_object::{ThreadObject, object};
use crate::threads_output;
use crate::threads_timed::{Timer, time_left};
use clump::svm::{SharedArray, Svm};
use clump_ffi::fault::Result;
use clump_os::c_library as c;
use clump_os::error::set_errno;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

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
    threads_output::publish();
    let done = with_heap(what, |svm| {
        svm.enter(object.lock).map_err(fault)?;
        let done = run(svm, &object.words(svm)?)?;
        svm.leave(object.lock).map_err(fault)?;
        Ok(done)
    });
    threads_output::collect();
    done
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

/// Changes an object's words under its lock, once `attempt` succeeds; false if it does not until a
/// time of a clock.
fn change_until(
    (object, clock, until): (&Arc<ThreadObject>, c_int, &c::timespec),
    attempt: impl Fn(&SharedArray<u64>) -> bool,
) -> bool {
    let what = "a wait with a time";
    change(object, what, |svm, words| {
        let cond = object.cond(svm)?;
        while !attempt(words) {
            let left = time_left(clock, until);
            if left.is_zero() {
                return Ok(false);
            }
            let woken = object.clone();
            let wake = move || with_heap(what, |svm| woken.cond(svm)?.notify_all().map_err(fault));
            let mut timer = None;
            let begun = || timer = Some(Timer::start(left, wake));
            cond.wait_under_with(object.lock, begun).map_err(fault)?;
            timer.map(Timer::stop);
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
        // SAFETY: the program upholds the contract of the C function.
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
        // SAFETY: the program upholds the contract of the C function.
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
        // Writes of the others are visible behind the lock, and passed on by the flag.
        let waited = match last {
            true => svm.raise(object.rounds, round),
            false => svm.await_raised(object.rounds, round),
        };
        waited.map_err(fault)
    });
    threads_output::collect();
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
    // SAFETY: the program upholds the contract of the C function.
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
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_rwlock_init(lock, attributes) };
    };
    change(&object, "pthread_rwlock_init", |_, words| {
        words.set(READERS, 0);
        words.set(WRITER, 0);
        Ok(())
    });
    0
}

/// Takes a read-write lock for reading, if no thread writes.
fn try_read(words: &SharedArray<u64>) -> bool {
    let free = words.get(WRITER) == 0;
    words.set(READERS, words.get(READERS) + u64::from(free));
    free
}

/// Takes a read-write lock for writing, if no thread has it.
fn try_write(words: &SharedArray<u64>) -> bool {
    let free = words.get(WRITER) == 0 && words.get(READERS) == 0;
    if free {
        words.set(WRITER, own_number() + 1);
    }
    free
}

/// Takes a read-write lock for reading.
fn read(object: &ThreadObject, waits: bool) -> c_int {
    let taken = change_when((object, waits, "pthread_rwlock_rdlock"), try_read);
    if taken { 0 } else { c::EBUSY }
}

/// Takes a read-write lock for writing.
fn write(object: &ThreadObject, waits: bool) -> c_int {
    let taken = change_when((object, waits, "pthread_rwlock_wrlock"), try_write);
    if taken { 0 } else { c::EBUSY }
}

/// Stands in for `pthread_rwlock_rdlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_rdlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    object(lock).map_or_else(|| unsafe { c::pthread_rwlock_rdlock(lock) }, |own| read(&own, true))
}

/// Stands in for `pthread_rwlock_tryrdlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_tryrdlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    let native = || unsafe { c::pthread_rwlock_tryrdlock(lock) };
    object(lock).map_or_else(native, |own| read(&own, false))
}

/// Stands in for `pthread_rwlock_wrlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_wrlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    object(lock).map_or_else(|| unsafe { c::pthread_rwlock_wrlock(lock) }, |own| write(&own, true))
}

/// Stands in for `pthread_rwlock_trywrlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_rwlock_trywrlock(lock: *mut c::pthread_rwlock_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
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
        // SAFETY: the program upholds the contract of the C function.
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
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::sem_init(sem, shared, value) };
    };
    change(&object, "sem_init", |_, words| {
        words.set(VALUE, u64::from(value));
        Ok(())
    });
    0
}

/// Takes one from a semaphore, if there is one.
fn try_lower(words: &SharedArray<u64>) -> bool {
    let value = words.get(VALUE);
    words.set(VALUE, value.saturating_sub(1));
    value > 0
}

/// Takes one from a semaphore, once there is one.
fn lower(object: &ThreadObject, waits: bool) -> c_int {
    if change_when((object, waits, "sem_wait"), try_lower) {
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
    // SAFETY: the program upholds the contract of the C function.
    object(sem).map_or_else(|| unsafe { c::sem_wait(sem) }, |own| lower(&own, true))
}

/// Stands in for `sem_trywait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_trywait(sem: *mut c::sem_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    object(sem).map_or_else(|| unsafe { c::sem_trywait(sem) }, |own| lower(&own, false))
}

/// Stands in for `sem_post`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sem_post(sem: *mut c::sem_t) -> c_int {
    let Some(object) = object(sem) else {
        // SAFETY: the program upholds the contract of the C function.
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
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::sem_getvalue(sem, value) };
    };
    let now = change(&object, "sem_getvalue", |_, words| Ok(words.get(VALUE)));
    // SAFETY: a place that the program has given.
    unsafe { value.write(c_int::try_from(now).unwrap_or(c_int::MAX)) };
    0
}

/// Defines functions that wait until a time of a clock: the object's kind, the attempt, and the
/// result when the time is over.
macro_rules! timed {
    ($($name:ident($kind:ty $(, $clock:ident)?): $attempt:ident, $over:expr;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: stands in for the function it is named after.")]
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut $kind,
            $($clock: c_int,)?
            until: *const c::timespec,
        ) -> c_int {
            static CALL: KernelCall = KernelCall::new(stringify!($name), &[]);
            let Some(object) = object(at) else {
                let words = [at.expose_provenance(), until.expose_provenance(), 0, 0, 0, 0];
                $(let words = [words[0], $clock as usize, words[1], 0, 0, 0];)?
                // SAFETY: the program upholds the contract of the C function.
                return unsafe { CALL.run(words) } as c_int;
            };
            let by = c::CLOCK_REALTIME;
            $(let by = { let _ = by; $clock };)?
            // SAFETY: a time that the program has given.
            let until = unsafe { &*until };
            if change_until((&object, by, until), $attempt) {
                return 0;
            }
            $over
        }
    )+ };
}

/// Returns what a wait for a semaphore does whose time is over.
fn sem_over() -> c_int {
    set_errno(c::ETIMEDOUT);
    -1
}

timed! {
    __wrap_pthread_rwlock_clockrdlock(c::pthread_rwlock_t, clock): try_read, c::ETIMEDOUT;
    __wrap_pthread_rwlock_clockwrlock(c::pthread_rwlock_t, clock): try_write, c::ETIMEDOUT;
    __wrap_pthread_rwlock_timedrdlock(c::pthread_rwlock_t): try_read, c::ETIMEDOUT;
    __wrap_pthread_rwlock_timedwrlock(c::pthread_rwlock_t): try_write, c::ETIMEDOUT;
    __wrap_sem_clockwait(c::sem_t, clock): try_lower, sem_over();
    __wrap_sem_timedwait(c::sem_t): try_lower, sem_over();
}
