//! Flags: words that any rank sets, and any rank waits for.

use crate::endpoint::write_to;
use crate::rma::{access, close, clump_rma, clump_segment, clump_segment_id, exported, write_if};
use crate::words::comparison;
use clump::rma::{Flag, SegmentName};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::Result;
use clump_ffi::slot::{Object, Slot};
use std::ffi::c_int;
use std::time::Duration;

/// A word that any rank sets or adds to, and any rank waits for. Belongs to the thread that opened
/// it.
#[derive(Debug)]
pub struct clump_flag(());

/// The object behind a ::clump_flag.
#[derive(Debug)]
pub(crate) struct FlagHandle(Flag);

impl Object for FlagHandle {
    const KIND: u32 = 9;
    const NAME: &'static str = "flag (clump_flag)";
}

fn with<R>(flag: *const clump_flag, run: impl FnOnce(&Flag) -> Result<R>) -> Result<R> {
    Slot::enter::<FlagHandle, R>(flag.cast(), |raised, _| run(&raised.0))
}

/// Exports `count` flags, all 0. Their home is this rank's node.
///
/// Returns null on failure: as ::clump_segment_export.
#[unsafe(no_mangle)]
pub extern "C" fn clump_flags_export(rma: *mut clump_rma, count: u64) -> *mut clump_segment {
    guard_pointer(|| access(rma, |access| exported(access.rma.export_flags(count)?)))
}

/// Opens flag number `index`, from 0, of those exported under the name `flags`.
///
/// Returns null on failure: as ::clump_target_open.
#[unsafe(no_mangle)]
pub extern "C" fn clump_flag_open(
    rma: *mut clump_rma,
    flags: clump_segment_id,
    index: u64,
) -> *mut clump_flag {
    guard_pointer(|| {
        access(rma, |access| {
            let flag = access.rma.flag(SegmentName::from_bits(flags), index)?;
            Ok(Slot::fill(FlagHandle(flag))?.pointer())
        })
    })
}

/// Closes a flag. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_flag_close(flag: *mut clump_flag) -> c_int {
    close::<FlagHandle>(flag.cast_const().cast())
}

/// Sets a flag. A rank that sees the new value sees what this thread has put to its node before a
/// ::clump_rma_fence that came before this.
///
/// Errors: on this node: ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS (no flag of that number); on
/// another, ::clump_rma_quiet reports them. ::CLUMP_ERR_NODE_LOST.
#[unsafe(no_mangle)]
pub extern "C" fn clump_flag_set(flag: *mut clump_flag, value: u64) -> c_int {
    guard(|| {
        with(flag, |flag| {
            flag.set(value)?;
            Ok(0)
        })
    })
}

/// Adds to a flag; otherwise as ::clump_flag_set.
#[unsafe(no_mangle)]
pub extern "C" fn clump_flag_add(flag: *mut clump_flag, value: u64) -> c_int {
    guard(|| {
        with(flag, |flag| {
            flag.add(value)?;
            Ok(0)
        })
    })
}

/// Writes the current value of a flag to `value`.
///
/// Errors: as ::clump_rma_get; ::CLUMP_ERR_ARGUMENT.
///
/// # Safety
/// `value` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_flag_get(flag: *mut clump_flag, value: *mut u64) -> c_int {
    guard(|| {
        let found = with(flag, |flag| Ok(flag.get()?))?;
        write_to(value, found, "the place for the flag's value")?;
        Ok(0)
    })
}

/// Waits until a flag compares to `value` by `how` (a ::clump_comparison); writes it to `seen`, if
/// that is not null.
///
/// Errors: as ::clump_rma_get; ::CLUMP_ERR_ARGUMENT.
///
/// # Safety
/// `seen` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_flag_wait(
    flag: *mut clump_flag,
    how: c_int,
    value: u64,
    seen: *mut u64,
) -> c_int {
    guard(|| {
        let how = comparison(how)?;
        write_if(seen, with(flag, |flag| Ok(flag.wait(how, value)?))?);
        Ok(0)
    })
}

/// Waits as ::clump_flag_wait does, for `limit_ns` nanoseconds at most: returns 1 if the flag
/// compares so, 0 if the time has passed.
///
/// Errors: as ::clump_flag_wait.
///
/// # Safety
/// `seen` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_flag_wait_within(
    flag: *mut clump_flag,
    how: c_int,
    value: u64,
    limit_ns: u64,
    seen: *mut u64,
) -> c_int {
    guard(|| {
        let how = comparison(how)?;
        let limit = Duration::from_nanos(limit_ns);
        let found = with(flag, |flag| Ok(flag.wait_within(how, value, limit)?))?;
        if let Some(found) = found {
            write_if(seen, found);
        }
        Ok(c_int::from(found.is_some()))
    })
}
