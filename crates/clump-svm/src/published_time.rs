//! Time that an interface has published to its ranks, in memory of the node: a word, and a record.
//! The interface changes it while it has the lock of the node ([`crate::store_lock`]).
//!
//! That of the node says what its copies may depend on. That of a rank says which notices have been
//! applied for it, and which answer had the last page that they took away.

use crate::time_record::{TIME_WORDS, TimeRecord};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Words of a published time.
const WORDS: usize = 1 + TIME_WORDS;
/// Bytes of a published time.
pub(crate) const PUBLISHED_BYTES: u64 = 8 * WORDS as u64;

/// Mark of a record that says nothing, and of one that says something, in the first word; of the
/// latter the rest of the word is a number.
const UNKNOWN: u64 = 0;
const KNOWN: u64 = 1 << 32;

/// Told time of a node or of a rank, as either side sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedTime<'a> {
    words: &'a [AtomicU64],
}

impl<'a> PublishedTime<'a> {
    /// Returns the one at a place, if the region is mapped there.
    pub(crate) fn over(cells: &'a Cells, at: u64) -> Option<Self> {
        cells.words(at, WORDS).map(|words| Self { words })
    }

    /// Tells a time, and the number of an answer; or that there is none.
    pub(crate) fn publish(&self, told: Option<(&TimeRecord, u32)>) {
        if let Some((time, _)) = told {
            time.store(&self.words[1..]);
        }
        let head = told.map_or(UNKNOWN, |(_, answer)| KNOWN | u64::from(answer));
        self.words[0].store(head, Ordering::Relaxed);
    }

    /// Returns true if there is a time, and this was the number of the answer.
    pub(crate) fn is_of(&self, answer: u32) -> bool {
        self.words[0].load(Ordering::Relaxed) == KNOWN | u64::from(answer)
    }

    /// Returns the time, where there is one.
    pub(crate) fn time(&self) -> TimeRecord {
        TimeRecord::load(&self.words[1..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_hlrc::VectorTime;

    #[test]
    fn a_time_is_of_the_answer_that_it_was_told_with() {
        let words: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let told = PublishedTime { words: &words };
        assert!(!told.is_of(0), "nothing is told at first");
        let mut time = VectorTime::zero(2);
        time.raise(1, 5);
        let record = TimeRecord::of(&time).unwrap();
        told.publish(Some((&record, 7)));
        assert!(told.is_of(7) && !told.is_of(6));
        assert_eq!(told.time(), record);
        told.publish(None);
        assert!(!told.is_of(7) && !told.is_of(0));
    }
}
