//! The text of a status, and of the last failure of a thread.

use clump_ffi::border::{guard, to_int};
use clump_ffi::fault::{Fault, last};
use clump_ffi::status::{clump_status as S, text};
use std::ffi::{CStr, c_char, c_int};

/// Returns the meaning of a status in one line, valid for ever; for the last failure,
/// ::clump_error_text has details. Any thread, also before ::clump_init.
#[unsafe(no_mangle)]
pub extern "C" fn clump_strerror(status: c_int) -> *const c_char {
    text(status).as_ptr()
}

/// Returns the status of the last function that failed in this thread; ::CLUMP_OK if none has.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error() -> c_int {
    last(|fault| fault.map_or(S::CLUMP_OK, |fault| fault.status()) as c_int)
}

/// Returns the text of the last failure in this thread: whose fault it is, rank and peer, the
/// remedy, and the chain of causes behind it, each after `": "`. Empty if none has failed. Valid
/// until the next function fails in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error_text() -> *const c_char {
    last(|fault| fault.map_or(c"".as_ptr(), |fault| fault.whole().as_ptr()))
}

/// Returns one link of that chain: 0 is what happened, 1 its cause, and so on; null beyond the
/// last. Valid as long as ::clump_error_text.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error_cause(depth: c_int) -> *const c_char {
    let found = usize::try_from(depth).ok();
    last(|fault| {
        let link = fault.and_then(|fault| fault.link(found?));
        link.map_or(std::ptr::null(), CStr::as_ptr)
    })
}

/// Returns 1 if the last failure of this thread is one that a collective returned and in which this
/// rank took part: its next collective is the next one of all. So it is with an error of something
/// that was begun before, with wrong arguments of this rank (ranks that needed its contribution
/// fail, too), and where ranks do not agree. 0 if the collective was refused before it began (a
/// handler runs, a handle is none), a rank died or left, or the last failure is not a collective's.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error_took_part() -> c_int {
    last(|fault| c_int::from(fault.is_some_and(Fault::took_part)))
}

/// Forgets the last failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error_clear() {
    clump_ffi::fault::forget();
}

/// Returns the number of links of the chain of causes: 0 if nothing has failed in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_error_depth() -> c_int {
    guard(|| Ok(last(|fault| fault.map_or(0, |fault| to_int(fault.links())))))
}
