//! Signals as something to read in an event loop, instead of handlers.

use crate::error::{OsError, Result};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Hangup of the terminal.
pub const HANGUP: u8 = libc::SIGHUP as u8;
/// Ctrl-C.
pub const INTERRUPT: u8 = libc::SIGINT as u8;
/// Cannot be caught.
pub const KILL: u8 = libc::SIGKILL as u8;
/// The polite request to end.
pub const TERMINATE: u8 = libc::SIGTERM as u8;
/// Ctrl-\, the request to end and to leave a dump.
pub const QUIT: u8 = libc::SIGQUIT as u8;
/// Signals by which a user ends a program.
pub const ENDS: [u8; 4] = [INTERRUPT, TERMINATE, HANGUP, QUIT];
/// Ctrl-Z.
pub const TERMINAL_STOP: u8 = libc::SIGTSTP as u8;
/// A process in the background reads the terminal.
pub const TERMINAL_INPUT: u8 = libc::SIGTTIN as u8;
/// Signals whose meaning is the program's: batch systems send them as warnings, a terminal when its
/// size changes.
pub const OF_PROGRAMS: [u8; 5] =
    [libc::SIGUSR1 as u8, libc::SIGUSR2 as u8, libc::SIGALRM as u8, CPU_TIME, libc::SIGWINCH as u8];
/// A child ended, stopped or continued.
pub const CHILD: u8 = libc::SIGCHLD as u8;
/// Stops a process.
pub const STOP: u8 = libc::SIGSTOP as u8;
/// Continues a stopped process.
pub const CONTINUE: u8 = libc::SIGCONT as u8;
/// A file reached the limit of file sizes.
pub const FILE_SIZE: u8 = libc::SIGXFSZ as u8;
/// The limit of processor time ran out.
pub const CPU_TIME: u8 = libc::SIGXCPU as u8;

/// Sets the dispositions that clump depends on, whatever dispositions it inherited: ends of
/// children are reported, and a write that cannot be done is an error and kills no process.
/// Everything else stays as the caller has it, so that signals that `nohup` or a shell ignores are
/// ignored here and by ranks too.
///
/// # Errors
/// The kernel refuses, which it does not.
pub fn set_own() -> Result<()> {
    restore_default(CHILD)?;
    set(libc::SIGPIPE as u8, libc::SIG_IGN)?;
    set(FILE_SIZE, libc::SIG_IGN)
}

/// Undoes the part of [`set_own`] that other programs do not expect. Allowed between fork and exec;
/// SIGPIPE is restored there by the standard library.
pub(crate) fn unset_own() {
    let _ = set(FILE_SIZE, libc::SIG_DFL);
}

/// Signals blocked in this thread, to be read instead. Dropping it restores the former mask.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    wanted: Vec<u8>,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks `signals` in the calling thread, and in threads that it starts from now on. Other
    /// threads of the process must block them too, or the kernel gives them the signal.
    ///
    /// # Errors
    /// No more descriptors are allowed, or the kernel refuses.
    pub fn block(signals: &[u8]) -> Result<Self> {
        // SAFETY: sigset_t is plain memory that sigemptyset fills; all pointers are to locals; the
        // descriptor is new and has no other owner.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, libc::c_int::from(signal));
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(OsError::last("signalfd"));
            }
            let fd = OwnedFd::from_raw_fd(fd);
            let mut before: libc::sigset_t = std::mem::zeroed();
            let rc = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            if rc != 0 {
                return Err(OsError::last("pthread_sigmask"));
            }
            Ok(Self { fd, wanted: signals.to_vec(), before })
        }
    }

    /// Takes the next signal that came, if any.
    pub fn next(&self) -> Option<u8> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.fd, &mut record).ok()?;
        // ssi_signo is the first field (signalfd(2)), and fits a byte.
        (read == record.len())
            .then(|| u32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
            .and_then(|signal| u8::try_from(signal).ok())
    }
}

impl Signals {
    /// Returns the first of these signals that came and has not been read; it stays to be read.
    pub fn pending(&self) -> Option<u8> {
        pending(&self.wanted)
    }
}

/// Returns the first of `signals` that waits because it is blocked.
pub fn pending(signals: &[u8]) -> Option<u8> {
    // SAFETY: sigset_t is plain memory that sigpending fills; pointers are to a local.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        if libc::sigpending(&raw mut set) != 0 {
            return None;
        }
        let is_in = |signal: u8| libc::sigismember(&raw const set, libc::c_int::from(signal)) == 1;
        signals.iter().copied().find(|&signal| is_in(signal))
    }
}

/// Sends `signal` to the calling thread alone.
///
/// # Errors
/// There is no such signal.
pub fn to_this_thread(signal: u8) -> Result<()> {
    // SAFETY: names this thread, which lives; touches no memory.
    match unsafe { libc::pthread_kill(libc::pthread_self(), libc::c_int::from(signal)) } {
        0 => Ok(()),
        number => Err(OsError::new(
            format!("sending signal {signal}"),
            rustix::io::Errno::from_raw_os_error(number),
        )),
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `before` was filled by pthread_sigmask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Lets all signals through to this thread. Allowed between fork and exec.
pub fn unblock_all() {
    // SAFETY: sigset_t is plain memory that sigemptyset fills; both calls are async-signal-safe.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Returns true if this process inherited `signal` as ignored (as from `nohup` and shells): then it
/// should not react to it in other ways either.
pub fn is_ignored(signal: u8) -> bool {
    // SAFETY: reads the disposition only, into a local that is plain memory.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let rc = libc::sigaction(libc::c_int::from(signal), std::ptr::null(), &raw mut now);
        rc == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Restores the default disposition of `signal`, in this process and in those that it starts,
/// whatever disposition this process inherited.
///
/// # Errors
/// There is no such signal, or it cannot be changed.
pub fn restore_default(signal: u8) -> Result<()> {
    set(signal, libc::SIG_DFL)
}

/// Sets the disposition of `signal`: `SIG_DFL` or `SIG_IGN`, no handler.
fn set(signal: u8, disposition: libc::sighandler_t) -> Result<()> {
    debug_assert!([libc::SIG_DFL, libc::SIG_IGN].contains(&disposition));
    // SAFETY: sigaction is plain memory, and all zeros has no flags; no handler is installed.
    unsafe {
        let mut wanted: libc::sigaction = std::mem::zeroed();
        wanted.sa_sigaction = disposition;
        match libc::sigaction(libc::c_int::from(signal), &raw const wanted, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(OsError::last("sigaction")),
        }
    }
}

/// Returns true if this thread blocks signals that would end its process, to read them when it
/// likes.
pub fn holds_ends_back() -> bool {
    // SAFETY: reads the mask only, into a local that is plain memory.
    unsafe {
        let mut now: libc::sigset_t = std::mem::zeroed();
        let rc = libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
        let is_in = |signal: u8| libc::sigismember(&raw const now, libc::c_int::from(signal)) == 1;
        rc == 0 && ENDS.into_iter().any(is_in)
    }
}

/// Signals of a thread's own faults: blocked, they would end the process without their handler.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Signals that a thread blocks.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SignalMask({:#x})", self.to_bits())
    }
}

impl SignalMask {
    /// Returns the mask of the calling thread.
    pub fn current() -> Self {
        // SAFETY: reads the mask only, into a local that is plain memory.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            Self(now)
        }
    }

    /// Returns the mask that blocks all signals but those of a thread's own faults.
    pub fn all() -> Self {
        // SAFETY: sigset_t is plain memory that sigfillset fills; pointers are to a local.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            for signal in FAULTS {
                libc::sigdelset(&raw mut all, signal);
            }
            Self(all)
        }
    }

    /// Returns the mask that leaves a process only its own faults and the requests to end it.
    pub fn all_but_ends() -> Self {
        let mut mask = Self::all();
        for signal in ENDS {
            // SAFETY: a mask that is filled, and the number of a signal.
            unsafe { libc::sigdelset(&raw mut mask.0, libc::c_int::from(signal)) };
        }
        mask
    }

    /// Makes it the mask of the calling thread; returns the one before.
    pub fn set(self) -> Self {
        // SAFETY: a mask that the kernel or a function above has filled, and a local that is plain
        // memory.
        unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, &raw mut before);
            Self(before)
        }
    }

    /// Returns the mask as a word: bit `n - 1` is that of signal `n`.
    pub fn to_bits(self) -> u64 {
        // SAFETY: reads a mask that is filled.
        let blocks = |signal| unsafe { libc::sigismember(&raw const self.0, signal) } == 1;
        (1..=64).filter(|&signal| blocks(signal)).fold(0, |bits, signal| bits | 1 << (signal - 1))
    }

    /// Returns the mask that [`SignalMask::to_bits`] has made a word.
    pub fn from_bits(bits: u64) -> Self {
        // SAFETY: sigset_t is plain memory that sigemptyset fills; pointers are to a local. Signals
        // that the C library keeps for itself are refused by it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in (1..=64).filter(|signal| bits >> (signal - 1) & 1 != 0) {
                libc::sigaddset(&raw mut set, signal);
            }
            Self(set)
        }
    }
}

/// Mask of the calling thread that is restored when this is dropped.
#[derive(Debug)]
pub(crate) struct AllBlocked {
    before: SignalMask,
}

impl AllBlocked {
    /// Blocks all signals in the calling thread, and in threads that it starts meanwhile.
    pub(crate) fn new() -> Self {
        Self { before: SignalMask::all().set() }
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        self.before.set();
    }
}

/// Returns the name of a signal, as in `kill -l`; empty for numbers without a name here.
pub fn name(signal: u8) -> &'static str {
    match i32::from(signal) {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGABRT => "SIGABRT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGALRM => "SIGALRM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_ignores_broken_pipes_and_nothing_else() {
        assert!(is_ignored(libc::SIGPIPE as u8));
        assert!(!is_ignored(CHILD));
        assert!(!is_ignored(255));
    }

    #[test]
    fn what_clump_depends_on_is_set_whatever_was_ignored() {
        // SAFETY: ignores a signal that no test of this crate that runs beside depends on.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        set_own().unwrap();
        assert!(is_ignored(libc::SIGPIPE as u8) && is_ignored(FILE_SIZE) && !is_ignored(CHILD));
        unset_own();
        assert!(!is_ignored(FILE_SIZE));
    }

    #[test]
    fn a_mask_is_a_word_and_is_restored() {
        let before = SignalMask::current().to_bits();
        let bits = 1 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGALRM - 1) | 1 << 63;
        assert_eq!(SignalMask::from_bits(bits).to_bits(), bits);
        let blocked = AllBlocked::new();
        let now = SignalMask::current().to_bits();
        let blocks = |signal: libc::c_int| now >> (signal - 1) & 1 != 0;
        assert!([libc::SIGALRM, libc::SIGUSR1, libc::SIGTERM].into_iter().all(blocks));
        assert!(!FAULTS.into_iter().any(blocks), "{now:#x}");
        drop(blocked);
        assert_eq!(SignalMask::current().to_bits(), before);
    }

    #[test]
    fn an_ignored_signal_can_be_restored() {
        let signal = libc::SIGWINCH as u8;
        // SAFETY: ignores a signal that nothing here uses.
        unsafe { libc::signal(libc::SIGWINCH, libc::SIG_IGN) };
        assert!(is_ignored(signal));
        restore_default(signal).unwrap();
        assert!(!is_ignored(signal));
        assert!(restore_default(KILL).is_err());
    }

    #[test]
    fn a_blocked_signal_is_read() {
        let signals = Signals::block(&[libc::SIGUSR2 as u8]).unwrap();
        assert_eq!((signals.next(), signals.pending()), (None, None));
        to_this_thread(libc::SIGUSR2 as u8).unwrap();
        assert_eq!(signals.pending(), Some(libc::SIGUSR2 as u8));
        assert_eq!(signals.next(), Some(libc::SIGUSR2 as u8));
        assert_eq!(signals.next(), None);
    }
}
