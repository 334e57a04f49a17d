//! Yield policy of a proxy that has nothing to do.
//!
//! Yielding to a rank that waits costs a switch, and the rank's next message finds the proxy awake.
//! Yielding to a rank that computes costs that rank's whole slice of time, while a sleeper that
//! wakes gets the processor at once. One long yield shows which case it is, so yields stop for a
//! while.

use clump_os::clock;

/// A longer yield went to a rank that computes.
const LONG_NS: u64 = 100_000;
/// Idle times without yields after a long one.
const DISCOURAGED: u32 = 1024;

/// Yields of an idle proxy before it sleeps.
#[derive(Debug)]
pub(crate) struct Courtesy {
    /// Longest idle time with yields, in ns; 0: none.
    most_ns: u64,
    /// Idle times left without yields.
    discouraged: u32,
}

impl Courtesy {
    pub(crate) fn new(most_ns: u64) -> Self {
        Self { most_ns, discouraged: 0 }
    }

    /// Yields once, unless this has been idle for too long. Returns false when it is time to sleep.
    pub(crate) fn step(&mut self, idle_ns: u64) -> bool {
        if idle_ns >= self.most_ns {
            return false;
        }
        if self.discouraged > 0 {
            self.discouraged -= 1;
            return false;
        }
        let before = clock::ticked_ns();
        clock::yield_now();
        self.note(clock::ticked_ns().saturating_sub(before));
        true
    }

    fn note(&mut self, took_ns: u64) {
        if took_ns > LONG_NS {
            self.discouraged = DISCOURAGED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_yields_for_a_while_then_sleeps() {
        let mut courtesy = Courtesy::new(1_000);
        assert!(!courtesy.step(1_000));
        courtesy.note(LONG_NS + 1);
        for _ in 0..DISCOURAGED {
            assert!(!courtesy.step(0));
        }
        assert!(courtesy.step(0));
        assert!(!Courtesy::new(0).step(0));
    }
}
