//! Mutexes, spinlocks, condition variables and `pthread_once` of a program whose threads run on
//! several ranks.

use crate::svm_sync::fault;
use crate::threads::own_number;
use crate::threads_heap::with_heap;
use crate::threads_kernel::KernelCall;
use crate::threads_object::{ThreadObject, object};
use crate::threads_output;
use crate::threads_timed::{Timer, time_left};
use clump_os::c_library as c;
use clump_os::sync::Ordering;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// Offset of a mutex's type in it, as initialisers and `pthread_mutex_init` set it.
const TYPE: usize = 4;
const RECURSIVE: c_int = 1;
/// Offset of a condition variable's clock in it, and the mark of the one that is not set.
const CLOCK: usize = 9;
const MONOTONIC: c_int = 2;
/// Time in which a mutex can be had that is free.
const ATTEMPT: Duration = Duration::from_millis(100);

/// Takes a mutex for the calling thread.
fn take(object: &ThreadObject) {
    with_heap("pthread_mutex_lock", |svm| svm.enter(object.lock).map_err(fault));
    threads_output::collect();
    object.owner.store(own_number() + 1, Ordering::Relaxed);
}

/// Gives back a mutex that the calling thread has.
fn give(object: &ThreadObject) {
    threads_output::publish();
    object.owner.store(0, Ordering::Relaxed);
    if !object.attempt.give() {
        with_heap("pthread_mutex_unlock", |svm| svm.leave(object.lock).map_err(fault));
    }
}

/// Gives back a mutex that the calling thread has, calls `wait`, and takes it again.
fn wait_with(object: &ThreadObject, wait: impl FnOnce()) {
    let depth = object.depth.swap(0, Ordering::Relaxed);
    object.owner.store(0, Ordering::Relaxed);
    object.attempt.forget();
    threads_output::publish();
    wait();
    threads_output::collect();
    object.owner.store(own_number() + 1, Ordering::Relaxed);
    object.depth.store(depth, Ordering::Relaxed);
}

fn is_own(object: &ThreadObject) -> bool {
    object.owner.load(Ordering::Relaxed) == own_number() + 1
}

/// Takes a mutex again that the calling thread has.
///
/// # Safety
/// `mutex` is one.
unsafe fn take_again(mutex: *mut c::pthread_mutex_t, object: &ThreadObject, else_: c_int) -> c_int {
    // SAFETY: inside the mutex, whose page this thread may read.
    let kind = unsafe { mutex.cast::<c_int>().add(TYPE).read() };
    if kind & 3 != RECURSIVE {
        return else_;
    }
    object.depth.fetch_add(1, Ordering::Relaxed);
    0
}

/// Stands in for `pthread_mutex_lock`. A thread that has the mutex gets EDEADLK, unless it is
/// recursive.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_lock(mutex: *mut c::pthread_mutex_t) -> c_int {
    let Some(object) = object(mutex) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_mutex_lock(mutex) };
    };
    if is_own(&object) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { take_again(mutex, &object, c::EDEADLK) };
    }
    take(&object);
    0
}

/// Stands in for `pthread_mutex_unlock`. A thread that does not have the mutex gets EPERM.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_unlock(mutex: *mut c::pthread_mutex_t) -> c_int {
    let Some(object) = object(mutex) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_mutex_unlock(mutex) };
    };
    if !is_own(&object) {
        return c::EPERM;
    }
    if object.depth.load(Ordering::Relaxed) > 0 {
        object.depth.fetch_sub(1, Ordering::Relaxed);
        return 0;
    }
    give(&object);
    0
}

/// Takes a mutex that can be had before so much time is over.
fn take_within(object: &ThreadObject, patience: Duration) -> bool {
    let taken = object.attempt.take(patience);
    if taken {
        object.owner.store(own_number() + 1, Ordering::Relaxed);
        threads_output::collect();
    }
    taken
}

/// Takes a mutex that no thread has.
fn try_to_take(object: &ThreadObject) -> c_int {
    let free = object.owner.load(Ordering::Relaxed) == 0;
    if free && take_within(object, ATTEMPT) { 0 } else { c::EBUSY }
}

/// Stands in for `pthread_mutex_trylock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_trylock(mutex: *mut c::pthread_mutex_t) -> c_int {
    let Some(object) = object(mutex) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_mutex_trylock(mutex) };
    };
    if is_own(&object) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { take_again(mutex, &object, c::EBUSY) };
    }
    try_to_take(&object)
}

/// Stands in for `pthread_mutex_timedlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_timedlock(
    mutex: *mut c::pthread_mutex_t,
    until: *const c::timespec,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_pthread_mutex_clocklock(mutex, c::CLOCK_REALTIME, until) }
}

/// Stands in for `pthread_mutex_clocklock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_mutex_clocklock(
    mutex: *mut c::pthread_mutex_t,
    clock: c_int,
    until: *const c::timespec,
) -> c_int {
    static CALL: KernelCall = KernelCall::new("pthread_mutex_clocklock", &[]);
    let Some(object) = object(mutex) else {
        let words = [mutex.expose_provenance(), clock as usize, until.expose_provenance(), 0, 0, 0];
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { CALL.run(words) } as c_int;
    };
    if is_own(&object) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { take_again(mutex, &object, c::EDEADLK) };
    }
    // SAFETY: a time that the program has given.
    let patience = time_left(clock, unsafe { &*until }).max(ATTEMPT);
    if take_within(&object, patience) { 0 } else { c::ETIMEDOUT }
}

/// Stands in for `pthread_spin_trylock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_spin_trylock(lock: *mut c::pthread_spinlock_t) -> c_int {
    let Some(object) = object(lock) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_spin_trylock(lock) };
    };
    try_to_take(&object)
}

/// Stands in for `pthread_spin_lock`: a spinlock is a mutex, whose holders may be far away.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_spin_lock(lock: *mut c::pthread_spinlock_t) -> c_int {
    let Some(object) = object(lock) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_spin_lock(lock) };
    };
    if is_own(&object) {
        return c::EDEADLK;
    }
    take(&object);
    0
}

/// Stands in for `pthread_spin_unlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_spin_unlock(lock: *mut c::pthread_spinlock_t) -> c_int {
    let Some(object) = object(lock) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_spin_unlock(lock) };
    };
    if !is_own(&object) {
        return c::EPERM;
    }
    give(&object);
    0
}

/// Stands in for `pthread_cond_wait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_wait(
    cond: *mut c::pthread_cond_t,
    mutex: *mut c::pthread_mutex_t,
) -> c_int {
    let (Some(waited), Some(held)) = (object(cond), object(mutex)) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_cond_wait(cond, mutex) };
    };
    if !is_own(&held) {
        return c::EPERM;
    }
    wait_with(&held, || {
        with_heap("pthread_cond_wait", |svm| {
            waited.cond(svm)?.wait_under(held.lock).map_err(fault)
        });
    });
    0
}

/// Stands in for `pthread_cond_timedwait`. When the time is over, all that wait look again.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_timedwait(
    cond: *mut c::pthread_cond_t,
    mutex: *mut c::pthread_mutex_t,
    until: *const c::timespec,
) -> c_int {
    let (Some(waited), Some(held)) = (object(cond), object(mutex)) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_cond_timedwait(cond, mutex, until) };
    };
    // SAFETY: inside the condition variable, whose page this thread may read.
    let by_monotonic = unsafe { cond.cast::<c_int>().add(CLOCK).read() } & MONOTONIC != 0;
    let clock = if by_monotonic { c::CLOCK_MONOTONIC } else { c::CLOCK_REALTIME };
    // SAFETY: a time that the program has given.
    wait_until(&waited, &held, (clock, unsafe { &*until }))
}

/// Stands in for `pthread_cond_clockwait`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_clockwait(
    cond: *mut c::pthread_cond_t,
    mutex: *mut c::pthread_mutex_t,
    clock: c_int,
    until: *const c::timespec,
) -> c_int {
    static CALL: KernelCall = KernelCall::new("pthread_cond_clockwait", &[]);
    let (Some(waited), Some(held)) = (object(cond), object(mutex)) else {
        let [cond, mutex] = [cond.expose_provenance(), mutex.expose_provenance()];
        let words = [cond, mutex, clock as usize, until.expose_provenance(), 0, 0];
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { CALL.run(words) } as c_int;
    };
    // SAFETY: a time that the program has given.
    wait_until(&waited, &held, (clock, unsafe { &*until }))
}

/// Waits for a condition variable until a time of a clock.
fn wait_until(
    waited: &Arc<ThreadObject>,
    held: &ThreadObject,
    (clock, until): (c_int, &c::timespec),
) -> c_int {
    if !is_own(held) {
        return c::EPERM;
    }
    let left = time_left(clock, until);
    let what = "pthread_cond_timedwait";
    let mut timer = None;
    wait_with(held, || {
        let woken = waited.clone();
        let wake = move || with_heap(what, |svm| woken.cond(svm)?.notify_all().map_err(fault));
        with_heap(what, |svm| {
            let begun = || timer = Some(Timer::start(left, wake));
            waited.cond(svm)?.wait_under_with(held.lock, begun).map_err(fault)
        });
    });
    let over = timer.is_some_and(Timer::stop);
    if over { c::ETIMEDOUT } else { 0 }
}

/// Stands in for `pthread_cond_signal`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_signal(cond: *mut c::pthread_cond_t) -> c_int {
    let Some(waited) = object(cond) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_cond_signal(cond) };
    };
    threads_output::publish();
    with_heap("pthread_cond_signal", |svm| waited.cond(svm)?.notify_one().map_err(fault));
    0
}

/// Stands in for `pthread_cond_broadcast`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cond_broadcast(cond: *mut c::pthread_cond_t) -> c_int {
    let Some(waited) = object(cond) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_cond_broadcast(cond) };
    };
    threads_output::publish();
    with_heap("pthread_cond_broadcast", |svm| waited.cond(svm)?.notify_all().map_err(fault));
    0
}

/// Stands in for `pthread_once`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __wrap_pthread_once(
    once: *mut c::pthread_once_t,
    run: extern "C" fn(),
) -> c_int {
    let Some(object) = object(once) else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_once(once, run) };
    };
    let fresh = with_heap("pthread_once", |svm| {
        svm.enter(object.lock).map_err(fault)?;
        Ok(object.words(svm)?.get(0) == 0)
    });
    if fresh {
        run();
        threads_output::publish();
    } else {
        threads_output::collect();
    }
    with_heap("pthread_once", |svm| {
        object.words(svm)?.set(0, 1);
        svm.leave(object.lock).map_err(fault)
    });
    0
}
