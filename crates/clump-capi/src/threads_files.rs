//! Calls of a program by which the kernel reads or writes memory that threads share: pages of it
//! that are not here are fetched before.

use crate::svm::heap;
use crate::svm_transfer::{svm_pread, svm_pwrite, svm_read, svm_recv, svm_send, svm_write};
use crate::threads_heap::{are_mallocs_shared, is_shared};
use crate::threads_memory::{__wrap_free, __wrap_malloc};
use clump_os::c_library as c;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// Makes memory ready for a call that reads it, or writes it.
fn touch(memory: *const c_void, bytes: usize, stores: bool) {
    let Some(first) = NonNull::new(memory.cast_mut().cast()) else { return };
    // What fails here fails in the call.
    let _ = heap("a call of the system", |svm| {
        svm.touch(first, bytes, stores);
        Ok(())
    });
}

/// Makes a text ready.
fn touch_text(text: *const c_char) {
    if is_shared(text) {
        // SAFETY: a text of the program; reading it has its pages fetched.
        let _ = unsafe { c::strlen(text) };
    }
}

/// Stands in for `read`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_read(fd: c_int, memory: *mut c_void, bytes: usize) -> isize {
    if !is_shared(memory) {
        // SAFETY: as the program has asked for.
        return unsafe { c::read(fd, memory, bytes) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_read(fd, memory, bytes) as isize }
}

/// Stands in for `write`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_write(fd: c_int, memory: *const c_void, bytes: usize) -> isize {
    if !is_shared(memory) {
        // SAFETY: as the program has asked for.
        return unsafe { c::write(fd, memory, bytes) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_write(fd, memory, bytes) as isize }
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
    if !is_shared(memory) || offset < 0 {
        // SAFETY: as the program has asked for.
        return unsafe { c::pread(fd, memory, bytes, offset) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_pread(fd, memory, bytes, offset as u64) as isize }
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
    if !is_shared(memory) || offset < 0 {
        // SAFETY: as the program has asked for.
        return unsafe { c::pwrite(fd, memory, bytes, offset) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_pwrite(fd, memory, bytes, offset as u64) as isize }
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
    if !is_shared(memory) {
        // SAFETY: as the program has asked for.
        return unsafe { c::recv(fd, memory, bytes, flags) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_recv(fd, memory, bytes, flags) as isize }
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
    if !is_shared(memory) {
        // SAFETY: as the program has asked for.
        return unsafe { c::send(fd, memory, bytes, flags) };
    }
    // SAFETY: as the program has asked for.
    unsafe { svm_send(fd, memory, bytes, flags) as isize }
}

/// Stands in for `fread`, which passes long reads on to the kernel.
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
    touch(memory, bytes.saturating_mul(count), true);
    // SAFETY: as the program has asked for.
    unsafe { c::fread(memory, bytes, count, stream) }
}

/// Stands in for `fwrite`, which passes long writes on to the kernel.
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
    touch(memory, bytes.saturating_mul(count), false);
    // SAFETY: as the program has asked for.
    unsafe { c::fwrite(memory, bytes, count, stream) }
}

/// Stands in for `fputs`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fputs(text: *const c_char, stream: *mut c::FILE) -> c_int {
    touch_text(text);
    // SAFETY: as the program has asked for.
    unsafe { c::fputs(text, stream) }
}

/// Stands in for `fopen`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fopen(path: *const c_char, mode: *const c_char) -> *mut c::FILE {
    touch_text(path);
    // SAFETY: as the program has asked for.
    unsafe { c::fopen(path, mode) }
}

/// Stands in for `open`. Its last argument is there only for some flags.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_open(path: *const c_char, flags: c_int, mode: c::mode_t) -> c_int {
    touch_text(path);
    // SAFETY: as the program has asked for.
    unsafe { c::open(path, flags, mode) }
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
    // SAFETY: as the program has asked for.
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
    // SAFETY: as the program has asked for.
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
        // SAFETY: as the program has asked for.
        return unsafe { c::getdelim(line, room, last, stream) };
    }
    let (mut own, mut own_room) = (null_mut(), 0);
    // SAFETY: as the program has asked for, into memory of the C library.
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
