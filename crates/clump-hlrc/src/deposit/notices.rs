//! Notices of one interval, as words that are deposited at all nodes: its time, its rank, the homes
//! that its bytes go to, and its pages.

use std::ops::Range;

/// Position and length of notices, as the second word of a slot.
const LENGTH_BITS: u32 = 24;
/// Length of notices that found no room.
const NO_ROOM: u64 = (1 << LENGTH_BITS) - 1;

/// Notices of an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notices {
    /// Intervals of each node that the writer had seen, its own among them.
    pub time: Vec<u64>,
    /// The writer among the ranks of the job.
    pub rank: u32,
    /// Other nodes that are homes of these pages, in ascending order.
    pub homes: Vec<u16>,
    /// Pages that were written, in ascending runs.
    pub pages: Vec<Range<u32>>,
}

impl Notices {
    /// Returns notices of pages, which ascend, as their homes do.
    pub fn of(
        time: Vec<u64>,
        (rank, homes): (u32, Vec<u16>),
        pages: impl IntoIterator<Item = u32>,
    ) -> Self {
        debug_assert!(homes.is_sorted(), "homes ascend");
        let mut runs: Vec<Range<u32>> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                last => {
                    debug_assert!(last.is_none_or(|last| last.end < page), "pages ascend");
                    runs.push(page..page + 1);
                }
            }
        }
        Self { time, rank, homes, pages: runs }
    }

    /// Returns the notices as words.
    pub fn to_words(&self) -> Vec<u64> {
        let runs = self.pages.iter().map(|run| u64::from(run.start) | u64::from(run.end) << 32);
        let mut homes = vec![0_u64; home_words(self.time.len())];
        for &home in &self.homes {
            if let Some(word) = homes.get_mut(usize::from(home) / 64) {
                *word |= 1 << (home % 64);
            }
        }
        let head = self.time.iter().copied().chain([u64::from(self.rank)]).chain(homes);
        head.chain(runs).collect()
    }

    /// Reads what [`Notices::to_words`] wrote, for a job of so many nodes and ranks with a
    /// heap of `pages` pages; none if it is nothing of that kind.
    pub fn from_words(words: &[u64], (nodes, ranks): (u16, u32), pages: u32) -> Option<Self> {
        let (time, rest) = words.split_at_checked(usize::from(nodes))?;
        let (&rank, rest) = rest.split_first()?;
        let (homes, runs) = rest.split_at_checked(home_words(usize::from(nodes)))?;
        let is_home = |home: &u16| homes[usize::from(*home) / 64] >> (home % 64) & 1 != 0;
        let homes = (0..nodes).filter(is_home).collect();
        let run = |word: &u64| {
            let run = *word as u32..(*word >> 32) as u32;
            (run.start < run.end && run.end <= pages).then_some(run)
        };
        let pages = runs.iter().map(run).collect::<Option<Vec<_>>>()?;
        let rank = u32::try_from(rank).ok().filter(|&rank| rank < ranks)?;
        Some(Self { time: time.to_vec(), rank, homes, pages })
    }
}

/// Returns the words that have a bit for each node.
fn home_words(nodes: usize) -> usize {
    nodes.div_ceil(64)
}

/// Place of an interval's notices among all of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoticePlace {
    /// First word.
    pub(super) position: u64,
    /// Number of words; none for notices that found no room.
    pub(super) length: Option<u64>,
}

impl NoticePlace {
    /// Returns the place as a word.
    pub(super) fn pack(self) -> u64 {
        debug_assert!(self.position < 1 << (u64::BITS - LENGTH_BITS), "positions do not overflow");
        debug_assert!(self.length.is_none_or(|length| length < NO_ROOM), "notices are short");
        self.position << LENGTH_BITS | self.length.unwrap_or(NO_ROOM)
    }

    /// Reads what [`NoticePlace::pack`] wrote.
    pub(super) fn unpack(word: u64) -> Self {
        let length = word & NO_ROOM;
        let position = word >> LENGTH_BITS;
        Self { position, length: (length != NO_ROOM).then_some(length) }
    }

    /// Returns the position behind the notices.
    pub(super) fn end(self) -> u64 {
        self.position + self.length.unwrap_or(0)
    }
}

/// Returns the third word of a slot, which shows that one changed while it was read.
pub(super) fn slot_check(number: u64, place: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.rotate_left(17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_as_they_were_written() {
        let notices = Notices::of(vec![3, 0, 9], (4, vec![0, 2]), [1, 2, 3, 7, 9, 10]);
        assert_eq!(notices.pages, [1..4, 7..8, 9..11]);
        let words = notices.to_words();
        assert_eq!(Notices::from_words(&words, (3, 5), 11), Some(notices));
        assert_eq!(Notices::from_words(&words, (3, 5), 10), None, "a page beyond the heap");
        assert_eq!(Notices::from_words(&words, (3, 4), 11), None, "a rank beyond the job");
        assert_eq!(Notices::from_words(&words[..2], (3, 5), 11), None, "no time");
        let empty = [0, 0, 0, 1, 0, 5 | 5 << 32];
        assert_eq!(Notices::from_words(&empty, (3, 5), 11), None, "an empty run");
        let many = Notices::of(vec![1; 130], (600, vec![0, 63, 64, 129]), [5]);
        assert_eq!(Notices::from_words(&many.to_words(), (130, 601), 6), Some(many));
    }

    #[test]
    fn places_are_read_as_they_were_written() {
        for length in [Some(0), Some(77), None] {
            let place = NoticePlace { position: 1 << 39, length };
            assert_eq!(NoticePlace::unpack(place.pack()), place);
        }
    }
}
