//! Vector times in a fixed number of words: in memory that a node's ranks share with its interface,
//! and behind a page that a rank has fetched.

use clump_hlrc::VectorTime;
use clump_os::sync::{AtomicU64, Ordering};

/// Words of a record, each of which has the intervals of two nodes.
pub(crate) const TIME_WORDS: usize = 16;
/// Bytes of a record.
pub(crate) const TIME_BYTES: usize = 8 * TIME_WORDS;

/// Time at which only the first nodes of a job have ended intervals. Needs no memory but its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeRecord {
    words: [u64; TIME_WORDS],
}

impl TimeRecord {
    /// Returns the record of a time; none if it has an interval of a node without a place.
    pub(crate) fn of(time: &VectorTime) -> Option<Self> {
        let mut record = Self::default();
        for node in 0..time.nodes() {
            let interval = time.get(node as u16);
            if interval != 0 {
                *record.words.get_mut(node / 2)? |= u64::from(interval) << (node % 2 * 32);
            }
        }
        Some(record)
    }

    /// Returns true if every interval that `other` knows is known here.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        self.words.iter().zip(other.words).all(|(&mine, theirs)| {
            let (mine, theirs) = (halves(mine), halves(theirs));
            mine.0 >= theirs.0 && mine.1 >= theirs.1
        })
    }

    /// Writes the record into shared words; what publishes them publishes it.
    pub(crate) fn store(&self, words: &[AtomicU64]) {
        debug_assert!(words.len() >= TIME_WORDS, "there is room");
        let pairs = words.iter().zip(self.words);
        pairs.for_each(|(word, own)| word.store(own, Ordering::Relaxed));
    }

    /// Reads a record from shared words.
    pub(crate) fn load(from: &[AtomicU64]) -> Self {
        debug_assert!(from.len() >= TIME_WORDS, "there is one");
        let mut words = [0; TIME_WORDS];
        let pairs = words.iter_mut().zip(from);
        pairs.for_each(|(own, word)| *own = word.load(Ordering::Relaxed));
        Self { words }
    }

    /// Returns the record as bytes of an answer.
    pub(crate) fn to_bytes(self) -> [u8; TIME_BYTES] {
        let mut bytes = [0; TIME_BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(self.words).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }

    /// Reads what [`TimeRecord::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8; TIME_BYTES]) -> Self {
        let mut words = [0; TIME_WORDS];
        let (chunks, _) = bytes.as_chunks::<8>();
        words.iter_mut().zip(chunks).for_each(|(word, from)| *word = u64::from_le_bytes(*from));
        Self { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: usize = 2 * TIME_WORDS;

    fn time(entries: &[(u16, u32)]) -> VectorTime {
        let mut time = VectorTime::zero(NODES + 1);
        entries.iter().for_each(|&(node, interval)| time.raise(node, interval));
        time
    }

    #[test]
    fn a_record_covers_what_its_time_covers() {
        let all = [
            time(&[]),
            time(&[(0, 3)]),
            time(&[(0, 2), (1, u32::MAX)]),
            time(&[(1, 1), (31, 7)]),
            time(&[(0, 3), (1, u32::MAX), (31, 8)]),
        ];
        for one in &all {
            for other in &all {
                let [own, theirs] = [one, other].map(|time| TimeRecord::of(time).unwrap());
                assert_eq!(own.covers(&theirs), one.covers(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = TimeRecord::of(&time(&[(0, 1), (3, u32::MAX), (30, 7)])).unwrap();
        let words: Vec<_> = (0..TIME_WORDS).map(|_| AtomicU64::new(1)).collect();
        written.store(&words);
        assert_eq!(TimeRecord::load(&words), written);
        assert_eq!(TimeRecord::from_bytes(&written.to_bytes()), written);
    }

    #[test]
    fn a_time_of_a_node_without_a_place_has_no_record() {
        assert!(TimeRecord::of(&time(&[(NODES as u16 - 1, 1)])).is_some());
        assert_eq!(TimeRecord::of(&time(&[(NODES as u16, 1)])), None);
        assert!(TimeRecord::of(&VectorTime::zero(4096)).is_some());
    }
}
