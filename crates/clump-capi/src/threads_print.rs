//! Printing functions of a program: the C library passes long texts to the kernel in place, so they
//! are printed from private memory; and the result of `asprintf` is shared like memory of `malloc`.

use crate::threads_kernel_calls::{__wrap_execv, __wrap_execve, __wrap_execvp};
use crate::threads_memory::__wrap_vasprintf;
use clump_os::c_library as c;
use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// Prints into private memory, and hands that to `write`.
///
/// # Safety
/// A format and arguments that fit.
unsafe fn print(
    format: *const c_char,
    arguments: *mut c_void,
    write: impl FnOnce(*const c_void, usize) -> bool,
) -> c_int {
    let mut text = null_mut();
    // SAFETY: the program upholds the contract of the C function, into memory of the C library.
    let characters = unsafe { c::vasprintf(&raw mut text, format, arguments) };
    let Ok(count) = usize::try_from(characters) else { return characters };
    let written = write(text.cast(), count);
    // SAFETY: an allocation of the C library.
    unsafe { c::free(text.cast()) };
    if written { characters } else { -1 }
}

/// Stands in for `vfprintf`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_vfprintf(
    stream: *mut c::FILE,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { print(format, arguments, |text, count| c::fwrite(text, 1, count, stream) == count) }
}

/// Stands in for `vprintf`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_vprintf(format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the program upholds the contract of the C function; a stream of the C library.
    unsafe { __wrap_vfprintf(c::stdout, format, arguments) }
}

/// Stands in for `vdprintf`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_vdprintf(
    file: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    let write = |text: *const c_void, count: usize| {
        let mut done = 0;
        while done < count {
            // SAFETY: so many bytes of the text.
            let moved = unsafe { c::write(file, text.byte_add(done), count - done) };
            match usize::try_from(moved) {
                Ok(moved) => done += moved,
                Err(_) => return false,
            }
        }
        true
    };
    // SAFETY: the program upholds the contract of the C function.
    unsafe { print(format, arguments, write) }
}

/// Defines functions for which checked headers call others, which have a flag more.
macro_rules! checked {
    ($($name:ident($($before:ident: $kind:ty),*) = $other:ident;)+) => { $(
        #[doc = concat!("Stands in for the checked function: `", stringify!($other), "`.")]
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $kind,)*
            _flag: c_int,
            format: *const c_char,
            arguments: *mut c_void,
        ) -> c_int {
            // SAFETY: the program upholds the contract of the C function.
            unsafe { $other($($before,)* format, arguments) }
        }
    )+ };
}

checked! {
    __wrap___vprintf_chk() = __wrap_vprintf;
    __wrap___vfprintf_chk(stream: *mut c::FILE) = __wrap_vfprintf;
    __wrap___vdprintf_chk(file: c_int) = __wrap_vdprintf;
    __wrap___vasprintf_chk(into: *mut *mut c_char) = __wrap_vasprintf;
}

/// Defines functions with any number of arguments, which pass them on as a `va_list`: 8 bytes of
/// offsets, behind the `$named` arguments in front and behind the vector registers' place; where
/// further arguments are, and where the registers are. The caller passes in `al` if it uses
/// vectors.
macro_rules! variadic {
    ($($name:ident, $named:literal, $list:literal, $other:ident;)+) => { $(
        #[doc = concat!("Calls `", stringify!($other), "` with its arguments as a list.")]
        ///
        /// # Safety
        /// As for that.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "sub rsp, 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], 8 * ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $list, ", rsp"),
                "call {other}",
                "add rsp, 216",
                "ret",
                other = sym $other,
            )
        }
    )+ };
}

/// List of further arguments of a call, `va_list` of the calling convention.
#[repr(C)]
#[derive(Debug)]
pub struct ArgumentList {
    /// Offset of the next argument among the registers, and that of the next vector.
    offset: u32,
    _vectors: u32,
    /// Next argument that is in no register.
    beyond: *const usize,
    registers: *const u8,
}

impl ArgumentList {
    /// Returns the next argument.
    ///
    /// # Safety
    /// There is one.
    unsafe fn next(&mut self) -> usize {
        // SAFETY: the caller's contract; six registers are saved, then the others follow.
        unsafe {
            if self.offset < 48 {
                self.offset += 8;
                return self.registers.add(self.offset as usize - 8).cast::<usize>().read();
            }
            self.beyond = self.beyond.add(1);
            self.beyond.sub(1).read()
        }
    }
}

/// Calls `run` with the texts of a list, and the null behind them.
///
/// # Safety
/// It is one.
unsafe fn with_texts(
    list: *mut ArgumentList,
    run: impl FnOnce(usize, &mut ArgumentList) -> usize,
) -> usize {
    // SAFETY: a list of the caller, which has a null at its end.
    let list = unsafe { &mut *list };
    let mut texts = Vec::new();
    while texts.last() != Some(&0) {
        // SAFETY: as above.
        texts.push(unsafe { list.next() });
    }
    run(texts.as_ptr().expose_provenance(), list)
}

/// Starts a program in place of this one, with the arguments of a list.
///
/// # Safety
/// As for `execl`.
unsafe extern "C" fn exec_list(path: usize, list: *mut ArgumentList) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_texts(list, |texts, _| __wrap_execv(path, texts, 0, 0, 0, 0)) }
}

/// Starts a program as [`exec_list`] does, looked for as by a shell.
///
/// # Safety
/// As for `execlp`.
unsafe extern "C" fn exec_list_found(path: usize, list: *mut ArgumentList) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_texts(list, |texts, _| __wrap_execvp(path, texts, 0, 0, 0, 0)) }
}

/// Starts a program as [`exec_list`] does, with the environment that is behind the list.
///
/// # Safety
/// As for `execle`.
unsafe extern "C" fn exec_list_with(path: usize, list: *mut ArgumentList) -> usize {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { with_texts(list, |texts, list| __wrap_execve(path, texts, list.next(), 0, 0, 0)) }
}

variadic! {
    __wrap_execl, 1, "rsi", exec_list;
    __wrap_execle, 1, "rsi", exec_list_with;
    __wrap_execlp, 1, "rsi", exec_list_found;
    __wrap_printf, 1, "rsi", __wrap_vprintf;
    __wrap_fprintf, 2, "rdx", __wrap_vfprintf;
    __wrap_dprintf, 2, "rdx", __wrap_vdprintf;
    __wrap_asprintf, 2, "rdx", __wrap_vasprintf;
    __wrap___printf_chk, 2, "rdx", __wrap___vprintf_chk;
    __wrap___fprintf_chk, 3, "rcx", __wrap___vfprintf_chk;
    __wrap___dprintf_chk, 3, "rcx", __wrap___vdprintf_chk;
    __wrap___asprintf_chk, 3, "rcx", __wrap___vasprintf_chk;
}
