//! Collectives of all ranks that move bytes: broadcast, gather, all-gather, scatter, all-to-all.
//! Those that combine elements are in [`crate::reduction`], those of a team in
//! [`crate::team_collective`]; what they have in common is in [`crate::team_bytes`].

use crate::team_bytes::{self as on, prepared};
use clump_ffi::border::guard;
use clump_ffi::fault::null;
use clump_ffi::job::{clump_t, outside_handlers};
use std::ffi::{c_int, c_void};

/// Gathers `mine_bytes` bytes of every rank in `all` on every rank, in rank order: `all` has space
/// for as many as there are ranks; `mine` may be this rank's place there. All ranks contribute
/// equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `mine` has `mine_bytes` bytes, `all` space for as many of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_gather(
    cl: *mut clump_t,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_gather", |job| {
            // SAFETY: the caller's.
            unsafe { on::all_gather(job.runtime.team(), (mine, mine_bytes), all) }
        })
    })
}

/// Gathers one word of each rank as ::clump_all_gather does, names of endpoints and segments for
/// example.
///
/// # Safety
/// `all` has space for a word of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_gather_u64(cl: *mut clump_t, mine: u64, all: *mut u64) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_gather_u64", |job| {
            if all.is_null() {
                let wrong = null("the place for what all ranks give");
                return prepared(job.runtime.team(), Err(wrong));
            }
            let words = job.runtime.all_gather(mine)?;
            // SAFETY: the caller has space for a word of each rank.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), all, words.len()) };
            Ok(0)
        })
    })
}

/// Copies the `values_bytes` bytes of `root` to all ranks, which give equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank).
///
/// # Safety
/// `values` has `values_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_broadcast(
    cl: *mut clump_t,
    root: c_int,
    values: *mut c_void,
    values_bytes: usize,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_broadcast", |job| {
            // SAFETY: the caller's.
            unsafe { on::broadcast(job.runtime.team(), root, (values, values_bytes)) }
        })
    })
}

/// Gathers `mine_bytes` bytes of every rank in `all` on `root`, in rank order: there `all` has
/// space for as many as there are ranks; elsewhere it is not used. All ranks contribute equally
/// many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank; on the root also: a rank
/// gave another number of bytes).
///
/// # Safety
/// `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_gather(
    cl: *mut clump_t,
    root: c_int,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_gather", |job| {
            // SAFETY: the caller's.
            unsafe { on::gather(job.runtime.team(), root, (mine, mine_bytes), all) }
        })
    })
}

/// Hands out what `root` gives: `mine_bytes` bytes for each rank, in rank order in `all`, which is
/// not used elsewhere. This rank's go to `mine`. All ranks expect equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank, the root gives another
/// number of bytes).
///
/// # Safety
/// On the root `all` has `mine_bytes` bytes for each rank; `mine` has space for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_scatter(
    cl: *mut clump_t,
    root: c_int,
    all: *const c_void,
    mine: *mut c_void,
    mine_bytes: usize,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_scatter", |job| {
            // SAFETY: the caller's.
            unsafe { on::scatter(job.runtime.team(), root, all, (mine, mine_bytes)) }
        })
    })
}

/// Gives `each_bytes` bytes of `from` to each rank, in rank order, and puts those that each rank
/// gives to this one in `to`, in rank order. All ranks give equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `from` has `each_bytes` bytes for each rank; `to` has space for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_to_all(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    each_bytes: usize,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_to_all", |job| {
            // SAFETY: the caller's.
            unsafe { on::all_to_all(job.runtime.team(), (from, to), each_bytes) }
        })
    })
}

/// Gives `from_bytes[i]` bytes of `from` to rank i, in rank order, and puts those that each rank
/// gives to this one in `to`, in rank order, and their numbers in `to_bytes`. Ranks give any
/// numbers of bytes. `to` has space for `room` bytes.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null); ::CLUMP_ERR_TOO_LONG (`to` has too
/// little space: it is not written, `to_bytes` is; other ranks do not notice).
///
/// # Safety
/// `from_bytes` has, and `to_bytes` has space for, a number for each rank; `from` has the bytes of
/// `from_bytes`, `to` has space for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_to_all_v(
    cl: *mut clump_t,
    from: *const c_void,
    from_bytes: *const usize,
    to: *mut c_void,
    room: usize,
    to_bytes: *mut usize,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_to_all_v", |job| {
            // SAFETY: the caller's.
            unsafe {
                on::all_to_all_v(job.runtime.team(), (from, from_bytes), (to, room), to_bytes)
            }
        })
    })
}
