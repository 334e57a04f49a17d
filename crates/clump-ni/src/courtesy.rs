//! For how long a proxy with nothing to do yields the processor before it sleeps.

use clump_shm::yielding::YieldPolicy;

/// The yields of a proxy.
#[derive(Debug)]
pub(crate) struct Courtesy {
    /// Longest idle time with yields, in ns; 0: none.
    most_ns: u64,
    yields: YieldPolicy,
}

impl Courtesy {
    pub(crate) fn new(most_ns: u64) -> Self {
        Self { most_ns, yields: YieldPolicy::new(false) }
    }

    /// Yields once, unless this has been idle for too long, or yields go to somebody who computes; false when it is
    /// time to sleep.
    pub(crate) fn step(&mut self, idle_ns: u64) -> bool {
        if idle_ns >= self.most_ns || !self.yields.is_worthwhile() {
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
        let mut courtesy = Courtesy::new(1_000);
        assert!(courtesy.step(0));
        assert!(!courtesy.step(1_000));
        assert!(!Courtesy::new(0).step(0));
    }
}
