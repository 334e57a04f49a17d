//! Accesses to memory that a process may not make yet: a handler of their signal, which makes them
//! possible or hands the signal on.
//!
//! The handler runs before the earlier handler of the signal (that of the standard library finds
//! stack overflows). A fault that it does not serve is handed on, and looks as if it were not
//! there: where the signal had no handler, its default is restored, and the access is made again.

use crate::error::{OsError, Result};
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// An access that raised a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessFault {
    /// Address accessed.
    pub address: usize,
    /// True for a store, false for a load or a fetch; `None` where the processor does not report
    /// it.
    pub stores: Option<bool>,
    /// True if the signal was SIGBUS.
    pub bus: bool,
}

/// Function that serves a fault: returns true if the access is to be made again. It runs in a
/// signal handler: it waits for no lock that the interrupted code may hold.
pub type FaultServer = fn(&AccessFault) -> bool;

/// Signals of forbidden accesses.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

static SERVER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Former dispositions, written before the handler is installed and never again.
static BEFORE: [FormerAction; 2] = [FormerAction::new(), FormerAction::new()];

struct FormerAction(std::cell::UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, by the thread that installs handlers (`INSTALLED`), before any of them may
// run.
unsafe impl Sync for FormerAction {}

impl FormerAction {
    const fn new() -> Self {
        Self(std::cell::UnsafeCell::new(MaybeUninit::zeroed()))
    }
}

/// Lets `server` serve faults of this process from now on, of all threads. Once per process.
///
/// # Errors
/// Another server was installed before; the kernel refuses, which it does not.
pub fn install(server: FaultServer) -> Result<()> {
    if INSTALLED.swap(true, Ordering::AcqRel) {
        let call = "installing a second handler of memory accesses";
        return Err(OsError::new(call, rustix::io::Errno::BUSY));
    }
    SERVER.store(server as *mut (), Ordering::Release);
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        // SAFETY: sigaction is plain memory, and `before` has no other user yet (`INSTALLED`).
        unsafe {
            let former = before.0.get().cast::<libc::sigaction>();
            if libc::sigaction(signal, std::ptr::null(), former) != 0 {
                return Err(OsError::last("sigaction"));
            }
            let mut wanted: libc::sigaction = std::mem::zeroed();
            wanted.sa_sigaction = on_signal as *const () as usize;
            // On the alternate stack, if there is one: the handler before it may find that the
            // stack has overflowed.
            wanted.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // No other handler of the program runs while a fault is served.
            libc::sigfillset(&raw mut wanted.sa_mask);
            if libc::sigaction(signal, &raw const wanted, null_mut()) != 0 {
                return Err(OsError::last("sigaction"));
            }
        }
    }
    Ok(())
}

/// Returns true if faults no longer arrive here, since the process has installed another handler of
/// SIGBUS, if `bus`, or else of SIGSEGV.
pub fn is_replaced(bus: bool) -> bool {
    let signal = SIGNALS[usize::from(bus)];
    // SAFETY: reads the disposition only, into a local that is plain memory.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0;
        known && now.sa_sigaction != on_signal as *const () as usize
    }
}

/// Serves a signal, or hands it on.
extern "C" fn on_signal(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid pointers; `errno` is this thread's, which the interrupted
    // code may be about to read.
    let (errno, address, sent) = unsafe {
        // Codes of 0 and below are of signals that a process has sent.
        (*libc::__errno_location(), (*info).si_addr().addr(), (*info).si_code <= 0)
    };
    let server = SERVER.load(Ordering::Acquire);
    if !sent && !server.is_null() {
        let fault = AccessFault { address, stores: stores(context), bus: signal == libc::SIGBUS };
        // SAFETY: `install` stored a function of this type.
        let server: FaultServer = unsafe { std::mem::transmute(server) };
        let served = server(&fault);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        if served {
            return;
        }
    }
    hand_on(signal, info, context);
}

/// Returns whether the access stores.
fn stores(context: *mut libc::c_void) -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the kernel passes the interrupted context (sigaction(2)). Bit 1 of the error code
        // is set for a store (Intel SDM, volume 3, 4.7).
        let code = unsafe {
            let context = context.cast::<libc::ucontext_t>();
            (*context).uc_mcontext.gregs[libc::REG_ERR as usize]
        };
        Some(code & 2 != 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        None
    }
}

/// Lets the former disposition have a signal.
fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let at = usize::from(signal != SIGNALS[0]);
    // SAFETY: written before this handler was installed, and not since. A former handler is called
    // as the kernel would have called it.
    unsafe {
        let former = &*BEFORE[at].0.get().cast::<libc::sigaction>();
        match former.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // The access is made again when this returns, and ends the process.
                libc::sigaction(signal, former, null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            handler if former.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                let handler: Handler = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Memory for the alternate stack of a thread.
const STACK_BYTES: usize = 256 << 10;

/// Gives the calling thread an alternate stack that is large enough for a handler in any build, one
/// that waits for a message of the network among them, until the thread ends. The memory is not
/// given back.
///
/// # Errors
/// Memory or address space has run out; the thread runs on its alternate stack.
pub fn give_stack() -> Result<()> {
    use rustix::mm::{MapFlags, ProtFlags};
    let (prot, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing, and is never
    // unmapped.
    let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), STACK_BYTES, prot, how) }
        .map_err(|e| OsError::new("mapping a stack for signals", e))?;
    let stack = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: memory of this thread alone from now on.
    match unsafe { libc::sigaltstack(&raw const stack, null_mut()) } {
        0 => Ok(()),
        _ => Err(OsError::last("sigaltstack")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Mapping, PAGE, Rights, sealed_memory};
    use crate::sync::{AtomicU8, AtomicU32};
    use std::sync::OnceLock;

    static VIEW: OnceLock<Mapping> = OnceLock::new();
    static LOADS: AtomicU32 = AtomicU32::new(0);
    static STORES: AtomicU32 = AtomicU32::new(0);

    /// Serves faults on the first page of the view.
    fn serve(fault: &AccessFault) -> bool {
        let Some(view) = VIEW.get() else { return false };
        if fault.address.wrapping_sub(view.base().addr().get()) >= PAGE {
            return false;
        }
        let stores = fault.stores.unwrap_or(true);
        let count = if stores { &STORES } else { &LOADS };
        count.fetch_add(1, Ordering::Relaxed);
        let rights = if stores { Rights::Write } else { Rights::Read };
        view.protect(0, PAGE, rights).is_ok()
    }

    #[test]
    fn faults_are_served_and_others_end_the_process_as_ever() {
        let fd = sealed_memory("of a test", 2 * PAGE as u64).unwrap();
        let view = VIEW.get_or_init(|| Mapping::shared(&fd, 0, 2 * PAGE).unwrap());
        view.protect(0, 2 * PAGE, Rights::None).unwrap();
        assert!(view.protect(PAGE, 2 * PAGE, Rights::None).is_err(), "beyond the end");
        give_stack().unwrap();
        install(serve).unwrap();
        assert!(install(serve).is_err(), "once");
        // SAFETY: bytes of the view, as atomics.
        let byte = |at: usize| unsafe { &*view.base().as_ptr().add(at).cast::<AtomicU8>() };
        assert_eq!(byte(5).load(Ordering::Relaxed), 0);
        byte(5).store(9, Ordering::Relaxed);
        assert_eq!(byte(5).load(Ordering::Relaxed), 9);
        let counts = (LOADS.load(Ordering::Relaxed), STORES.load(Ordering::Relaxed));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(counts, (1, 1), "one load and one store were distinguished");
        assert!(counts.1 > 0);
        let access = || {
            let _ = std::hint::black_box(byte(PAGE).load(Ordering::Relaxed));
        };
        // The handler of the standard library, to which the first is handed on, lets it pass once.
        let sent = || {
            let _ = crate::signal::to_this_thread(libc::SIGSEGV as u8);
            let _ = crate::signal::to_this_thread(libc::SIGSEGV as u8);
        };
        let crashes: [&dyn Fn(); 2] = [&access, &sent];
        for crash in crashes {
            // SAFETY: the child makes one access and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // A child has private memory in place of the view, without protection.
                let at = std::ptr::without_provenance_mut(view.base().addr().get());
                // SAFETY: protects the child's own copy, which it uses for this access alone.
                let _ = unsafe { libc::mprotect(at, 2 * PAGE, libc::PROT_NONE) };
                crash();
                crate::process::exit_at_once(0);
            }
            let mut status = 0;
            // SAFETY: waits for the child just made; `status` is a place to write to.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(libc::WIFSIGNALED(status), "{status:#x}");
            assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV, "{status:#x}");
        }
    }
}
