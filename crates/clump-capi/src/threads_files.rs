//! Calls of a program by which the kernel reads or writes memory that threads share. It gets a
//! private copy: pages of the heap may be elsewhere, and another thread may have them taken away in
//! the midst of a call, which would then move fewer bytes than on threads.

use crate::threads_heap::{are_mallocs_shared, is_shared};
use crate::threads_memory::{__wrap_free, __wrap_malloc};
use clump_os::c_library as c;
use clump_os::error::set_errno;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

/// Runs a call that reads memory of the program, with a copy.
///
/// # Safety
/// So many bytes are there.
unsafe fn from_copy(
    memory: *const c_void,
    bytes: usize,
    call: impl FnOnce(*const c_void) -> isize,
) -> isize {
    if !is_shared(memory) {
        return call(memory);
    }
    let Some(mut own) = private(bytes) else { return -1 };
    // SAFETY: the caller's bytes, and as many of a fresh allocation.
    unsafe { memory.cast::<u8>().copy_to_nonoverlapping(own.as_mut_ptr(), bytes) };
    call(own.as_ptr().cast())
}

/// Runs a call that writes memory of the program and returns the bytes written, with a copy.
///
/// # Safety
/// There is room for so many bytes.
unsafe fn into_copy(
    memory: *mut c_void,
    bytes: usize,
    call: impl FnOnce(*mut c_void) -> isize,
) -> isize {
    if !is_shared(memory) {
        return call(memory);
    }
    let Some(mut own) = private(bytes) else { return -1 };
    let moved = call(own.as_mut_ptr().cast());
    let count = usize::try_from(moved).unwrap_or(0).min(bytes);
    // SAFETY: the caller's room, and as many bytes of the allocation.
    unsafe { own.as_ptr().copy_to_nonoverlapping(memory.cast(), count) };
    moved
}

/// Returns private memory; `None`, and ENOMEM, where there is none.
fn private(bytes: usize) -> Option<Vec<u8>> {
    let mut own = Vec::new();
    if own.try_reserve_exact(bytes).is_err() {
        set_errno(c::ENOMEM);
        return None;
    }
    own.resize(bytes, 0);
    Some(own)
}

/// Runs a call that takes a text, with a copy.
///
/// # Safety
/// It is a text.
unsafe fn with_text<R>(text: *const c_char, call: impl FnOnce(*const c_char) -> R) -> R {
    if !is_shared(text) {
        return call(text);
    }
    // SAFETY: a text of the program.
    let own = CString::from(unsafe { CStr::from_ptr(text) });
    call(own.as_ptr())
}

/// Stands in for `read`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_read(fd: c_int, memory: *mut c_void, bytes: usize) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { into_copy(memory, bytes, |own| c::read(fd, own, bytes)) }
}

/// Stands in for `write`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_write(fd: c_int, memory: *const c_void, bytes: usize) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { from_copy(memory, bytes, |own| c::write(fd, own, bytes)) }
}

/// Stands in for `pread`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pread(
    fd: c_int,
    memory: *mut c_void,
    bytes: usize,
    offset: i64,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { into_copy(memory, bytes, |own| c::pread(fd, own, bytes, offset)) }
}

/// Stands in for `pwrite`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pwrite(
    fd: c_int,
    memory: *const c_void,
    bytes: usize,
    offset: i64,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { from_copy(memory, bytes, |own| c::pwrite(fd, own, bytes, offset)) }
}

/// Stands in for `recv`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_recv(
    fd: c_int,
    memory: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { into_copy(memory, bytes, |own| c::recv(fd, own, bytes, flags)) }
}

/// Stands in for `send`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_send(
    fd: c_int,
    memory: *const c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { from_copy(memory, bytes, |own| c::send(fd, own, bytes, flags)) }
}

/// Stands in for `fread`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fread(
    memory: *mut c_void,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe {
        let mut items = 0;
        into_copy(memory, bytes.saturating_mul(count), |own| {
            // A part of an item may have been read behind the last whole one.
            items = c::fread(own, bytes, count, stream);
            (items * bytes) as isize
        });
        items
    }
}

/// Stands in for `fwrite`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fwrite(
    memory: *const c_void,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe {
        let mut items = 0;
        from_copy(memory, bytes.saturating_mul(count), |own| {
            items = c::fwrite(own, bytes, count, stream);
            0
        });
        items
    }
}

/// Stands in for `fputs`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fputs(text: *const c_char, stream: *mut c::FILE) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_text(text, |own| c::fputs(own, stream)) }
}

/// Stands in for `fopen`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fopen(path: *const c_char, mode: *const c_char) -> *mut c::FILE {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_text(path, |own| c::fopen(own, mode)) }
}

/// Stands in for `open`. Its last argument is there only for some flags.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_open(path: *const c_char, flags: c_int, mode: c::mode_t) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_text(path, |own| c::open(own, flags, mode)) }
}

/// Stands in for `getline`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_getline(
    line: *mut *mut c_char,
    room: *mut usize,
    stream: *mut c::FILE,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_getdelim(line, room, c_int::from(b'\n'), stream) }
}

/// Stands in for the function by which the C library's headers replace `getline`.
///
/// # Safety
/// As for `getdelim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___getdelim(
    line: *mut *mut c_char,
    room: *mut usize,
    last: c_int,
    stream: *mut c::FILE,
) -> isize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_getdelim(line, room, last, stream) }
}

/// Stands in for `getdelim`: the line is an allocation of the program.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_getdelim(
    line: *mut *mut c_char,
    room: *mut usize,
    last: c_int,
    stream: *mut c::FILE,
) -> isize {
    if !are_mallocs_shared() {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::getdelim(line, room, last, stream) };
    }
    let (mut own, mut own_room) = (null_mut(), 0);
    // SAFETY: the program upholds the contract of the C function, into memory of the C library.
    let read = unsafe { c::getdelim(&raw mut own, &raw mut own_room, last, stream) };
    if let Ok(characters) = usize::try_from(read) {
        // SAFETY: places of the program, and so many characters and a zero.
        unsafe {
            if (*line).is_null() || *room <= characters {
                __wrap_free((*line).cast());
                *line = __wrap_malloc(characters + 1).cast();
                *room = characters + 1;
            }
            if !(*line).is_null() {
                own.copy_to_nonoverlapping(*line, characters + 1);
            }
        }
    }
    // SAFETY: an allocation of the C library, or null.
    unsafe { c::free(own.cast()) };
    read
}
