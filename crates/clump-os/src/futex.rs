//! Sleeping on a word of shared memory until another process changes it.

use crate::sync::AtomicU32;
use std::time::Duration;

/// Sleeps while `*word == expected`, at most `limit`. May return early for no reason. Returns false
/// when the limit ended the sleep.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    if let Some(thread) = crate::virtual_thread::current() {
        return thread.wait(word, expected, limit);
    }
    sleep(word, expected, limit)
}

/// Sleeps as [`wait`] does, on the machine's time, whatever the time of this thread.
#[cfg(not(loom))]
pub fn sleep(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    let timeout = limit.map(|d| libc::timespec {
        tv_sec: libc::time_t::try_from(d.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(d.subsec_nanos()),
    });
    let timeout_ptr = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and `timeout_ptr` null or a live timespec;
    // every answer (changed, interrupted, timed out) means "look again", which callers do.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            libc::FUTEX_WAIT,
            expected,
            timeout_ptr,
        )
    };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

/// Wakes every process that sleeps on `word`.
#[cfg(not(loom))]
pub fn wake_all(word: &AtomicU32) {
    if let Some(thread) = crate::virtual_thread::current() {
        thread.wake(word);
    }
    rouse(word);
}

/// Wakes every process that sleeps on `word` on the machine's time.
#[cfg(not(loom))]
pub fn rouse(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned 32-bit word; FUTEX_WAKE reads nothing else.
    unsafe {
        libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Sleeping place of all threads of a model, whatever the word: a sleeper may wake early for no
/// reason.
#[cfg(loom)]
struct Bed {
    lock: loom::sync::Mutex<()>,
    woken: loom::sync::Condvar,
}

#[cfg(loom)]
loom::lazy_static! {
    static ref BED: Bed = Bed { lock: loom::sync::Mutex::new(()), woken: loom::sync::Condvar::new() };
}

/// Stand-in for loom, which has no futex. As in the kernel, the word is read under a lock that
/// wakers take too; a sleeper that is never woken is a deadlock, which loom reports.
#[cfg(loom)]
pub fn wait(word: &AtomicU32, expected: u32, _limit: Option<Duration>) -> bool {
    let Ok(guard) = BED.lock.lock() else { return true };
    if word.load(crate::sync::Ordering::Relaxed) == expected {
        drop(BED.woken.wait(guard));
    }
    true
}

/// Wakes every sleeper of the model.
#[cfg(loom)]
pub fn wake_all(_word: &AtomicU32) {
    let guard = BED.lock.lock();
    BED.woken.notify_all();
    drop(guard);
}
