//! Random numbers that do not depend on the number of ranks.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Generator of 64-bit numbers (splitmix64). The n-th number is a function of seed and n.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

/// Distance of two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Creates the generator that gives the numbers of `seed` from the n-th on.
    pub fn from(seed: u64, n: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed.wrapping_add(n.wrapping_mul(STEP))))
    }

    /// Returns the next number.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns the next number, scaled down below 1.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the next number, scaled down below `limit`.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.number()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn shares_are_below_one() {
        let mut random = Random::from(5, 0);
        let shares: Vec<f64> = (0..1000).map(|_| random.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        assert!((shares.iter().sum::<f64>() / 1000.0 - 0.5).abs() < 0.05);
    }

    #[test]
    fn numbers_can_be_skipped() {
        let mut whole = Random::from(7, 0);
        let all: Vec<_> = (0..100).map(|_| whole.number()).collect();
        for (n, number) in all.into_iter().enumerate() {
            assert_eq!(Random::from(7, n as u64).number(), number);
        }
    }

    #[test]
    fn numbers_stay_below_the_limit() {
        let mut random = Random::from(1, 0);
        let mut seen = [0; 7];
        (0..700).for_each(|_| seen[random.below(7)] += 1);
        assert!(seen.iter().all(|&times| times > 40), "{seen:?}");
    }
}
