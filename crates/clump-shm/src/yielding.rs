//! Giving the processor away: what yields cost tells who else wants it.
//!
//! Yielding to a rank that waits costs a switch, and the rank's next message finds the yielder awake. Yielding
//! to a program that computes costs that program's whole slice of time, while a sleeper that wakes gets the
//! processor at once. So one long yield stops yields for a while; and a yield that returns at once says that
//! nobody else is there.

use clump_os::clock;
use clump_os::sync::{AtomicBool, AtomicU32, Ordering};

/// A yield that took longer than this let somebody else run.
const ALONE_NS: u64 = 1_500;
/// A yield that took longer went to a program that computes.
const LONG_NS: u64 = 100_000;
/// Times that a yield is forgone after a long one.
const FORGONE: u32 = 1024;

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
    crowded: AtomicBool,
    /// Yields to be forgone.
    forgone: AtomicU32,
}

impl YieldPolicy {
    /// The policy of a thread that has not yielded yet; `crowded`: it has reason to expect company.
    pub fn new(crowded: bool) -> Self {
        let cycles = |ns: u64| ns * clock::cycles_per_us() / 1000;
        let (alone, long) = (cycles(ALONE_NS), cycles(LONG_NS));
        Self { alone, long, crowded: AtomicBool::new(crowded), forgone: AtomicU32::new(0) }
    }

    /// Whether the last yield let somebody else run.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Whether to yield now; false for a while after a yield that took long.
    #[inline]
    pub fn is_worthwhile(&self) -> bool {
        let forgone = self.forgone.load(Ordering::Relaxed);
        if forgone > 0 {
            self.forgone.store(forgone - 1, Ordering::Relaxed);
        }
        forgone == 0
    }

    /// Yields once.
    pub fn offer(&self) -> Yielded {
        let before = clock::cycles();
        clock::yield_now();
        self.note(clock::cycles().wrapping_sub(before))
    }

    /// What was waited for came with a yield: somebody else ran, however short it was.
    pub fn note_arrival(&self) {
        self.set_crowded(true);
    }

    fn set_crowded(&self, crowded: bool) {
        if crowded != self.crowded() {
            self.crowded.store(crowded, Ordering::Relaxed);
        }
    }

    fn note(&self, took: u64) -> Yielded {
        self.set_crowded(took > self.alone);
        if took > self.long {
            self.forgone.store(FORGONE, Ordering::Relaxed);
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
        assert_eq!(policy.note(policy.long + 1), Yielded::Long);
        assert!(policy.crowded());
        for _ in 0..FORGONE {
            assert!(!policy.is_worthwhile());
        }
        assert!(policy.is_worthwhile());
    }

    #[test]
    fn the_last_yield_tells_whether_there_is_company() {
        let policy = YieldPolicy::new(true);
        assert!(policy.crowded());
        assert_eq!(policy.note(policy.alone), Yielded::Alone);
        assert!(!policy.crowded());
        assert_eq!(policy.note(policy.alone + 1), Yielded::Shared);
        assert!(policy.crowded() && policy.is_worthwhile());
        assert_eq!(policy.note(0), Yielded::Alone);
        policy.note_arrival();
        assert!(policy.crowded());
    }
}
