//! A repeatable random source: a small generator (splitmix64) whose whole sequence follows from its
//! seed.

/// A sequence of numbers that a seed decides.
#[derive(Debug, Clone)]
pub(super) struct FaultSampler {
    state: u64,
}

impl FaultSampler {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub(super) fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `limit`, inclusive.
    pub(super) fn upto(&mut self, limit: u64) -> u64 {
        // The bias of the remainder is far below anything a test could see.
        if limit == u64::MAX { self.roll() } else { self.roll() % (limit + 1) }
    }

    /// Returns true with a probability from 0 to 1. One number is taken at any probability, so that
    /// changing one leaves the sequence of the others as it was.
    pub(super) fn comes(&mut self, chance: f64) -> bool {
        let unit = (self.roll() >> 11) as f64 / (1u64 << 53) as f64;
        unit < chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_chances_come_as_often_as_they_say() {
        let course = |seed| {
            let mut sampler = FaultSampler::new(seed);
            (0..100_000).filter(|_| sampler.comes(0.05)).count()
        };
        assert_eq!(course(7), course(7));
        assert!((4_700..5_300).contains(&course(7)), "{}", course(7));
        let mut sampler = FaultSampler::new(1);
        assert!(!(0..1000).any(|_| sampler.comes(0.0)) && (0..1000).all(|_| sampler.comes(1.0)));
        assert!((0..1000).all(|_| sampler.upto(3) <= 3));
    }
}
