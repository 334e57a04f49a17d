//! Identity of the current thread, in one instruction; and threads whose start may be refused.
//!
//! Threads that are started here are clump's own: they block all signals but those of their own
//! faults, so that a handler of the program runs on threads of the program alone. A handler may
//! leave by `siglongjmp`, or depend on its thread.

use crate::error::{OsError, Result};
use crate::refusal;
use crate::signal::AllBlocked;
use rustix::io::Errno;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread; `std::thread::spawn` panics where it is refused.
///
/// # Errors
/// A limit is in the way; the error names it and the remedy.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    start(Builder::new(), name, work)
}

/// Starts a thread with so many bytes of stack.
///
/// # Errors
/// A limit is in the way; the error names it and the remedy.
pub fn spawn_with_stack<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    start(Builder::new().stack_size(stack_bytes), name, work)
}

fn start<T: Send + 'static>(
    builder: Builder,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let _blocked = AllBlocked::new();
    builder.name(name.into()).spawn(work).map_err(|e| refused(name, &e))
}

/// Starts a thread of `scope`.
///
/// # Errors
/// A limit is in the way; the error names it and the remedy.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let _blocked = AllBlocked::new();
    Builder::new().name(name.into()).spawn_scoped(scope, work).map_err(|e| refused(name, &e))
}

/// Returns the error of a thread `name` that was refused, with the limit that is in the way.
pub fn refused(name: &str, why: &std::io::Error) -> OsError {
    let call = format!("starting the thread `{name}`");
    match OsError::of(call, why) {
        error if error.errno == Errno::AGAIN => {
            OsError::new(format!("{} ({})", error.call, refusal::no_process()), error.errno)
        }
        error => error,
    }
}

/// Returns the number of this thread in the kernel, as its process has it.
pub fn number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Returns the address of this thread's control block, which distinguishes it from all others that
/// live now. A later thread may have the same. Returns 0, which no thread has, where it is not
/// available so cheaply.
#[inline(always)]
pub fn pointer() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let at: usize;
        // SAFETY: on Linux the first word behind `fs` is its own address, in each thread (x86-64
        // psABI, variant II of thread-local storage); it is only read.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) at, options(nostack, pure, readonly, preserves_flags));
        }
        at
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::SignalMask;

    #[test]
    fn a_thread_that_is_refused_names_the_limit() {
        let why = std::io::Error::from_raw_os_error(Errno::AGAIN.raw_os_error());
        let said = refused("clump-x", &why).to_string();
        assert!(said.contains("`clump-x`") && said.contains("ulimit -u"), "{said}");
        assert!(spawn("clump-y", || 7).unwrap().join().is_ok_and(|seven| seven == 7));
    }

    #[test]
    fn signals_are_left_to_other_threads() {
        let before = SignalMask::current().to_bits();
        let mask = || SignalMask::current().to_bits();
        // Two signals cannot be blocked.
        let never = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        let all = SignalMask::all().to_bits() & !never;
        assert_eq!(spawn("clump-z", mask).unwrap().join().unwrap(), all);
        assert_eq!(spawn_with_stack("clump-z", 1 << 16, mask).unwrap().join().unwrap(), all);
        let scoped = std::thread::scope(|scope| {
            spawn_scoped(scope, "clump-z", mask).unwrap().join().unwrap()
        });
        assert_eq!(scoped, all);
        assert_eq!(mask(), before, "the thread that starts them keeps its own");
    }

    #[test]
    fn threads_that_live_at_one_time_differ() {
        let mine = pointer();
        let theirs = std::thread::scope(|scope| scope.spawn(pointer).join());
        assert_eq!(pointer(), mine);
        assert!(theirs.is_ok_and(|theirs| theirs != mine || theirs == 0));
    }
}
