//! Numbers of threads.

use clump_os::sync::{AtomicU64, Ordering};
use std::cell::Cell;

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of this thread, never 0 and never another's.
#[inline(always)]
pub fn this_thread() -> u64 {
    match NUMBER.get() {
        0 => number_this_thread(),
        number => number,
    }
}

/// Returns the number of this thread in traces, from 0; threads beyond 255 share the last one.
pub(crate) fn this_track() -> u8 {
    let thread = this_thread();
    debug_assert!(thread > 0, "threads are numbered from 1");
    u8::try_from(thread - 1).unwrap_or(u8::MAX)
}

#[cold]
fn number_this_thread() -> u64 {
    let number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
    debug_assert_ne!(number, 0, "0 is no thread's number");
    NUMBER.set(number);
    number
}
