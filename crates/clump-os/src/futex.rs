//! Sleeping on a word of shared memory until another process changes it.

use crate::sync::AtomicU32;
use std::time::Duration;

/// Sleeps while `*word == expected`, at most `limit`. May return early for no reason.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let timeout = limit.map(|d| libc::timespec {
        tv_sec: libc::time_t::try_from(d.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(d.subsec_nanos()),
    });
    let timeout_ptr = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and `timeout_ptr` null or a live timespec; every
    // answer (changed, interrupted, timed out) means "look again", which callers do.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            libc::FUTEX_WAIT,
            expected,
            timeout_ptr,
        );
    }
}

/// Wakes every process that sleeps on `word`.
#[cfg(not(loom))]
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned 32-bit word; FUTEX_WAKE reads nothing else.
    unsafe {
        libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// loom has no futex: a model waits by yielding until the word changed.
#[cfg(loom)]
pub fn wait(word: &AtomicU32, expected: u32, _limit: Option<Duration>) {
    while word.load(crate::sync::Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

/// loom has no futex: waiters look for themselves.
#[cfg(loom)]
pub fn wake_all(_word: &AtomicU32) {}
