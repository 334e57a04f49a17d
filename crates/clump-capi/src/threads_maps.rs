//! Mappings of a program whose threads share memory between ranks: they are allocations of the
//! shared heap, into which files are read. Calls that would need one memory of several machines and
//! the file are refused, by name.

use crate::svm::heap;
use crate::svm_sync::fault;
use crate::threads_heap::{are_mallocs_shared, is_shared};
use crate::threads_kernel::say_refused;
use crate::threads_memory::{__wrap_free, __wrap_realloc, allocate};
use clump_os::c_library as c;
use clump_os::error::set_errno;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes that are read from a file at once.
const CHUNK: usize = 1 << 20;
/// Advice that discards memory and the file's contents there: both read as zeroes afterwards.
const ADVICE_REMOVE: c_int = 9;

/// Refuses a call: a line, and ENOTSUP.
#[cold]
fn refuse(name: &str, why: &str) {
    say_refused(name, why);
    set_errno(c::ENOTSUP);
}

/// Reads a file into fresh memory of the heap; returns false, and sets errno, where it cannot.
///
/// # Safety
/// There is room for so many bytes.
unsafe fn read_file(memory: *mut u8, bytes: usize, file: c_int, offset: i64) -> bool {
    let mut chunk = vec![0_u8; CHUNK.min(bytes)];
    let mut done = 0;
    while done < bytes {
        let most = chunk.len().min(bytes - done);
        // SAFETY: so many bytes of the chunk.
        let read = unsafe { c::pread(file, chunk.as_mut_ptr().cast(), most, offset + done as i64) };
        match usize::try_from(read) {
            // Behind the end of the file zeroes are.
            Ok(0) => break,
            Ok(count) => {
                // SAFETY: so many bytes, of which the caller's room has as many left.
                unsafe { chunk.as_ptr().copy_to_nonoverlapping(memory.add(done), count) };
                done += count;
            }
            Err(_) => match std::io::Error::last_os_error().raw_os_error() {
                Some(c::EINTR) => {}
                why => {
                    set_errno(why.unwrap_or(c::EINVAL));
                    return false;
                }
            },
        }
    }
    true
}

/// Stands in for `mmap`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mmap(
    place: *mut c_void,
    bytes: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // Stacks are never shared.
    let is_stack = flags & (c::MAP_STACK | c::MAP_GROWSDOWN) != 0;
    if !are_mallocs_shared() || is_stack {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::mmap(place, bytes, rights, flags, file, offset) };
    }
    let anonymous = flags & c::MAP_ANONYMOUS != 0;
    let to_file = !anonymous && flags & c::MAP_TYPE != c::MAP_PRIVATE;
    let refused = if rights & c::PROT_EXEC != 0 {
        Some("memory with code is not shared between ranks")
    } else if flags & (c::MAP_FIXED | c::MAP_FIXED_NOREPLACE) != 0 {
        Some("memory that ranks share has no place of the program's choice (MAP_FIXED)")
    } else if to_file && rights & c::PROT_WRITE != 0 {
        Some(
            "stores of several ranks into a mapping do not reach its file (MAP_SHARED and \
             PROT_WRITE): use MAP_PRIVATE, malloc, or pwrite",
        )
    } else {
        None
    };
    if let Some(why) = refused {
        refuse("mmap", why);
        return c::MAP_FAILED;
    }
    if bytes == 0 || offset < 0 || !(offset as usize).is_multiple_of(PAGE) {
        set_errno(c::EINVAL);
        return c::MAP_FAILED;
    }
    let memory = allocate(bytes.next_multiple_of(PAGE));
    if memory.is_null() {
        return c::MAP_FAILED;
    }
    // SAFETY: an allocation of so many bytes.
    if !anonymous && !unsafe { read_file(memory.cast(), bytes, file, offset) } {
        let why = std::io::Error::last_os_error().raw_os_error().unwrap_or(c::EINVAL);
        // SAFETY: the allocation, to which no other pointer exists.
        unsafe { __wrap_free(memory) };
        set_errno(why);
        return c::MAP_FAILED;
    }
    memory
}

/// Stands in for `mmap64`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mmap64(
    place: *mut c_void,
    bytes: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_mmap(place, bytes, rights, flags, file, offset) }
}

/// Returns the bytes of the mapping that begins at an address.
fn mapped(memory: *mut c_void) -> Option<usize> {
    let memory = NonNull::new(memory.cast())?;
    heap("munmap", |svm| svm.allocated_bytes(memory).map_err(fault)).ok()
}

/// Stands in for `munmap`. Parts of mappings stay allocated.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_munmap(memory: *mut c_void, bytes: usize) -> c_int {
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::munmap(memory, bytes) };
    }
    if bytes == 0 || !memory.addr().is_multiple_of(PAGE) {
        set_errno(c::EINVAL);
        return -1;
    }
    if mapped(memory).is_some_and(|all| bytes.next_multiple_of(PAGE) >= all) {
        // SAFETY: the program upholds the contract of the C function.
        unsafe { __wrap_free(memory) };
    }
    0
}

/// Stands in for `mremap`, whose last argument is there only for some flags.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mremap(
    memory: *mut c_void,
    bytes: usize,
    other: usize,
    flags: c_int,
    place: *mut c_void,
) -> *mut c_void {
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::mremap(memory, bytes, other, flags, place) };
    }
    if flags & !c::MREMAP_MAYMOVE != 0 {
        refuse("mremap", "memory that ranks share has no place of the program's choice");
        return c::MAP_FAILED;
    }
    let Some(all) = mapped(memory).filter(|_| bytes > 0 && other > 0) else {
        set_errno(c::EINVAL);
        return c::MAP_FAILED;
    };
    if other <= all {
        return memory;
    }
    if flags & c::MREMAP_MAYMOVE == 0 {
        set_errno(c::ENOMEM);
        return c::MAP_FAILED;
    }
    // SAFETY: the program upholds the contract of the C function.
    let moved = unsafe { __wrap_realloc(memory, other.next_multiple_of(PAGE)) };
    if moved.is_null() { c::MAP_FAILED } else { moved }
}

/// Stands in for `mprotect`: memory that ranks share can be read and written.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mprotect(
    memory: *mut c_void,
    bytes: usize,
    rights: c_int,
) -> c_int {
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::mprotect(memory, bytes, rights) };
    }
    if rights == c::PROT_READ | c::PROT_WRITE {
        return 0;
    }
    refuse("mprotect", "memory that ranks share can be read and written, and has no other rights");
    -1
}

/// Stands in for `madvise`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_madvise(memory: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if !is_shared(memory) {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::madvise(memory, bytes, advice) };
    }
    if advice == c::MADV_DONTNEED || advice == ADVICE_REMOVE {
        refuse("madvise", "memory that ranks share keeps its contents");
        return -1;
    }
    0
}

/// Stands in for `posix_madvise`, which changes nothing that a program can see.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_posix_madvise(_memory: *mut c_void, _bytes: usize, _how: c_int) -> c_int {
    0
}

/// Stands in for `msync`: mappings whose stores reach files are not shared.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_msync(memory: *mut c_void, bytes: usize, flags: c_int) -> c_int {
    if is_shared(memory) {
        return 0;
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { c::msync(memory, bytes, flags) }
}

/// Stands in for `mlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mlock(memory: *const c_void, bytes: usize) -> c_int {
    if is_shared(memory) {
        refuse("mlock", "memory that ranks share moves between machines");
        return -1;
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { c::mlock(memory, bytes) }
}

/// Stands in for `munlock`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_munlock(memory: *const c_void, bytes: usize) -> c_int {
    if is_shared(memory) {
        return 0;
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { c::munlock(memory, bytes) }
}

/// Stands in for `sbrk`, by which a program may read the break, and not allocate.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sbrk(more: isize) -> *mut c_void {
    if more == 0 || !are_mallocs_shared() {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::sbrk(more) };
    }
    say_refused("sbrk", "its memory would not be shared between ranks: use malloc or mmap");
    set_errno(c::ENOMEM);
    c::MAP_FAILED
}

/// Stands in for `brk`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_brk(end: *mut c_void) -> c_int {
    if !are_mallocs_shared() {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::brk(end) };
    }
    say_refused("brk", "its memory would not be shared between ranks: use malloc or mmap");
    set_errno(c::ENOMEM);
    -1
}

/// Stands in for `shmat`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_shmat(
    id: c_int,
    place: *const c_void,
    flags: c_int,
) -> *mut c_void {
    if !are_mallocs_shared() {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::shmat(id, place, flags) };
    }
    refuse("shmat", "its memory would not be shared between ranks: use malloc or mmap");
    c::MAP_FAILED
}

/// Stands in for `sem_open`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_sem_open() -> *mut c_void {
    refuse("sem_open", "semaphores with names are not shared between ranks: use sem_init");
    null_mut()
}
