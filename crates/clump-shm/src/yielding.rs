//! Giving the processor away: what yields cost tells who else wants it.
//!
//! Yielding to a rank that waits costs a switch, and the rank's next message finds the yielder
//! awake. Yielding to a program that computes costs that program's whole slice of time, while a
//! sleeper that wakes gets the processor at once. So one long yield stops yields for a while; and a
//! yield that returns at once says that nobody else is there.

use clump_os::clock;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};

/// A yield that took longer than this let somebody else run.
const ALONE_NS: u64 = 1_500;
/// A yield that took longer went to a program that computes.
const LONG_NS: u64 = 100_000;
/// For how many times as long as a long yield took no other follows: they cost a fifth of the time
/// at most, and a processor that was wanted once is found free again soon.
const FORGONE_TIMES: u64 = 4;
/// No yield is forgone for longer than this.
const MAX_FORGONE_NS: u64 = 20_000_000;

/// What a yield showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yielded {
    /// It returned at once: nobody else wants this processor.
    Alone,
    /// Others ran, and gave the processor back soon.
    Shared,
    /// Somebody computed.
    Long,
}

/// What the threads of a rank, or a proxy, have learnt from their yields.
#[derive(Debug)]
pub struct YieldPolicy {
    /// Cycles of [`ALONE_NS`].
    alone: u64,
    /// Cycles of [`LONG_NS`].
    long: u64,
    /// Cycles of [`MAX_FORGONE_NS`].
    most_forgone: u64,
    crowded: AtomicBool,
    /// When yields are worthwhile again, in cycles.
    forgone_until: AtomicU64,
}

impl YieldPolicy {
    /// The policy of a thread that has not yielded yet; `crowded`: it has reason to expect company.
    pub fn new(crowded: bool) -> Self {
        let cycles = |ns: u64| ns * clock::cycles_per_us() / 1000;
        Self {
            alone: cycles(ALONE_NS),
            long: cycles(LONG_NS),
            most_forgone: cycles(MAX_FORGONE_NS),
            crowded: AtomicBool::new(crowded),
            forgone_until: AtomicU64::new(0),
        }
    }

    /// Returns true if the last yield let somebody else run.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Returns true if to yield now; false for a while after a yield that took long.
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
