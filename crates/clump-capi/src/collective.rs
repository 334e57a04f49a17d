//! Collectives that move bytes: broadcast, gather, all-gather, scatter, all-to-all. Those that
//! combine elements are in [`crate::reduction`].

use crate::send::{bytes, room};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::{JobHandle, checked_rank, clump_t, outside_handlers};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// Gathers `mine_bytes` bytes of every rank in `all` on every rank, in rank order: `all` has space
/// for as many as there are ranks. All ranks contribute equally many.
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
            let mine = unsafe { bytes(mine, mine_bytes) }?;
            if all.is_null() && mine_bytes > 0 {
                return Err(null("the place for what all ranks give"));
            }
            let parts = job.runtime.all_gather_bytes(mine)?;
            // SAFETY: the caller has space for these bytes of each rank.
            unsafe { place(&parts, mine_bytes, all) }
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
            // SAFETY: the caller's.
            let mine = unsafe { bytes(mine, mine_bytes) }?;
            if all.is_null() && mine_bytes > 0 && job.runtime.rank() == root {
                return Err(null("the place for what all ranks give"));
            }
            let Some(parts) = job.runtime.gather_bytes(root, mine)? else { return Ok(0) };
            // SAFETY: the caller has space for these bytes of each rank.
            unsafe { place(&parts, mine_bytes, all) }
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
            // SAFETY: the caller's; nothing else uses it meanwhile.
            let room = unsafe { room(mine, mine_bytes) }?;
            let mut parts = Vec::new();
            if job.runtime.rank() == root {
                // SAFETY: the caller's.
                parts = unsafe { parts_of(job, all, mine_bytes) }?;
            }
            let part = job.runtime.scatter_bytes(root, &parts)?;
            if part.len() != room.len() {
                return Err(unequal(root, part.len(), mine_bytes));
            }
            room.copy_from_slice(&part);
            Ok(0)
        })
    })
}

/// Gives `each_bytes` bytes of `from` to each rank, in rank order, and puts those that each rank
/// gives to this one in `to`, in rank order. All ranks give equally many. The two do not overlap.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `from` has `each_bytes` bytes for each rank; `to` has space for as many, and is another place.
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
            let parts = unsafe { parts_of(job, from, each_bytes) }?;
            if to.is_null() && each_bytes > 0 {
                return Err(null("the place for what all ranks give"));
            }
            let got = job.runtime.all_to_all_bytes(&parts)?;
            // SAFETY: the caller has space for these bytes of each rank.
            unsafe { place(&got, each_bytes, to) }
        })
    })
}

/// Returns the `each` bytes for each rank that lie in `all`.
///
/// # Safety
/// `all` is null, or has that many bytes while the parts are used.
unsafe fn parts_of<'a>(job: &JobHandle, all: *const c_void, each: usize) -> Result<Vec<&'a [u8]>> {
    let ranks = job.runtime.nranks();
    let count = each.checked_mul(ranks);
    let Some(count) = count.filter(|&count| isize::try_from(count).is_ok()) else {
        return Err(range("a number of bytes", each, "what fits into memory for each rank"));
    };
    // SAFETY: by the function's own.
    let all = unsafe { bytes(all, count) }?;
    Ok((0..ranks).map(|rank| &all[rank * each..(rank + 1) * each]).collect())
}

/// Puts `each` bytes of every rank into `all`, in rank order.
///
/// # Safety
/// `all` has space for them, or `each` is 0.
unsafe fn place(parts: &[Vec<u8>], each: usize, all: *mut c_void) -> Result<c_int> {
    if let Some(rank) = parts.iter().position(|part| part.len() != each) {
        return Err(unequal(rank, parts.get(rank).map_or(0, Vec::len), each));
    }
    for (rank, part) in parts.iter().enumerate().filter(|_| each > 0) {
        // SAFETY: the caller has space for these bytes of each rank.
        unsafe {
            let place = all.cast::<u8>().add(rank * each);
            std::ptr::copy_nonoverlapping(part.as_ptr(), place, each);
        }
    }
    Ok(0)
}

/// Returns the error that a rank gives another number of bytes than this one expects.
fn unequal(rank: usize, other: usize, mine: usize) -> Fault {
    let what = format!("rank {rank} gives {other} bytes, this one {mine}; all give equally many");
    Fault::new(S::CLUMP_ERR_ARGUMENT, what)
}
