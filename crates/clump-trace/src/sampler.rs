//! Choice of the messages to time: one in eight on average, at random. Every eighth would be wrong
//! wherever programs repeat themselves: where requests and answers alternate it would time only the
//! ones and never the others (RFC 2330, 11.1).

/// One message in this many is timed, on average.
const EVERY: u32 = 8;

/// Random source that chooses the messages to time.
#[derive(Debug)]
pub struct Sampler(u32);

impl Sampler {
    /// Creates a source with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed as u32)
    }

    /// Returns true if this message is timed.
    #[inline]
    pub fn is_timed(&mut self) -> bool {
        self.roll() < u32::MAX / EVERY
    }

    /// Returns the number of messages, or turns, until the next one that is timed: any number from
    /// 1 on, `mean` on average.
    pub fn gap(&mut self, mean: u32) -> u32 {
        1 + (self.roll() >> 16) % (2 * mean - 1)
    }

    #[inline]
    fn roll(&mut self) -> u32 {
        // A linear congruence (Knuth, The Art of Computer Programming, 3.3.4): its upper bits are
        // good enough.
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_eight_is_timed_of_all_and_of_every_other() {
        let mut sampler = Sampler::new(7);
        let timed: Vec<bool> = (0..80_000).map(|_| sampler.is_timed()).collect();
        for (first, step) in [(0, 1), (0, 2), (1, 2), (3, 8), (5, 16)] {
            let some: Vec<bool> = timed.iter().copied().skip(first).step_by(step).collect();
            let share = some.iter().filter(|timed| **timed).count() as f64 / some.len() as f64;
            assert!((0.11..0.14).contains(&share), "every {step}th from {first}: {share}");
        }
    }
}
