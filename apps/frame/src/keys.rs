//! Keys to sort, in the distributions by which sorts are compared, and their serial radix sort.

use crate::random::Random;
use clap::ValueEnum;

/// Distribution of 32-bit keys over `p` ranks, each of which holds a block of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyKind {
    /// All keys equally likely
    Uniform,
    /// Averages of four uniform ones
    Gaussian,
    /// All keys zero
    Zero,
    /// Each rank's block is in p parts, of which the n-th has the n-th range of keys
    Bucket,
    /// As bucket, but parts only for the two ranks of a group half of all ranks away
    GGroup,
    /// Each rank's block is in the range of one other rank
    Staggered,
    /// Each rank's block is in order, so that all ranks send to the same one at a time
    WorstLoad,
    /// 32 distinct keys
    Duplicates,
}

impl KeyKind {
    /// Every distribution.
    pub const ALL: [Self; 8] = [
        Self::Uniform,
        Self::Gaussian,
        Self::Zero,
        Self::Bucket,
        Self::GGroup,
        Self::Staggered,
        Self::WorstLoad,
        Self::Duplicates,
    ];

    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Zero => "zero",
            Self::Bucket => "bucket",
            Self::GGroup => "g-group",
            Self::Staggered => "staggered",
            Self::WorstLoad => "worst-load",
            Self::Duplicates => "duplicates",
        }
    }
}

/// Ranks of a group in [`KeyKind::GGroup`].
const GROUP: u64 = 2;

/// The keys of an input. Each is a function of its index.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// Distribution of the keys.
    pub kind: KeyKind,
    /// Number of keys.
    pub count: u64,
    /// Ranks that hold a block each.
    pub ranks: u64,
    /// Seed of what is random.
    pub seed: u64,
}

impl Keys {
    /// Returns the largest number of keys that a rank holds: the length of all blocks but the last.
    pub fn block(&self) -> u64 {
        self.count.div_ceil(self.ranks.max(1)).max(1)
    }

    /// Returns the indexes of the keys of a rank.
    pub fn part(&self, rank: u64) -> std::ops::Range<u64> {
        let begin = (rank * self.block()).min(self.count);
        begin..(begin + self.block()).min(self.count)
    }

    /// Returns the keys of a rank.
    pub fn of(&self, rank: u64) -> impl Iterator<Item = u32> + '_ {
        self.part(rank).map(|index| self.key(index))
    }

    /// Returns the key of an index.
    pub fn key(&self, index: u64) -> u32 {
        let (rank, at) = (index / self.block(), index % self.block());
        let mut random = Random::from(self.seed, index * 4);
        let draw = &mut || random.number() >> 32;
        // A key in the range of a rank, which is the p-th part of all keys.
        let within = |of: u64, draw: &mut dyn FnMut() -> u64| {
            let (low, high) = ((of << 32) / self.ranks, ((of + 1) << 32) / self.ranks);
            low + ((draw() * (high - low)) >> 32)
        };
        let part_of = |parts: u64| at * parts / self.block();
        let key = match self.kind {
            KeyKind::Uniform => draw(),
            KeyKind::Gaussian => (0..4).map(|_| draw()).sum::<u64>() / 4,
            KeyKind::Zero => 0,
            KeyKind::Bucket => within(part_of(self.ranks), draw),
            KeyKind::GGroup => {
                let first = rank / GROUP * GROUP + self.ranks / 2;
                within((first + part_of(GROUP)) % self.ranks, draw)
            }
            KeyKind::Staggered if rank < self.ranks / 2 => within(2 * rank + 1, draw),
            KeyKind::Staggered => within(2 * (rank - self.ranks / 2) % self.ranks, draw),
            KeyKind::WorstLoad => (at << 32) / self.block(),
            KeyKind::Duplicates => (draw() >> 27) * 0x0421_0843,
        };
        debug_assert!(key <= u64::from(u32::MAX), "keys have 32 bits");
        key as u32
    }
}

/// Bits of a digit.
const DIGIT: u32 = 11;

/// Sorts keys by digits of 11 bits, from the lowest: base of speed-ups, and what ranks do with
/// their own keys.
pub fn sort_keys(keys: &mut Vec<u32>) {
    let mut other = vec![0; keys.len()];
    for shift in [0, DIGIT, 2 * DIGIT] {
        let digit = |key: u32| (key >> shift) as usize & ((1 << DIGIT) - 1);
        let mut next = vec![0_usize; 1 << DIGIT];
        keys.iter().for_each(|&key| next[digit(key)] += 1);
        let mut before = 0;
        for place in &mut next {
            before += std::mem::replace(place, before);
        }
        for &key in keys.iter() {
            let place = &mut next[digit(key)];
            other[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyKind, Keys, sort_keys};
    use crate::random::Random;

    fn of(kind: KeyKind, count: u64, ranks: u64) -> Vec<u32> {
        let keys = Keys { kind, count, ranks, seed: 5 };
        (0..ranks).flat_map(|rank| keys.of(rank).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn every_index_belongs_to_one_rank() {
        for kind in KeyKind::ALL {
            for (count, ranks) in [(0, 3), (1, 4), (10, 3), (1000, 1), (1001, 8)] {
                assert_eq!(of(kind, count, ranks).len() as u64, count, "{kind:?}");
            }
        }
    }

    #[test]
    fn distributions_have_their_shapes() {
        let uniform = of(KeyKind::Uniform, 40_000, 4);
        let high = |keys: &[u32]| keys.iter().filter(|&&key| key >= 3 << 30).count();
        assert!((9_000..11_000).contains(&high(&uniform)), "a quarter: {}", high(&uniform));
        let gaussian = of(KeyKind::Gaussian, 40_000, 4);
        assert!(high(&gaussian) < 3_000, "few far out: {}", high(&gaussian));
        assert!(of(KeyKind::Zero, 10, 2).iter().all(|&key| key == 0));
        let mut few = of(KeyKind::Duplicates, 10_000, 2);
        few.sort_unstable();
        few.dedup();
        assert_eq!(few.len(), 32);
        assert!(of(KeyKind::WorstLoad, 1000, 4)[..250].is_sorted());
        let bucket = of(KeyKind::Bucket, 400, 4);
        assert!((0..400).all(|at| bucket[at] >> 30 == (at % 100 / 25) as u32));
        let staggered = of(KeyKind::Staggered, 400, 4);
        assert!((0..400).all(|at| staggered[at] >> 30 == [1, 3, 0, 2][at / 100]));
        let groups = of(KeyKind::GGroup, 400, 4);
        assert!((0..400).all(|at| groups[at] >> 31 == 1 - (at / 200) as u32));
    }

    #[test]
    fn keys_are_sorted() {
        for count in [0, 1, 2, 5000] {
            let mut random = Random::from(count, 0);
            let mut keys: Vec<_> = (0..count).map(|_| random.number() as u32).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort_keys(&mut keys);
            assert_eq!(keys, expected);
        }
    }
}
