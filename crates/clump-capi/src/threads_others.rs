//! Queries about threads, which may run on other ranks: if one has ended, and queries that only the
//! calling thread can make about itself. For other threads these fail with ENOTSUP, and print a
//! line.

use crate::threads::{
    __wrap_pthread_join, __wrap_pthread_self, MAX_THREADS, own_number, table, with_native,
};
use crate::threads_heap::with_heap;
use crate::threads_kernel::{KernelCall, say_refused};
use crate::threads_timed::time_left;
use clump_os::c_library as c;
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// Longest time between two looks at a thread that another waits for with a limit.
const LOOK: Duration = Duration::from_millis(20);

/// Returns true once a thread has ended, or a status of the C library.
fn has_ended(thread: c::pthread_t) -> Result<bool, c_int> {
    let Some(table) = table() else { return Err(c::ESRCH) };
    let Some(number) = thread.checked_sub(1) else { return Err(c::ESRCH) };
    if number >= MAX_THREADS as u64 {
        return Err(c::ESRCH);
    }
    if number == own_number() {
        return Err(c::EDEADLK);
    }
    with_heap("pthread_join", |_| table.has_ended(number as usize)).ok_or(c::ESRCH)
}

/// Stands in for `pthread_tryjoin_np`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_tryjoin_np(
    thread: c::pthread_t,
    result: *mut *mut c_void,
) -> c_int {
    match has_ended(thread) {
        // SAFETY: the program upholds the contract of the C function.
        Ok(true) => unsafe { __wrap_pthread_join(thread, result) },
        Ok(false) => c::EBUSY,
        Err(status) => status,
    }
}

/// Stands in for `pthread_clockjoin_np`, which looks again and again.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_clockjoin_np(
    thread: c::pthread_t,
    result: *mut *mut c_void,
    clock: c_int,
    until: *const c::timespec,
) -> c_int {
    let mut pause = Duration::from_millis(1);
    loop {
        // SAFETY: the program upholds the contract of the C function.
        match unsafe { __wrap_pthread_tryjoin_np(thread, result) } {
            c::EBUSY => {}
            status => return status,
        }
        // SAFETY: a time that the program has given, or null.
        let left = unsafe { until.as_ref() }.map_or(LOOK, |until| time_left(clock, until));
        if left.is_zero() {
            return c::ETIMEDOUT;
        }
        std::thread::park_timeout(pause.min(left));
        pause = (pause * 2).min(LOOK);
    }
}

/// Stands in for `pthread_timedjoin_np`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_timedjoin_np(
    thread: c::pthread_t,
    result: *mut *mut c_void,
    until: *const c::timespec,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_pthread_clockjoin_np(thread, result, c::CLOCK_REALTIME, until) }
}

/// Refuses a call for a thread other than the calling one.
#[cold]
fn for_another(name: &str) -> c_int {
    say_refused(name, "not supported for another thread, which may run on another rank");
    c::ENOTSUP
}

/// Stands in for `pthread_kill`. Signal 0 checks if there is such a thread.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_kill(thread: c::pthread_t, signal: c_int) -> c_int {
    if thread == __wrap_pthread_self() {
        // SAFETY: the program upholds the contract of the C function.
        return with_native(thread, |native| unsafe { c::pthread_kill(native, signal) });
    }
    match has_ended(thread) {
        Err(status) => status,
        Ok(true) => c::ESRCH,
        Ok(false) if signal == 0 => 0,
        Ok(false) => for_another("pthread_kill"),
    }
}

/// Stands in for `pthread_cancel`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cancel(thread: c::pthread_t) -> c_int {
    if thread == __wrap_pthread_self() {
        // SAFETY: the program upholds the contract of the C function.
        return with_native(thread, |native| unsafe { c::pthread_cancel(native) });
    }
    match has_ended(thread) {
        Err(status) => status,
        Ok(true) => c::ESRCH,
        Ok(false) => for_another("pthread_cancel"),
    }
}

/// Defines functions that work for the calling thread.
macro_rules! for_own_thread {
    ($($name:ident;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: stands in for the function it is named after.")]
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            thread: c::pthread_t, a: usize, b: usize, c: usize,
        ) -> c_int {
            static CALL: KernelCall = KernelCall::new(stringify!($name), &[]);
            if thread != __wrap_pthread_self() {
                return for_another(stringify!($name).trim_start_matches("__wrap_"));
            }
            // SAFETY: the program upholds the contract of the C function; words that it has not
            // passed are not used.
            with_native(thread, |native| unsafe {
                CALL.run([native as usize, a, b, c, 0, 0]) as c_int
            })
        }
    )+ };
}

for_own_thread! {
    __wrap_pthread_getattr_np;
    __wrap_pthread_getcpuclockid;
    __wrap_pthread_getname_np;
    __wrap_pthread_getschedparam;
    __wrap_pthread_setschedparam;
    __wrap_pthread_setschedprio;
    __wrap_pthread_sigqueue;
}

/// Result of `thrd_create` that is an error.
const THRD_ERROR: c_int = 2;

/// Stands in for `thrd_create`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_thrd_create() -> c_int {
    say_refused("thrd_create", "not supported: create threads by pthread_create");
    THRD_ERROR
}
