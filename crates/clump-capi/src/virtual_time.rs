//! Time of a rank, and the cost of its computation where time is virtual.

use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, null, range};
use clump_ffi::job::{clump_t, with};
use clump_ffi::status::clump_status as S;
use std::ffi::{CStr, c_char, c_int};
use std::sync::PoisonError;

/// Returns the time of this rank: nanoseconds since its program began where time is virtual
/// (`clump run --virtual`), else those of ::clump_wall_ns. 0 on failure. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_now_ns(cl: *const clump_t) -> u64 {
    let mut now = 0;
    guard(|| {
        with(cl, |job| {
            now = job.runtime.clock().now_ns();
            Ok(0)
        })
    });
    now
}

/// Gives the cost of the computation between the call of clump before this and the next, in
/// nanoseconds, where time is virtual: it counts instead of what is measured. Costs that are given
/// before the same call add up. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_cost(cl: *mut clump_t, ns: u64) -> c_int {
    guard(|| {
        with(cl, |job| {
            job.runtime.clock().cost(ns);
            Ok(0)
        })
    })
}

/// Begins to execute a region of the program that it executes often, `name` for each, and at about
/// equal cost. Returns 1 if it is to be executed; ::clump_sample_end follows then. Where time is
/// virtual, `times` executions are measured, and 0 is returned for those that follow: they are not
/// to be executed, and have cost the mean. Elsewhere every one is executed. The region calls
/// nothing of clump. Any thread, one region of a name at a time.
///
/// ```c
/// if (clump_sample_begin(cl, "multiply", 5) == 1) {
///     multiply();
///     clump_sample_end(cl, "multiply");
/// }
/// ```
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null, or `times` is not positive), ::CLUMP_ERR_BUSY (the region
/// has not ended).
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_sample_begin(
    cl: *mut clump_t,
    name: *const c_char,
    times: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's contract.
        let name = unsafe { text(name)? };
        let wrong = || range("the measured executions", times, "one or more");
        let times = usize::try_from(times).ok().filter(|&times| times > 0).ok_or_else(wrong)?;
        with(cl, |job| {
            let mut begun = job.sampled.lock().unwrap_or_else(PoisonError::into_inner);
            if begun.contains_key(&name) {
                let what = format!("the region {name:?} has begun, and clump_sample_end ends it");
                return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
            }
            let Some(region) = job.runtime.clock().sample(&name, times) else { return Ok(0) };
            begun.insert(name, region);
            Ok(1)
        })
    })
}

/// Ends the execution of a region that ::clump_sample_begin has begun.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null, or no region of that name has begun).
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_sample_end(cl: *mut clump_t, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's contract.
        let name = unsafe { text(name)? };
        with(cl, |job| {
            let mut begun = job.sampled.lock().unwrap_or_else(PoisonError::into_inner);
            let what = || format!("no region {name:?} has begun");
            begun
                .remove(&name)
                .map(drop)
                .ok_or_else(|| Fault::new(S::CLUMP_ERR_ARGUMENT, what()))?;
            Ok(0)
        })
    })
}

/// Returns the name of a region.
///
/// # Safety
/// `name` is null or a string.
unsafe fn text(name: *const c_char) -> Result<String, Fault> {
    if name.is_null() {
        return Err(null("the name of a region"));
    }
    // SAFETY: the caller gave a string.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
