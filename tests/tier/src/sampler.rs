//! Random numbers that one seed determines, the same on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::ops::RangeInclusive;

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Sampler(SplitMix64);

impl Sampler {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `limit`, or 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    /// Returns an index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number of `range`.
    pub fn of(&mut self, range: RangeInclusive<u32>) -> u32 {
        let span = u64::from(range.end() - range.start()) + 1;
        range.start() + self.below(span) as u32
    }

    /// Returns one of `all`, which is not empty.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// Returns true once in `odds`.
    pub fn once_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    /// Returns true `per_mille` times in a thousand.
    pub fn hits(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

#[cfg(test)]
mod tests {
    use super::Sampler;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut sampler = Sampler::new(0);
        assert_eq!(sampler.number(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(sampler.number(), 0x6e78_9e6a_a1b9_65f4);
        // Seeds of earlier findings still mean the same jobs.
        let mut sampler = Sampler::new(7);
        let numbers = [(); 3].map(|()| sampler.number());
        let due = [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c, 0xe698_4080_bab1_2a02];
        assert_eq!(numbers, due);
    }

    #[test]
    fn each_of_a_list_is_drawn() {
        let mut sampler = Sampler::new(7);
        let drawn: Vec<u8> = (0..200).map(|_| sampler.one_of(&[1, 2, 3])).collect();
        assert!([1, 2, 3].iter().all(|one| drawn.contains(one)) && drawn.iter().all(|n| *n < 4));
    }
}
