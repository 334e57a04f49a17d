//! System calls on shared virtual memory.

use crate::svm::heap;
use clump::svm::{TransferCall, TransferPart};
use clump_ffi::border::guard_or;
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::error::{Errno, set_errno};
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

/// Makes a system call on `bytes` bytes of memory, called `what` in errors. Returns the bytes that
/// were moved, or -1 with the call's `errno`.
///
/// # Safety
/// The memory as for [`TransferCall::make`].
unsafe fn transfer(what: &str, fd: c_int, how: TransferCall, memory: TransferPart) -> i64 {
    let mut errno = 0;
    let moved = guard_or(-1, || {
        let mut call = |svm: &clump::svm::Svm| -> Result<i64> {
            if fd < 0 {
                errno = Errno::BADF.raw_os_error();
                return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, format!("{what}: no descriptor")));
            }
            // SAFETY: used for one call; one that is not open makes the call fail.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // SAFETY: the caller vouches for the memory.
            let moved = unsafe { svm.transfer_memory(fd, how, &[memory]) };
            moved.map(|bytes| bytes as i64).map_err(|error| {
                errno = error.raw_os_error().unwrap_or(Errno::FAULT.raw_os_error());
                Fault::new(S::CLUMP_ERR_SYSTEM, format!("{what}: {error}"))
            })
        };
        heap(what, |svm| call(svm))
    });
    if errno != 0 {
        set_errno(errno);
    }
    moved
}

fn part(memory: *const c_void, bytes: usize) -> TransferPart {
    TransferPart { first: memory.cast_mut().cast(), bytes }
}

/// Reads as `read` does, into memory of the heap or other memory. The call alone fails with EFAULT
/// on pages that are not here; this makes them ready before, and again when other threads have
/// taken some away. Memory of the heap that was not allocated is an error (EFAULT), whatever the
/// call would have moved.
///
/// Returns the bytes moved, which may be fewer, or -1: `errno` is that of `read`, and
/// ::clump_error_text has the reason.
///
/// # Safety
/// The caller may write the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_read(fd: c_int, memory: *mut c_void, bytes: usize) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_read", fd, TransferCall::Read, part(memory, bytes)) }
}

/// Writes as `write` does, from memory of the heap or other memory: as ::svm_read.
///
/// # Safety
/// The caller may read the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_write(fd: c_int, memory: *const c_void, bytes: usize) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_write", fd, TransferCall::Write, part(memory, bytes)) }
}

/// Reads as `pread` does, from byte `offset` of the file on: as ::svm_read.
///
/// # Safety
/// The caller may write the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_pread(
    fd: c_int,
    memory: *mut c_void,
    bytes: usize,
    offset: u64,
) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_pread", fd, TransferCall::ReadAt(offset), part(memory, bytes)) }
}

/// Writes as `pwrite` does, from byte `offset` of the file on: as ::svm_read.
///
/// # Safety
/// The caller may read the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_pwrite(
    fd: c_int,
    memory: *const c_void,
    bytes: usize,
    offset: u64,
) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_pwrite", fd, TransferCall::WriteAt(offset), part(memory, bytes)) }
}

/// Receives as `recv` does: as ::svm_read.
///
/// # Safety
/// The caller may write the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_recv(
    fd: c_int,
    memory: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_recv", fd, TransferCall::Receive(flags), part(memory, bytes)) }
}

/// Sends as `send` does: as ::svm_read. A closed peer is an error, never a signal.
///
/// # Safety
/// The caller may read the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_send(
    fd: c_int,
    memory: *const c_void,
    bytes: usize,
    flags: c_int,
) -> i64 {
    // SAFETY: as above.
    unsafe { transfer("svm_send", fd, TransferCall::Send(flags), part(memory, bytes)) }
}
