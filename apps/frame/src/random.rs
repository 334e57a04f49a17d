//! Random numbers that do not depend on the number of ranks.

/// Generator of 64-bit numbers (splitmix64). The n-th number is a function of seed and n.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// Distance of two states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Creates the generator that gives the numbers of `seed` from the n-th on.
    pub fn from(seed: u64, n: u64) -> Self {
        Self(seed.wrapping_add(n.wrapping_mul(STEP)))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns the next number, scaled down below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.number()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

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
