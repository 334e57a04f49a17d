//! The time that further threads of a rank have used the shared heap.
//!
//! A rank's waits are sums over its threads, so its time is one, too: that of the thread that
//! opened the heap, and of each other from its first use of the heap to its last.

use clump_am::this_thread;
use clump_os::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// Numbers of heaps, so that a thread finds out that it uses another.
static HEAPS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The heap that this thread has used last, and when; of the kind that needs no memory, since
    /// page faults come here.
    static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Sum of the times of all threads but the one that opened the heap.
#[derive(Debug)]
pub(crate) struct ThreadTime {
    heap: u64,
    opener: u64,
    others_ns: AtomicU64,
}

impl Default for ThreadTime {
    fn default() -> Self {
        let heap = HEAPS.fetch_add(1, Ordering::Relaxed) + 1;
        Self { heap, opener: this_thread(), others_ns: AtomicU64::new(0) }
    }
}

impl ThreadTime {
    /// Notes that this thread uses the heap at `now`.
    #[inline]
    pub(crate) fn used_at(&self, now: u64) {
        if this_thread() == self.opener {
            return;
        }
        if let (heap, last) = LAST.replace((self.heap, now))
            && heap == self.heap
        {
            self.others_ns.fetch_add(now.saturating_sub(last), Ordering::Relaxed);
        }
    }

    /// Returns the sum so far, in ns.
    pub(crate) fn others_ns(&self) -> u64 {
        self.others_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadTime;

    #[test]
    fn the_time_of_each_thread_counts_from_its_first_use_to_its_last() {
        let time = ThreadTime::default();
        time.used_at(1_000);
        time.used_at(9_000);
        assert_eq!(time.others_ns(), 0, "the opener's is that of the heap");
        let other = |first: u64| {
            let time = &time;
            move || [first, first + 10, first + 100].into_iter().for_each(|at| time.used_at(at))
        };
        std::thread::scope(|scope| {
            scope.spawn(other(500));
            scope.spawn(other(7_000));
        });
        assert_eq!(time.others_ns(), 200);
        // A thread that goes on to another heap begins anew there.
        std::thread::scope(|scope| {
            let (time, next) = (&time, ThreadTime::default());
            scope.spawn(move || {
                time.used_at(100);
                next.used_at(5_000);
                next.used_at(5_030);
                assert_eq!(next.others_ns(), 30);
            });
        });
        assert_eq!(time.others_ns(), 200);
    }
}
