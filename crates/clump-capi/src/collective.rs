//! Collectives that move bytes: broadcast, gather, all-gather, scatter, all-to-all. Those that
//! combine elements are in [`crate::reduction`].

use crate::send::{bytes, room};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::{JobHandle, checked_rank, clump_t, outside_handlers};
use clump_ffi::status::clump_status as S;
use std::borrow::Cow;
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
            let count = bytes_of_all(job, mine_bytes)?;
            // SAFETY: the caller's.
            let mine = unsafe { apart((mine, mine_bytes), (all, count)) }?;
            // SAFETY: the caller has space for these bytes of each rank.
            let all = unsafe { room(all, count) }?;
            job.runtime.all_gather_slice(&mine, all)?;
            Ok(0)
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
                return Err(null("the place for what all ranks give"));
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
            let root = checked_rank(job, root)?;
            // SAFETY: the caller's; nothing else uses it meanwhile.
            let values = unsafe { room(values, values_bytes) }?;
            job.runtime.broadcast(root, values)?;
            Ok(0)
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
            let root = checked_rank(job, root)?;
            let here = job.runtime.rank() == root;
            let count = if here { bytes_of_all(job, mine_bytes)? } else { 0 };
            // SAFETY: the caller's.
            let mine = unsafe { apart((mine, mine_bytes), (all, count)) }?;
            // SAFETY: the caller has space for these bytes of each rank.
            let all = unsafe { room(all, count) }?;
            job.runtime.gather_slice(root, &mine, all)?;
            Ok(0)
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
            let root = checked_rank(job, root)?;
            let here = job.runtime.rank() == root;
            let count = if here { bytes_of_all(job, mine_bytes)? } else { 0 };
            // SAFETY: the caller's.
            let all = unsafe { apart((all, count), (mine, mine_bytes)) }?;
            // SAFETY: the caller's; nothing else uses it meanwhile.
            let mine = unsafe { room(mine, mine_bytes) }?;
            job.runtime.scatter_slice(root, &all, mine)?;
            Ok(0)
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
            let count = bytes_of_all(job, each_bytes)?;
            // SAFETY: the caller's.
            let given = unsafe { apart((from, count), (to, count)) }?;
            // SAFETY: the caller's; nothing else uses it meanwhile.
            let got = unsafe { room(to, count) }?;
            job.runtime.all_to_all_slice(&given, got)?;
            Ok(0)
        })
    })
}

/// Returns the number of bytes of which each rank has `each`.
fn bytes_of_all(job: &JobHandle, each: usize) -> Result<usize> {
    let count = each.checked_mul(job.runtime.nranks());
    let count = count.filter(|&count| isize::try_from(count).is_ok());
    count.ok_or_else(|| range("a number of bytes", each, "what fits into memory for each rank"))
}

/// Returns bytes that a program gives; a copy of them where they lie in the memory that the call
/// writes into, as this rank's part of a whole does in many programs.
///
/// # Safety
/// Both are null or memory of so many bytes; the first does not change while the result is used,
/// but for the second.
unsafe fn apart<'a>(
    (given, count): (*const c_void, usize),
    (written, most): (*mut c_void, usize),
) -> Result<Cow<'a, [u8]>> {
    let (from, to) = (given.addr(), written.addr());
    // SAFETY: by the function's own; the result is only kept where nothing is written into it.
    let given = unsafe { bytes(given, count) }?;
    let overlap = from < to.saturating_add(most) && to < from.saturating_add(count);
    if !overlap || count == 0 || most == 0 {
        return Ok(Cow::Borrowed(given));
    }
    let mut copy = Vec::new();
    let what = || Fault::new(S::CLUMP_ERR_SYSTEM, format!("no memory for a copy of {count} bytes"));
    copy.try_reserve_exact(count).map_err(|_| what())?;
    copy.extend_from_slice(given);
    Ok(Cow::Owned(copy))
}
