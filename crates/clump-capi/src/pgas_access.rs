//! Reads and writes of bytes through global pointers.

use crate::pgas::{PgasHandle, WaitingGet, clump_gptr, clump_pgas, space};
use clump::pgas::{BlockStride, Element, GlobalPtr, Pgas};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result};
use std::ffi::{c_int, c_void};

/// Gets that wait at one time, at most: then they are made.
const MAX_WAITING: usize = 1 << 15;

/// Way of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteWay {
    /// Waited for.
    Blocking,
    /// Collected where that is possible.
    Put,
    /// Collected, and counted where it lands.
    Store,
    /// Sent at once.
    Now,
}

/// Writes an element of a size that is known.
fn write_element<T: Element>(pgas: &Pgas, to: GlobalPtr<u8>, from: T, way: WriteWay) -> Result<()> {
    let at = pgas.at(to.cast::<T>())?;
    Ok(match way {
        WriteWay::Blocking => at.write(from),
        WriteWay::Put => at.put(from),
        WriteWay::Store => at.store(from),
        WriteWay::Now => at.now().put(from),
    }?)
}

fn write(pgas: &Pgas, to: clump_gptr, from: &[u8], way: WriteWay) -> Result<()> {
    let pointer = to.pointer::<u8>();
    let aligned = to.offset.is_multiple_of(from.len().max(1) as u64);
    match from.len() {
        8 if aligned => {
            let word = <[u8; 8]>::try_from(from).unwrap_or_default();
            write_element(pgas, pointer, u64::from_ne_bytes(word), way)
        }
        4 if aligned => {
            let half = <[u8; 4]>::try_from(from).unwrap_or_default();
            write_element(pgas, pointer, u32::from_ne_bytes(half), way)
        }
        _ if way == WriteWay::Store => Ok(pgas.bulk_store(pointer, from)?),
        _ => {
            pgas.bulk_put(pointer, from)?;
            if way == WriteWay::Blocking { Ok(pgas.sync()?) } else { Ok(()) }
        }
    }
}

/// Begins a write from memory of the program.
///
/// # Safety
/// `from` has `bytes` bytes.
unsafe fn begin(
    gas: *mut clump_pgas,
    to: clump_gptr,
    (from, bytes): (*const c_void, usize),
    way: WriteWay,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        space(gas, |space| write(&space.pgas, to, from, way).map(|()| 0))
    })
}

/// Begins to write `bytes` bytes; `from` may be reused when this returns. Aligned words of 8 and 4
/// bytes for other nodes are collected, and sent many at a time. ::clump_pgas_sync waits for it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory), ::CLUMP_ERR_NODE_LOST; on this
/// node ::CLUMP_ERR_SEGMENT; on another, ::clump_pgas_sync reports that.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_put(
    gas: *mut clump_pgas,
    to: clump_gptr,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { begin(gas, to, (from, bytes), WriteWay::Put) }
}

/// Begins to write as ::clump_pgas_put does, and sends it at once.
///
/// Errors: as ::clump_pgas_put.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_put_now(
    gas: *mut clump_pgas,
    to: clump_gptr,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { begin(gas, to, (from, bytes), WriteWay::Now) }
}

/// Begins to write as ::clump_pgas_put does, and counts the bytes at the rank that they go to
/// (::clump_pgas_store_sync).
///
/// Errors: as ::clump_pgas_put.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_store(
    gas: *mut clump_pgas,
    to: clump_gptr,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { begin(gas, to, (from, bytes), WriteWay::Store) }
}

/// Writes `bytes` bytes, and waits until they are there.
///
/// Errors: as ::clump_pgas_put and ::clump_pgas_sync.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_write(
    gas: *mut clump_pgas,
    to: clump_gptr,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { begin(gas, to, (from, bytes), WriteWay::Blocking) }
}

/// Reads `bytes` bytes; they are there when this returns.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory), ::CLUMP_ERR_SEGMENT,
/// ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED. Then `to` may hold anything.
///
/// # Safety
/// `to` has space for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_read(
    gas: *mut clump_pgas,
    to: *mut c_void,
    from: clump_gptr,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, bytes) }?;
        space(gas, |space| {
            if bytes == 8 && from.offset.is_multiple_of(8) {
                // A whole word is never torn.
                let word = space.pgas.at(from.pointer::<u64>())?.read()?;
                to.copy_from_slice(&word.to_ne_bytes());
                return Ok(0);
            }
            space.pgas.bulk_get(from.pointer::<u8>(), to)?;
            Ok(0)
        })
    })
}

/// Begins to read `bytes` bytes to `to`, which must not be used or freed until ::clump_pgas_sync,
/// ::clump_pgas_quiet or ::clump_pgas_all_store_sync has returned, or ::clump_pgas_close. Two gets
/// in flight must not overlap. Words of 8 bytes of other nodes are requested many at a time.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory, null); others are reported by
/// ::clump_pgas_sync.
///
/// # Safety
/// `to` has space for `bytes` bytes, for so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_get(
    gas: *mut clump_pgas,
    to: *mut c_void,
    from: clump_gptr,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's; checked here, used later.
        unsafe { crate::send::room(to, bytes) }?;
        space(gas, |space| {
            let from = from.pointer::<u8>();
            from.check(bytes)?;
            let waiting = {
                let mut gets = space.gets.try_borrow_mut().map_err(|_| reading())?;
                gets.push(WaitingGet { from, to, bytes });
                gets.len()
            };
            if waiting >= MAX_WAITING {
                read_waiting(space)?;
            }
            Ok(0)
        })
    })
}

#[cold]
fn reading() -> Fault {
    let what = "a handler begins to read while what was begun before is being read";
    Fault::new(clump_ffi::status::clump_status::CLUMP_ERR_BUSY, what)
}

/// Makes the gets that wait.
pub(crate) fn read_waiting(space: &PgasHandle) -> Result<()> {
    let gets = space.gets.take();
    if gets.is_empty() {
        return Ok(());
    }
    space.pgas.phase(|phase| {
        for WaitingGet { from, to, bytes } in gets {
            // SAFETY: invariant 2: the program has given this memory up until this has returned.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
            if bytes == 8 && from.offset().is_multiple_of(8) {
                if let Ok(word) = <&mut [u8; 8]>::try_from(to) {
                    phase.get(space.pgas.at(from.cast::<[u8; 8]>())?, word)?;
                }
            } else {
                phase.bulk_get(from, to)?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Begins to write whole blocks of `block` bytes, one behind the other in `from`, to blocks that
/// are `stride` bytes apart. ::clump_pgas_sync waits for it.
///
/// Errors: as ::clump_pgas_put; ::CLUMP_ERR_ARGUMENT (no whole number of blocks).
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_put_strided(
    gas: *mut clump_pgas,
    to: clump_gptr,
    block: usize,
    stride: usize,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        space(gas, |space| {
            let blocks = BlockStride { block, step: stride };
            space.pgas.strided_put(to.pointer::<u8>(), blocks, from)?;
            Ok(0)
        })
    })
}

/// Reads whole blocks of `block` bytes that are `stride` bytes apart, to `to`, one behind the
/// other.
///
/// Errors: as ::clump_pgas_read; ::CLUMP_ERR_ARGUMENT (no whole number of blocks).
///
/// # Safety
/// `to` has space for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_get_strided(
    gas: *mut clump_pgas,
    to: *mut c_void,
    from: clump_gptr,
    block: usize,
    stride: usize,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, bytes) }?;
        space(gas, |space| {
            let blocks = BlockStride { block, step: stride };
            space.pgas.strided_get(from.pointer::<u8>(), blocks, to)?;
            Ok(0)
        })
    })
}
