//! A random sequence that one number determines.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The sequence (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Sampler(SplitMix64);

impl Sampler {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "nothing is below zero");
        self.next() % bound.max(1)
    }

    /// Returns one of `all`, which is not empty.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let bound = u64::try_from(all.len()).unwrap_or(u64::MAX);
        all[usize::try_from(self.below(bound)).unwrap_or(0)]
    }

    /// Returns `true` once in `odds`.
    pub fn once_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_sequence() {
        let of = |seed| {
            let mut sampler = Sampler::new(seed);
            [0; 8].map(|_| sampler.next())
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        // Seeds of earlier findings still mean the same jobs.
        assert_eq!(
            of(7)[..3],
            [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c, 0xe698_4080_bab1_2a02]
        );
        let mut sampler = Sampler::new(7);
        let drawn: Vec<u8> = (0..200).map(|_| sampler.one_of(&[1, 2, 3])).collect();
        assert!([1, 2, 3].iter().all(|one| drawn.contains(one)) && drawn.iter().all(|n| *n < 4));
    }
}
