//! Yields of a proxy that has nothing to do, before it sleeps.

use clump_shm::yielding::YieldPolicy;

/// The yields of a proxy.
#[derive(Debug)]
pub(crate) struct IdleYields {
    /// Longest idle time with yields, in ns; 0: none.
    max_ns: u64,
    yields: YieldPolicy,
}

impl IdleYields {
    pub(crate) fn new(max_ns: u64) -> Self {
        Self { max_ns, yields: YieldPolicy::new(false) }
    }

    /// Yields once, unless the proxy has been idle for too long or yields give the processor to a
    /// program that computes. Returns false when it is time to sleep.
    pub(crate) fn step(&mut self, idle_ns: u64) -> bool {
        if idle_ns >= self.max_ns || !self.yields.is_worthwhile() {
            return false;
        }
        self.yields.offer();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_yields_for_a_while_then_sleeps() {
        let mut yield_policy = IdleYields::new(1_000);
        assert!(yield_policy.step(0));
        assert!(!yield_policy.step(1_000));
        assert!(!IdleYields::new(0).step(0));
    }
}
