//! Counts of the messages that the interface of a node has sent to others, in memory of the node.

use crate::breakdown::SentMessages;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Places in the first page of the region of mailboxes.
const ALL_AT: u64 = 128;
const DIFFS_AT: u64 = 136;

/// The words of a node, as either side sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentCounts<'a> {
    cells: &'a Cells,
}

impl<'a> SentCounts<'a> {
    /// Returns the counts in the region of mailboxes.
    pub(crate) fn over(cells: &'a Cells) -> Self {
        Self { cells }
    }

    fn word(self, at: u64) -> Option<&'a AtomicU64> {
        let word = self.cells.word(at);
        debug_assert!(word.is_some(), "the region is mapped");
        word
    }

    /// Counts messages, some of them with diffs.
    pub(crate) fn add(self, sent: SentMessages) {
        debug_assert!(sent.diffs <= sent.all, "diffs are messages");
        for (at, count) in [(ALL_AT, sent.all), (DIFFS_AT, sent.diffs)] {
            if let Some(word) = self.word(at) {
                word.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Returns the counts.
    pub(crate) fn read(self) -> SentMessages {
        let count = |at: u64| self.word(at).map_or(0, |word| word.load(Ordering::Relaxed));
        SentMessages { all: count(ALL_AT), diffs: count(DIFFS_AT) }
    }
}
