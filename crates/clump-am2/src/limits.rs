//! Limits of the interface.

use crate::endpoint_slot::HANDLERS;
pub(crate) use crate::job_context::max_medium;
use crate::message::MAX_ARGUMENTS;
use crate::status::{Result, bad, call, give, null};
use std::ffi::{c_int, c_void};

/// Maximum number of bytes of a long message.
const MAX_LONG: usize = 64 << 20;
/// Maximum number of bytes of a segment.
pub(crate) const MAX_SEGMENT: usize = 16 << 30;

/// Returns the maximum number of bytes of a long message.
pub(crate) fn max_long() -> usize {
    MAX_LONG
}

/// Checks a payload that C gave.
///
/// # Safety
/// `source` leads to `bytes` bytes, which are not written while they are used, or is null.
#[inline]
pub(crate) unsafe fn checked_bytes<'a>(
    source: *const c_void,
    bytes: usize,
    most: usize,
    limit: &str,
) -> Result<&'a [u8]> {
    if bytes > most {
        return Err(bad(format!("a payload of {bytes} bytes is longer than {limit}(), {most}")));
    }
    if bytes == 0 {
        return Ok(&[]);
    }
    if source.is_null() {
        return Err(null("a payload"));
    }
    // SAFETY: the caller's.
    Ok(unsafe { std::slice::from_raw_parts(source.cast(), bytes) })
}

/// Implements `AM_MaxShort` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxShort() -> c_int {
    MAX_ARGUMENTS as c_int
}

/// Implements `AM_MaxMedium` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxMedium() -> c_int {
    max_medium() as c_int
}

/// Implements `AM_MaxLong` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxLong() -> c_int {
    MAX_LONG as c_int
}

/// Implements `AM_MaxNumHandlers` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxNumHandlers() -> c_int {
    HANDLERS as c_int
}

/// Implements `AM_MaxSegLength` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MaxSegLength(bytes: *mut usize) -> c_int {
    call(|| give(bytes, "a length", MAX_SEGMENT))
}
