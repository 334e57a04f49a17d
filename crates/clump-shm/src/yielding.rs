//! Yielding the processor: the cost of yields shows if other threads are runnable.
//!
//! Yielding to a rank that waits costs a switch, and the rank's next message finds the yielder
//! awake. Yielding to a program that computes costs that program's whole time slice, while a
//! sleeper that wakes gets the processor at once. So one long yield stops yields for a while. A
//! yield that returns at once shows that no other thread is there.

use clump_os::clock;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};

/// Time in ns beyond which a yield let another thread run.
const ALONE_NS: u64 = 1_500;
/// Time in ns beyond which a yield went to a program that computes: less than its time slice, and
/// more than a turn of many ranks that give way to each other, some of which go to sleep.
const LONG_NS: u64 = 1_000_000;
/// After a long yield, none follows for this many times its duration: yields cost a fifth of the
/// time at most, and a processor that was contended is soon found free again.
const FORGONE_TIMES: u64 = 4;
/// Longest time in ns for which yields are forgone.
const MAX_FORGONE_NS: u64 = 20_000_000;

// A yield is at most one of: alone, shared, long; and a long one is not forgone for ever.
const _: () = assert!(ALONE_NS < LONG_NS && LONG_NS < MAX_FORGONE_NS);

/// Result of a yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yielded {
    /// Returned at once: no other thread was runnable.
    Alone,
    /// Others ran, and gave the processor back soon.
    Shared,
    /// A program computed.
    Long,
}

/// Yield policy of the threads of a rank, or of a proxy, learnt from their yields.
#[derive(Debug)]
pub struct YieldPolicy {
    /// Cycles of [`ALONE_NS`].
    alone: u64,
    /// Cycles of [`LONG_NS`].
    long: u64,
    /// Cycles of [`MAX_FORGONE_NS`].
    most_forgone: u64,
    crowded: AtomicBool,
    /// Time at which yields are worthwhile again, in cycles.
    forgone_until: AtomicU64,
}

impl YieldPolicy {
    /// Creates the policy of a thread that has not yielded yet; `crowded`: it has reason to expect
    /// other threads.
    pub fn new(crowded: bool) -> Self {
        let cycles = |ns: u64| ns * clock::cycles_per_us() / 1000;
        let (alone, long) = (cycles(ALONE_NS), cycles(LONG_NS));
        let most_forgone = cycles(MAX_FORGONE_NS);
        debug_assert!(
            alone < long && long < most_forgone,
            "the limits differ by more than the clock's resolution"
        );
        Self {
            alone,
            long,
            most_forgone,
            crowded: AtomicBool::new(crowded),
            forgone_until: AtomicU64::new(0),
        }
    }

    /// Returns true if the last yield let another thread run.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Returns true if yielding is worthwhile now; false for a while after a yield that took long.
    #[inline]
    pub fn is_worthwhile(&self) -> bool {
        let until = self.forgone_until.load(Ordering::Relaxed);
        until == 0 || clock::cycles() >= until
    }

    /// Yields once.
    pub fn offer(&self) -> Yielded {
        let before = clock::cycles();
        clock::yield_now();
        let after = clock::cycles();
        self.note(after.wrapping_sub(before), after)
    }

    fn set_crowded(&self, crowded: bool) {
        if crowded != self.crowded() {
            self.crowded.store(crowded, Ordering::Relaxed);
        }
    }

    fn note(&self, took: u64, now: u64) -> Yielded {
        self.set_crowded(took > self.alone);
        if took > self.long {
            let forgone = took.saturating_mul(FORGONE_TIMES).min(self.most_forgone);
            self.forgone_until.store(now.saturating_add(forgone), Ordering::Relaxed);
            debug_assert!(
                forgone >= self.long,
                "yields are forgone for longer than the yield took"
            );
            return Yielded::Long;
        }
        if took > self.alone { Yielded::Shared } else { Yielded::Alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_yield_stops_yields_for_a_while() {
        let policy = YieldPolicy::new(false);
        assert!(policy.is_worthwhile());
        let later = clock::cycles() + policy.most_forgone * 1_000;
        assert_eq!(policy.note(policy.long + 1, later), Yielded::Long);
        assert!(policy.crowded() && !policy.is_worthwhile());
        assert_eq!(policy.note(u64::MAX, 0), Yielded::Long);
        assert_eq!(policy.forgone_until.load(Ordering::Relaxed), policy.most_forgone, "bounded");
    }

    #[test]
    fn a_turn_of_many_ranks_is_no_program_that_computes() {
        let policy = YieldPolicy::new(true);
        let cycles = |ns: u64| ns * clock::cycles_per_us() / 1000;
        assert_eq!(policy.note(cycles(500_000), 1), Yielded::Shared);
        assert!(policy.is_worthwhile());
    }

    #[test]
    fn the_last_yield_tells_whether_there_is_company() {
        let policy = YieldPolicy::new(true);
        assert!(policy.crowded());
        assert_eq!(policy.note(policy.alone, 1), Yielded::Alone);
        assert!(!policy.crowded());
        assert_eq!(policy.note(policy.alone + 1, 1), Yielded::Shared);
        assert!(policy.crowded() && policy.is_worthwhile());
        assert_eq!(policy.note(0, 1), Yielded::Alone);
        assert!(!policy.crowded());
    }
}
