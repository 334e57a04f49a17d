//! Threads of a rank that use the heap: one, or several.

use clump_os::sync::{AtomicBool, AtomicUsize, Ordering};
use clump_os::thread;

/// The first thread that called, and whether others did.
#[derive(Debug)]
pub(crate) struct RankThreads {
    first: AtomicUsize,
    several: AtomicBool,
}

impl RankThreads {
    /// Returns those of a rank one thread of which, the calling one, is known.
    pub(crate) fn new() -> Self {
        Self { first: AtomicUsize::new(thread::pointer()), several: AtomicBool::new(false) }
    }

    /// Returns true once a second thread has called.
    pub(crate) fn are_several(&self) -> bool {
        let me = thread::pointer();
        // No thread has 0, which stands for a machine that does not tell.
        if me != self.first.load(Ordering::Relaxed) || me == 0 {
            self.several.store(true, Ordering::Relaxed);
        }
        self.several.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_noticed_for_good() {
        let threads = RankThreads::new();
        assert!(!threads.are_several() && !threads.are_several());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(threads.are_several()));
        });
        assert!(threads.are_several(), "also for the first one");
    }
}
