//! Calls of a program whose pointers depend on other arguments, or stay with the C library.

use crate::threads_files::{__wrap_fputs, __wrap_fread, __wrap_fwrite};
use crate::threads_heap::is_shared;
use crate::threads_kernel::{
    Argument, At, KernelCall, Memory, Of, Pointer, Text, refuse_shared, say_refused,
};
use clump_os::c_library as c;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance};

/// Commands of `fcntl` whose argument is a pointer: locks of files, owners, hints.
const WITH_POINTER: [usize; 12] = [5, 6, 7, 15, 16, 36, 37, 38, 1035, 1036, 1037, 1038];
/// Bytes of the largest of these objects.
const FCNTL_BYTES: usize = 32;
/// Bytes of objects of `ioctl` whose request does not say how many they are.
const IOCTL_BYTES: usize = 256;
/// Commands of `semctl` whose argument is a pointer.
const SEMCTL_WITH_POINTER: [c_int; 7] = [1, 2, 3, 13, 17, 18, 19];
/// Numbers of system calls that have memory of their own, or wait on it: `mmap`, `shmat`, `futex`.
const OF_MEMORY: [usize; 3] = [9, 30, 202];
/// Modes of buffers of streams.
const FULLY: c_int = 0;
const UNBUFFERED: c_int = 2;

/// Runs `fcntl` by a name that the C library has for it.
unsafe fn fcntl(plain: &KernelCall, pointer: &KernelCall, words: [usize; 3]) -> usize {
    let [file, command, argument] = words;
    let call = if WITH_POINTER.contains(&command) { pointer } else { plain };
    // SAFETY: the program upholds the contract of the C function.
    unsafe { call.run([file, command, argument, 0, 0, 0]) }
}

const FCNTL: &[Pointer] = &[Memory(2, Of(FCNTL_BYTES))];

/// Stands in for `fcntl`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fcntl(file: usize, command: c_int, argument: usize) -> usize {
    static PLAIN: KernelCall = KernelCall::new("fcntl", &[]);
    static POINTER: KernelCall = KernelCall::new("fcntl", FCNTL);
    // SAFETY: the program upholds the contract of the C function.
    unsafe { fcntl(&PLAIN, &POINTER, [file, command as usize, argument]) }
}

/// Stands in for `fcntl64`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fcntl64(file: usize, command: c_int, argument: usize) -> usize {
    static PLAIN: KernelCall = KernelCall::new("fcntl64", &[]);
    static POINTER: KernelCall = KernelCall::new("fcntl64", FCNTL);
    // SAFETY: the program upholds the contract of the C function.
    unsafe { fcntl(&PLAIN, &POINTER, [file, command as usize, argument]) }
}

/// Stands in for `ioctl`. Newer requests say how large their objects are.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ioctl(file: usize, request: usize, argument: usize) -> usize {
    static SMALL: KernelCall = KernelCall::new("ioctl", &[Memory(2, Of(IOCTL_BYTES))]);
    static SAID: KernelCall = KernelCall::new("ioctl", &[Memory(2, Argument(3))]);
    let bytes = request >> 16 & 0x3fff;
    let call = if bytes > IOCTL_BYTES { &SAID } else { &SMALL };
    // SAFETY: the program upholds the contract of the C function; the kernel does not look at the
    // fourth word.
    unsafe { call.run([file, request, argument, bytes, 0, 0]) }
}

/// Stands in for `semctl`, whose last argument is there only for some commands.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_semctl(
    id: usize,
    number: usize,
    command: c_int,
    argument: usize,
) -> usize {
    static CALL: KernelCall = KernelCall::new("semctl", &[]);
    let memory = with_exposed_provenance::<u8>(argument);
    if SEMCTL_WITH_POINTER.contains(&command) && is_shared(memory) {
        refuse_shared("semctl");
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { CALL.run([id, number, command as usize, argument, 0, 0]) }
}

type Syscall = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;

/// Stands in for `syscall`, which reports the call that failed for a pointer. Calls that have
/// memory of their own, or wait on a word of it, end the program.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_syscall(
    number: usize,
    a: usize,
    b: usize,
    third: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    let shared = |word: usize| is_shared(with_exposed_provenance::<u8>(word));
    if OF_MEMORY.contains(&number) && shared(a) {
        refuse_shared("syscall");
    }
    static CALL: KernelCall = KernelCall::new("syscall", &[]);
    // SAFETY: the C library's function.
    let call = unsafe { std::mem::transmute::<usize, Syscall>(CALL.address()) };
    // SAFETY: the program upholds the contract of the C function; the kernel does not look at words
    // beyond the call's.
    let result = unsafe { call(number, a, b, third, d, e, f) };
    let why = std::io::Error::last_os_error().raw_os_error();
    if result == -1 && why == Some(c::EFAULT) {
        let why = format!(
            "number {number} failed (EFAULT): the kernel gets no pointers to memory that ranks \
             share"
        );
        say_refused("syscall", &why);
        clump_os::error::set_errno(c::EFAULT);
    }
    result
}

/// Stands in for `sigaltstack`: a stack in shared memory is replaced by a private one.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sigaltstack(new: *const c::stack_t, old: *mut c::stack_t) -> usize {
    static CALL: KernelCall =
        KernelCall::new("sigaltstack", &[Memory(0, Of(24)), Memory(1, Of(24))]);
    let own;
    let mut words = [new.expose_provenance(), old.expose_provenance(), 0, 0, 0, 0];
    // SAFETY: a description of a stack, or null.
    if let Some(new) = unsafe { new.as_ref() }
        && is_shared(new.ss_sp)
    {
        // SAFETY: takes any number. The stack is never given back.
        own = c::stack_t { ss_sp: unsafe { c::malloc(new.ss_size) }, ..*new };
        words[0] = (&raw const own).expose_provenance();
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { CALL.run(words) }
}

/// Stands in for `putenv`, which keeps the text: children get it from the kernel.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_putenv(text: *mut c_char) -> usize {
    static CALL: KernelCall = KernelCall::new("putenv", &[]);
    let mut text = text;
    if is_shared(text) {
        // SAFETY: a text of the program.
        text = CString::from(unsafe { CStr::from_ptr(text) }).into_raw();
    }
    // SAFETY: the program upholds the contract of the C function.
    unsafe { CALL.run([text.expose_provenance(), 0, 0, 0, 0, 0]) }
}

/// Stands in for `setvbuf`: a buffer in shared memory is replaced by one of the C library.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setvbuf(
    stream: *mut c::FILE,
    buffer: *mut c_char,
    mode: c_int,
    bytes: usize,
) -> c_int {
    let buffer = if is_shared(buffer) { null_mut() } else { buffer };
    // SAFETY: the program upholds the contract of the C function.
    unsafe { c::setvbuf(stream, buffer, mode, bytes) }
}

/// Stands in for `setbuffer`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setbuffer(stream: *mut c::FILE, buffer: *mut c_char, bytes: usize) {
    let mode = if buffer.is_null() { UNBUFFERED } else { FULLY };
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_setvbuf(stream, buffer, mode, bytes) };
}

/// Stands in for `setbuf`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setbuf(stream: *mut c::FILE, buffer: *mut c_char) {
    // SAFETY: the program upholds the contract of the C function; the C library's buffers have so
    // many bytes.
    unsafe { __wrap_setbuffer(stream, buffer, 8192) };
}

/// Stands in for `puts`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_puts(text: *const c_char) -> usize {
    static CALL: KernelCall = KernelCall::new("puts", &[Text(0)]);
    // SAFETY: the program upholds the contract of the C function.
    unsafe { CALL.run([text.expose_provenance(), 0, 0, 0, 0, 0]) }
}

/// Stands in for `fputs_unlocked`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fputs_unlocked(text: *const c_char, stream: *mut c::FILE) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fputs(text, stream) }
}

/// Stands in for `fwrite_unlocked`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fwrite_unlocked(
    memory: *const c_void,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fwrite(memory, bytes, count, stream) }
}

/// Stands in for `fread_unlocked`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fread_unlocked(
    memory: *mut c_void,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fread(memory, bytes, count, stream) }
}

/// Stands in for the checked `fread`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___fread_chk(
    memory: *mut c_void,
    _room: usize,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fread(memory, bytes, count, stream) }
}

/// Stands in for the checked `fread_unlocked`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___fread_unlocked_chk(
    memory: *mut c_void,
    _room: usize,
    bytes: usize,
    count: usize,
    stream: *mut c::FILE,
) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fread(memory, bytes, count, stream) }
}

/// Stands in for the checked `recvfrom`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___recvfrom_chk(
    file: usize,
    memory: usize,
    bytes: usize,
    _room: usize,
    flags: usize,
    address: usize,
    length: usize,
) -> usize {
    static CALL: KernelCall =
        KernelCall::new("recvfrom", &[Memory(1, Argument(2)), Memory(4, At(5)), Memory(5, Of(4))]);
    // SAFETY: the program upholds the contract of the C function.
    unsafe { CALL.run([file, memory, bytes, flags, address, length]) }
}
