//! Transfers of blocks of a segment at equal distances, and puts with signals.

use crate::rma::{clump_segment_id, clump_target, place};
use clump::rma::{SegmentName, Signal, Strides};
use clump_ffi::border::guard;
use clump_ffi::fault::{Result, null};
use std::ffi::{c_int, c_void};

/// Blocks of equal length at equal distances.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clump_strides {
    /// Offset of the first block in bytes.
    pub offset: u64,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes from the beginning of one to that of the next.
    pub stride: u64,
}

/// A word that is written after a put: a rank that sees it sees what was put.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clump_signal {
    /// A segment of the node that is put to.
    pub segment: clump_segment_id,
    /// Offset in it; a multiple of 8.
    pub offset: u64,
    /// The value that is written there, or added.
    pub value: u64,
    /// 1 if it is added, else 0.
    pub adds: c_int,
}

fn strides(given: *const clump_strides) -> Result<Strides> {
    // SAFETY: the caller gave null, or strides.
    let given = unsafe { given.as_ref() }.ok_or_else(|| null("strides"))?;
    Ok(Strides { offset: given.offset, block: given.block, stride: given.stride })
}

/// Writes `from`, whole blocks one behind the other, to the blocks of `to`.
///
/// Errors: ::CLUMP_ERR_BOUNDS (also if `from` is not made of whole blocks); else as
/// ::clump_rma_put.
///
/// # Safety
/// `to` are strides, `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_put_strided(
    target: *mut clump_target,
    to: *const clump_strides,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        let to = strides(to)?;
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        place(target, |place| {
            place.target.put_strided(to, from)?;
            Ok(0)
        })
    })
}

/// Reads the blocks of `from` to `to`, one behind the other, until its `bytes` bytes are full.
///
/// Errors: ::CLUMP_ERR_BOUNDS (also if `to` does not hold whole blocks); else as ::clump_rma_get.
///
/// # Safety
/// `from` are strides, `to` has space for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_get_strided(
    target: *mut clump_target,
    from: *const clump_strides,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        let from = strides(from)?;
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, bytes) }?;
        place(target, |place| {
            place.target.get_strided(from, to)?;
            Ok(0)
        })
    })
}

/// Writes `from`, `bytes` bytes, to `offset`, and then a signal: a rank that waits for that
/// (::clump_rma_wait_until_u64), or reads it by ::CLUMP_LOAD, sees what was put.
///
/// Errors: as ::clump_rma_put.
///
/// # Safety
/// `from` has `bytes` bytes, `signal` is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_put_signal(
    target: *mut clump_target,
    offset: u64,
    from: *const c_void,
    bytes: usize,
    signal: *const clump_signal,
) -> c_int {
    guard(|| {
        // SAFETY: the caller gave null, or a signal.
        let given = unsafe { signal.as_ref() }.ok_or_else(|| null("a signal"))?;
        let segment = SegmentName::from_bits(given.segment);
        let (offset_of_it, value, adds) = (given.offset, given.value, given.adds != 0);
        let signal = Signal { segment, offset: offset_of_it, value, adds };
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        place(target, |place| {
            place.target.put_signal(offset, from, signal)?;
            Ok(0)
        })
    })
}

/// Writes a word of 8 bytes at `offset`, or adds to it if `adds` is not 0, and wakes the segment's
/// rank if it waits. Ordered after everything that this thread has put to that node if
/// ::clump_rma_fence came between.
///
/// Errors: as ::clump_rma_put; ::CLUMP_ERR_ALIGNMENT.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_signal(
    target: *mut clump_target,
    offset: u64,
    value: u64,
    adds: c_int,
) -> c_int {
    guard(|| {
        place(target, |place| {
            place.target.signal(offset, value, adds != 0)?;
            Ok(0)
        })
    })
}
