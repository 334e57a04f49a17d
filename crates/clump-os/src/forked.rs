//! Children of this process by `fork`: they share no memory of the job, and can detect that they
//! are children.
//!
//! The kernel leaves shared mappings out of a child (`MADV_DONTFORK`), and zeroes one page in it,
//! which distinguishes a child from the process however it was made (`MADV_WIPEONFORK`;
//! madvise(2)). A child that `fork` of the C library made finds zeroed private memory where the
//! mappings were (pthread_atfork(3)). So code in the middle of an operation, or inlined into a
//! program, reads and writes only private memory there.
//!
//! Children that share the memory of their parent until they `exec` (`vfork`, `posix_spawn`,
//! `system`, `popen`) are no children in this sense.

use crate::sync::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::{NonNull, null_mut};

/// Number of mappings of which a child gets private memory. Further ones are absent in it.
const REGIONS: usize = 4096;
/// Value of `bytes` of a region that is being registered.
const CLAIMED: usize = 1;

/// A shared mapping.
struct Region {
    base: AtomicUsize,
    /// 0 while the entry is free.
    bytes: AtomicUsize,
}

static REGION: [Region; REGIONS] =
    [const { Region { base: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; REGIONS];
/// Number of entries ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// A byte that is 1 in the process and 0 in its children; null before the first mapping.
static PROCESS: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
static STARTED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process is a child by `fork` of one that had mapped memory of a job, and
/// has not called `exec`.
#[inline]
pub fn is_child() -> bool {
    let process = PROCESS.load(Ordering::Acquire);
    // SAFETY: a page that is never unmapped.
    !process.is_null() && unsafe { &*process }.load(Ordering::Relaxed) == 0
}

/// Calls `run` in each child that `fork` makes from now on, before it returns there.
///
/// `run` may be called while other threads of the parent held any lock: it takes none, and does not
/// allocate.
pub fn in_children(run: unsafe extern "C" fn()) {
    // SAFETY: takes a function that lives as long as this library. It fails without memory only;
    // children are then detected by the page alone.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(run)) };
}

/// Keeps a fresh shared mapping from children; returns the number for [`forget`].
pub(crate) fn keep(base: NonNull<u8>, bytes: usize) -> usize {
    start();
    // SAFETY: advice on a range that the caller has just mapped; contents do not change.
    let left_out =
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxDontFork) };
    let used = USED.load(Ordering::Relaxed);
    let claims = |place: &Region| {
        let (old, new) = (Ordering::Relaxed, Ordering::Relaxed);
        place.bytes.compare_exchange(0, CLAIMED, old, new).is_ok()
    };
    // There is most likely room behind the entries in use; freed ones are found in the second
    // round.
    let mut order = (used..REGIONS).chain(0..used);
    let Some(at) = order.find(|&at| claims(&REGION[at])) else { return REGIONS };
    USED.fetch_max(at + 1, Ordering::Relaxed);
    // Page alignment leaves low address bits free: this one marks mappings that a child still has.
    REGION[at].base.store(base.addr().get() | usize::from(left_out.is_err()), Ordering::Relaxed);
    REGION[at].bytes.store(bytes, Ordering::Release);
    at
}

/// Forgets a mapping, which is about to be unmapped.
pub(crate) fn forget(at: usize) {
    if let Some(region) = REGION.get(at) {
        debug_assert!(region.bytes.load(Ordering::Relaxed) > CLAIMED, "was noted");
        region.bytes.store(0, Ordering::Release);
    }
}

/// Creates the page that distinguishes children, once.
fn start() {
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    let (bytes, prot) = (crate::page::PAGE, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
    let page = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, prot, MapFlags::PRIVATE) };
    let Ok(page) = page else { return };
    // SAFETY: advice on the page just mapped. Without it, the function below marks children.
    let _ = unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) };
    let process: *mut AtomicU8 = page.cast();
    // SAFETY: the page just mapped, which nothing else refers to.
    unsafe { &*process }.store(1, Ordering::Relaxed);
    PROCESS.store(process, Ordering::Release);
    in_children(in_child);
}

/// Replaces the mappings of the job in a child. Only system calls.
unsafe extern "C" fn in_child() {
    let process = PROCESS.load(Ordering::Relaxed);
    if !process.is_null() {
        // SAFETY: a page that is never unmapped.
        unsafe { &*process }.store(0, Ordering::Relaxed);
    }
    let used = USED.load(Ordering::Relaxed);
    for region in REGION.iter().take(used) {
        let (base, bytes) =
            (region.base.load(Ordering::Relaxed), region.bytes.load(Ordering::Relaxed));
        if bytes <= CLAIMED {
            continue;
        }
        let still_there = base & 1 == 1;
        let base = base & !1;
        // A mapping that another library's function has made here meanwhile is not replaced.
        let how = if still_there { MapFlags::FIXED } else { MapFlags::FIXED_NOREPLACE };
        let how = how | MapFlags::PRIVATE | MapFlags::NORESERVE;
        let at = std::ptr::without_provenance_mut(base);
        // SAFETY: replaces only a mapping that this process noted as its own and has not forgotten,
        // or none; a child has a single thread, which holds no references into the memory now,
        // except as atomics.
        let _ = unsafe {
            rustix::mm::mmap_anonymous(at, bytes, ProtFlags::READ | ProtFlags::WRITE, how)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Mapping, PAGE, sealed_memory};

    /// Runs `look` in a child; returns its exit code.
    fn child_says(fork: impl FnOnce() -> libc::pid_t, look: impl FnOnce() -> u8) -> i32 {
        let pid = fork();
        if pid == 0 {
            let code = look();
            crate::process::exit_at_once(code.into());
        }
        let mut status = 0;
        // SAFETY: waits for the child just made; `status` is a place to write to.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        assert!(libc::WIFEXITED(status), "the child died: {status:#x}");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_has_private_zeroes_where_the_process_has_shared_memory() {
        let fd = sealed_memory("of a test", PAGE as u64).unwrap();
        let mapping = Mapping::shared(&fd, 0, PAGE).unwrap();
        let place: *mut AtomicU8 = mapping.base().as_ptr().cast();
        // SAFETY: the first byte of the mapping, as an atomic.
        let byte = || unsafe { &*place };
        byte().store(7, Ordering::Relaxed);
        assert!(!is_child());
        // SAFETY: the child runs the closure, makes system calls, and ends.
        let fork = || unsafe { libc::fork() };
        let said = child_says(fork, || {
            let found = byte().load(Ordering::Relaxed);
            byte().store(9, Ordering::Relaxed);
            10 * u8::from(is_child()) + found
        });
        assert_eq!(said, 10, "10 for a child, and a zero in memory");
        assert_eq!(byte().load(Ordering::Relaxed), 7, "a child wrote to shared memory");
        assert!(!is_child());
    }

    #[test]
    fn a_child_that_no_library_made_knows_it_too() {
        let fd = sealed_memory("of a test", PAGE as u64).unwrap();
        let _mapping = Mapping::shared(&fd, 0, PAGE).unwrap();
        // SAFETY: fork as the kernel has it; the child makes one system call.
        let fork =
            || unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t;
        assert_eq!(child_says(fork, || u8::from(is_child())), 1);
    }

    #[test]
    fn places_of_mappings_are_used_again() {
        let fd = sealed_memory("of a test", PAGE as u64).unwrap();
        let before = USED.load(Ordering::Relaxed);
        for _ in 0..2 * REGIONS {
            drop(Mapping::shared(&fd, 0, PAGE).unwrap());
        }
        assert!(before <= REGIONS);
        let kept = Mapping::shared(&fd, 0, PAGE).unwrap();
        let noted = REGION.iter().any(|region| {
            region.base.load(Ordering::Relaxed) & !1 == kept.base().addr().get()
                && region.bytes.load(Ordering::Relaxed) == PAGE
        });
        assert!(noted, "no place is left");
    }
}
