//! Threads whose time is virtual: they see a clock of their own, and wait on it (docs/virtual.md).
//!
//! A thread of a job in virtual time registers an object that keeps its clock. From then on the
//! clock, sleeps and futexes of this crate ask that object instead of the kernel. Everything else
//! (threads that do not register, agents, launchers) stays on the machine's time.

use crate::sync::AtomicU32;
use std::cell::Cell;
use std::time::Duration;

/// The clock of a thread in virtual time, and its waits.
pub trait VirtualThread {
    /// Returns the time of the thread, in ns.
    fn now_ns(&self) -> u64;
    /// Waits while `*word == expected`, at most `limit`, until another thread in virtual time wakes
    /// the word. May return early for no reason. Returns false when the limit ended the wait.
    fn wait(&self, word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool;
    /// Wakes the threads in virtual time that wait on a word.
    fn wake(&self, word: &AtomicU32);
    /// Lets time pass without doing anything.
    fn pass(&self, span: Duration);
}

thread_local! {
    static CURRENT: Cell<Option<&'static dyn VirtualThread>> = const { Cell::new(None) };
}

/// True once a thread of this process has registered: the one word that calls of this crate read
/// where time is the machine's.
static ANY: crate::sync::AtomicBool = crate::sync::AtomicBool::new(false);

/// Makes the time of this thread virtual, or the machine's again.
pub fn register(thread: Option<&'static dyn VirtualThread>) {
    ANY.store(true, crate::sync::Ordering::Relaxed);
    CURRENT.set(thread);
}

/// Returns true if the time of this thread is virtual.
pub fn is_virtual() -> bool {
    current().is_some()
}

/// Returns the clock of this thread, if its time is virtual.
#[inline(always)]
pub(crate) fn current() -> Option<&'static dyn VirtualThread> {
    if ANY.load(crate::sync::Ordering::Relaxed) { registered() } else { None }
}

#[cold]
fn registered() -> Option<&'static dyn VirtualThread> {
    // A child by `fork` has a copy of its parent's thread, and is no actor.
    CURRENT.get().filter(|_| !crate::forked::is_child())
}
