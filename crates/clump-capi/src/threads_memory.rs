//! Allocations of a program whose threads share them between ranks. Memory that libraries have
//! allocated stays theirs, and is returned to them.

use crate::svm::heap;
use crate::svm_sync::fault;
use crate::threads_heap::{are_mallocs_shared, is_shared, with_heap};
use clump::svm::Home;
use clump_os::c_library as c;
use clump_os::error::set_errno;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Allocates in the shared heap, zeroed; null, and ENOMEM, where there is no room.
pub(crate) fn allocate(bytes: usize) -> *mut c_void {
    allocate_aligned(1, bytes)
}

/// Allocates at a multiple of `alignment`, a power of two.
fn allocate_aligned(alignment: usize, bytes: usize) -> *mut c_void {
    let taken = heap("malloc", |svm| {
        svm.alloc_aligned(bytes as u64, alignment as u64, Home::Block).map_err(fault)
    });
    match taken {
        Ok(place) => place.as_ptr().cast(),
        Err(why) => {
            why.keep();
            set_errno(c::ENOMEM);
            null_mut()
        }
    }
}

/// Returns the bytes that an allocation in the shared heap has room for.
fn room_of(memory: *mut c_void) -> usize {
    let Some(memory) = NonNull::new(memory.cast()) else { return 0 };
    with_heap("realloc", |svm| svm.allocated_bytes(memory).map_err(fault))
}

/// Stands in for `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_malloc(bytes: usize) -> *mut c_void {
    if are_mallocs_shared() {
        return allocate(bytes);
    }
    // SAFETY: takes any number.
    unsafe { c::malloc(bytes) }
}

/// Stands in for `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_calloc(count: usize, bytes: usize) -> *mut c_void {
    if are_mallocs_shared() {
        return allocate(count.saturating_mul(bytes));
    }
    // SAFETY: takes any numbers.
    unsafe { c::calloc(count, bytes) }
}

/// Stands in for `realloc`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    if memory.is_null() {
        return __wrap_malloc(bytes);
    }
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::realloc(memory, bytes) };
    }
    let room = room_of(memory);
    if bytes <= room && bytes >= room / 4 {
        return memory;
    }
    let other = allocate(bytes);
    if !other.is_null() {
        // SAFETY: both are allocations with so much room, and different ones.
        unsafe { memory.copy_to_nonoverlapping(other, room.min(bytes)) };
        // SAFETY: the program upholds the contract of the C function.
        unsafe { __wrap_free(memory) };
    }
    other
}

/// Stands in for `reallocarray`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_reallocarray(
    memory: *mut c_void,
    count: usize,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: the program upholds the contract of the C function; no allocation has as many bytes
    // as there are numbers.
    unsafe { __wrap_realloc(memory, count.saturating_mul(bytes)) }
}

/// Stands in for `free`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_free(memory: *mut c_void) {
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::free(memory) };
    }
    let Some(memory) = NonNull::new(memory.cast()) else { return };
    with_heap("free", |svm| svm.free(memory).map_err(fault));
}

/// Stands in for `malloc_usable_size`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_malloc_usable_size(memory: *mut c_void) -> usize {
    if is_shared(memory) {
        return room_of(memory);
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { c::malloc_usable_size(memory) }
}

/// Stands in for `posix_memalign`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_posix_memalign(
    into: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !are_mallocs_shared() {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::posix_memalign(into, alignment, bytes) };
    }
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return c::EINVAL;
    }
    let memory = allocate_aligned(alignment, bytes);
    if memory.is_null() {
        return c::ENOMEM;
    }
    // SAFETY: a place that the program has given.
    unsafe { into.write(memory) };
    0
}

/// Stands in for `aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if are_mallocs_shared() {
        return allocate_at_power(alignment, bytes);
    }
    // SAFETY: takes any numbers.
    unsafe { c::aligned_alloc(alignment, bytes) }
}

/// Stands in for `memalign`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    if are_mallocs_shared() {
        return allocate_at_power(alignment, bytes);
    }
    // SAFETY: takes any numbers.
    unsafe { c::memalign(alignment, bytes) }
}

/// Allocates at a multiple of the next power of two, as the C library does; EINVAL where there is
/// none.
fn allocate_at_power(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(alignment) = alignment.checked_next_power_of_two() else {
        set_errno(c::EINVAL);
        return null_mut();
    };
    allocate_aligned(alignment, bytes)
}

/// Stands in for `valloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_valloc(bytes: usize) -> *mut c_void {
    __wrap_memalign(PAGE, bytes)
}

/// Stands in for `pvalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pvalloc(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(PAGE) {
        Some(bytes) => __wrap_memalign(PAGE, bytes),
        None => {
            set_errno(c::ENOMEM);
            null_mut()
        }
    }
}

/// Copies a text into an allocation of the program.
///
/// # Safety
/// So many characters are there.
pub(crate) unsafe fn copied(text: *const c_char, characters: usize) -> *mut c_char {
    let copy: *mut c_char = __wrap_malloc(characters + 1).cast();
    if !copy.is_null() {
        // SAFETY: there is room for them and a zero.
        unsafe {
            text.copy_to_nonoverlapping(copy, characters);
            copy.add(characters).write(0);
        }
    }
    copy
}

/// Stands in for `strdup`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { copied(text, c::strlen(text)) }
}

/// Stands in for `strndup`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_strndup(text: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { copied(text, c::strnlen(text, most)) }
}

/// Stands in for the function by which older headers replace `strdup`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_strdup(text) }
}

/// Stands in for the function by which older headers replace `strndup`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___strndup(text: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_strndup(text, most) }
}

/// Stands in for `wcsdup`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_wcsdup(text: *const c::wchar_t) -> *mut c::wchar_t {
    // SAFETY: the program upholds the contract of the C function.
    let characters = unsafe { c::wcslen(text) } + 1;
    let copy: *mut c::wchar_t = __wrap_malloc(characters * size_of::<c::wchar_t>()).cast();
    if !copy.is_null() {
        // SAFETY: there is room for them and a zero.
        unsafe { text.copy_to_nonoverlapping(copy, characters) };
    }
    copy
}

/// Stands in for `vasprintf`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_vasprintf(
    into: *mut *mut c_char,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    let mut text = null_mut();
    // SAFETY: the program upholds the contract of the C function, into memory of the C library.
    let characters = unsafe { c::vasprintf(&raw mut text, format, arguments) };
    let Ok(count) = usize::try_from(characters) else { return characters };
    // SAFETY: so many characters have been written to an allocation of the C library.
    unsafe {
        let copy = copied(text, count);
        c::free(text.cast());
        into.write(copy);
        if copy.is_null() { -1 } else { characters }
    }
}
