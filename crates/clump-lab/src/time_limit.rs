//! Bound of the time of a measurement, however slow the measured path is.

use crate::pair::Pair;
use std::time::Duration;

/// Fewest samples that have a 95 % interval.
pub const FEWEST_SAMPLES: usize = 6;

/// Time after which a measurement takes no more samples than it needs.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit {
    begun: u64,
    limit_ns: f64,
}

impl TimeLimit {
    /// Starts it now.
    pub fn start<P: Pair>(pair: &mut P, limit: Duration) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a limit is far below 2^53 ns")]
        let limit_ns = limit.as_nanos() as f64;
        Self { begun: pair.now(), limit_ns }
    }

    /// Returns true if another sample may be taken when there are `samples` of those `wanted`: all
    /// within the limit, and beyond it those without which there is no interval.
    pub fn allows<P: Pair>(&self, pair: &mut P, samples: usize, wanted: usize) -> bool {
        let now = pair.now();
        let late = pair.ns(now.wrapping_sub(self.begun)) > self.limit_ns;
        samples < if late { wanted.min(FEWEST_SAMPLES) } else { wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;

    #[test]
    fn beyond_the_limit_few_samples_suffice() {
        let mut pair = FakePair::default();
        let limit = TimeLimit::start(&mut pair, Duration::from_millis(1));
        assert!(limit.allows(&mut pair, 20, 21) && !limit.allows(&mut pair, 21, 21));
        pair.delay(1_000_000);
        assert!(limit.allows(&mut pair, 5, 21) && !limit.allows(&mut pair, 6, 21));
        assert!(!limit.allows(&mut pair, 3, 3), "no more than are wanted");
    }
}
