//! Random numbers that one seed determines, for programs that all ranks run alike.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct Sampler(SplitMix64);

impl Sampler {
    /// Creates the generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Returns an index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}
