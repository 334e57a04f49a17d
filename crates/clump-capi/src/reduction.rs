//! Collectives of all ranks that combine elements: all-reduce, reduce, scans. Those of a team are
//! in [`crate::team_reduction`].

use crate::element::{clump_op, clump_type};
use crate::team_bytes::{prepared, root_of};
use crate::team_elements::{Reach, combine};
use clump_ffi::border::guard;
use clump_ffi::job::{clump_t, outside_handlers};
use std::ffi::{c_int, c_void};

/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order; all ranks get the same bits. `from` and `to` may be the same. All ranks give
/// equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such type or operation, bits of
/// floating-point numbers).
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_reduce(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_reduce", |job| {
            // SAFETY: the caller's.
            unsafe { combine(job.runtime.team(), (from, to, count), (r#type, op), Reach::All) }
        })
    })
}

/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order, in `to` of `root`: the bits that ::clump_all_reduce gives. `to` of other ranks is
/// not used. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce; ::CLUMP_ERR_ARGUMENT (no such rank).
///
/// # Safety
/// `from` has, and `to` of the root has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_reduce(
    cl: *mut clump_t,
    root: c_int,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_reduce", |job| {
            let reach =
                Reach::Root(prepared(job.runtime.team(), root_of(job.runtime.team(), root))?);
            // SAFETY: the caller's.
            unsafe { combine(job.runtime.team(), (from, to, count), (r#type, op), reach) }
        })
    })
}

/// Combines the `count` elements of all ranks up to this one, this one's included, in rank order.
/// `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_scan(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_scan", |job| {
            // SAFETY: the caller's.
            unsafe { combine(job.runtime.team(), (from, to, count), (r#type, op), Reach::Through) }
        })
    })
}

/// Combines the `count` elements of all ranks before this one, in rank order; `to` of rank 0 is not
/// written. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_exclusive_scan(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_exclusive_scan", |job| {
            // SAFETY: the caller's.
            unsafe { combine(job.runtime.team(), (from, to, count), (r#type, op), Reach::Before) }
        })
    })
}
