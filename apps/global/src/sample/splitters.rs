//! Splitters: the keys at which the ranges of ranks begin.

use clump_app_frame::keys::Keys;
use clump_app_frame::random::Random;

/// Keys and their indexes, at which the ranges of all ranks but the first begin.
#[derive(Debug, Clone)]
pub struct Splitters(Vec<u64>);

/// Returns a key together with its index, which distinguishes equal keys.
fn ranked(key: u32, index: u64) -> u64 {
    debug_assert!(index <= u64::from(u32::MAX), "inputs have at most 2^32 keys");
    u64::from(key) << 32 | index
}

/// Draws `count` keys of a rank's part, with their indexes; the whole part if that is not longer.
pub fn sample(keys: &Keys, rank: u64, count: usize) -> Vec<u64> {
    let part = keys.part(rank);
    let len = part.end - part.start;
    if len <= count as u64 {
        return part.map(|index| ranked(keys.key(index), index)).collect();
    }
    // One of each stretch of the part, at a random place in it.
    let mut random = Random::from(keys.seed ^ 0x5a3b, rank * count as u64);
    let begin = |n: u64| part.start + len * n / count as u64;
    (0..count as u64)
        .map(|n| begin(n) + random.below((begin(n + 1) - begin(n)) as usize) as u64)
        .map(|index| ranked(keys.key(index), index))
        .collect()
}

impl Splitters {
    /// Chooses those of `ranks` ranks from the samples of all.
    pub fn of(mut samples: Vec<u64>, ranks: usize) -> Self {
        samples.sort_unstable();
        let at = |rank: usize| samples.get(samples.len() * rank / ranks).copied();
        Self((1..ranks).map(|rank| at(rank).unwrap_or(u64::MAX)).collect())
    }

    /// Returns them as words, one for each rank but the first.
    pub fn words(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// Returns those of `ranks` ranks before they are known.
    pub fn unknown(ranks: usize) -> Self {
        Self(vec![0; ranks.saturating_sub(1)])
    }

    /// Returns the rank of a key.
    #[inline]
    pub fn rank(&self, key: u32, index: u64) -> usize {
        let ranked = ranked(key, index);
        self.0.partition_point(|&splitter| splitter <= ranked)
    }
}

#[cfg(test)]
mod tests {
    use super::{Splitters, sample};
    use clump_app_frame::keys::{KeyKind, Keys};

    #[test]
    fn any_input_is_divided_evenly() {
        for kind in KeyKind::ALL {
            for ranks in [1_u64, 2, 5, 8] {
                let keys = Keys { kind, count: 40_000, ranks, seed: 3 };
                let samples = (0..ranks).flat_map(|rank| sample(&keys, rank, 128)).collect();
                let splitters = Splitters::of(samples, ranks as usize);
                let mut counts = vec![0_u64; ranks as usize];
                (0..keys.count).for_each(|i| counts[splitters.rank(keys.key(i), i)] += 1);
                let most = counts.iter().max().unwrap() * ranks;
                assert!(most * 2 <= keys.count * 3, "{kind:?}, {ranks} ranks: {counts:?}");
            }
        }
    }

    #[test]
    fn few_keys_are_their_own_sample() {
        let keys = Keys { kind: KeyKind::Uniform, count: 5, ranks: 2, seed: 3 };
        assert_eq!(sample(&keys, 0, 100).len(), 3);
        assert_eq!(sample(&keys, 1, 100).len(), 2);
        let splitters = Splitters::of(Vec::new(), 3);
        assert_eq!(splitters.rank(7, 1), 0);
    }
}
