//! Yields of an interface that has nothing to do, before it sleeps.

use clump_shm::yielding::{YieldPolicy, Yielded};

/// The yields of an interface.
#[derive(Debug)]
pub(crate) struct IdleYields {
    /// Longest idle time with yields, in ns; 0: none.
    max_ns: u64,
    /// Time without yields after one that went to a program that computes, in ns, beside that of
    /// [`YieldPolicy`].
    forgone_ns: u64,
    /// Time before which there is none.
    forgone_until_ns: u64,
    yields: YieldPolicy,
}

impl IdleYields {
    /// Yields for at most `max_ns` of an idle time, and not for `forgone_ns` after a long yield.
    pub(crate) fn new(max_ns: u64, forgone_ns: u64) -> Self {
        Self { max_ns, forgone_ns, forgone_until_ns: 0, yields: YieldPolicy::new(false) }
    }

    /// Yields once, unless the interface has been idle for too long or yields give the processor to
    /// a program that computes. Returns false when it is time to sleep.
    pub(crate) fn step(&mut self, idle_ns: u64, now_ns: u64) -> bool {
        let yields = self.is_due(idle_ns, now_ns) && self.yields.is_worthwhile();
        if yields {
            let yielded = self.yields.offer();
            self.note(yielded, now_ns);
        }
        yields
    }

    /// Returns true if its own limits allow a yield.
    fn is_due(&self, idle_ns: u64, now_ns: u64) -> bool {
        idle_ns < self.max_ns && now_ns >= self.forgone_until_ns
    }

    fn note(&mut self, yielded: Yielded, now_ns: u64) {
        if yielded == Yielded::Long {
            self.forgone_until_ns = now_ns + self.forgone_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_yields_for_a_while_then_sleeps() {
        let mut yields = IdleYields::new(1_000, 0);
        assert!(yields.step(0, 0));
        assert!(!yields.step(1_000, 0));
        assert!(!IdleYields::new(0, 0).step(0, 0));
    }

    #[test]
    fn a_yield_to_a_program_that_computes_is_the_last_for_long() {
        let mut yields = IdleYields::new(1_000, 50);
        yields.note(Yielded::Shared, 100);
        assert!(yields.is_due(0, 100));
        yields.note(Yielded::Long, 100);
        assert!(!yields.is_due(0, 149));
        assert!(yields.is_due(0, 150));
    }
}
