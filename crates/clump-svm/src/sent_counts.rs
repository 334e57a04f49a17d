//! Counts of the messages that the interface of a node has sent to others, in memory of the node.

use crate::breakdown::SentMessages;
use crate::node_word::{SENT_AT, SENT_DIFFS_AT, node_word};
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;

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

    /// Counts messages, some of them with diffs.
    pub(crate) fn add(self, sent: SentMessages) {
        debug_assert!(sent.diffs <= sent.all, "diffs are messages");
        for (at, count) in [(SENT_AT, sent.all), (SENT_DIFFS_AT, sent.diffs)] {
            if let Some(word) = node_word(self.cells, at) {
                word.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Returns the counts.
    pub(crate) fn read(self) -> SentMessages {
        let count =
            |at: u64| node_word(self.cells, at).map_or(0, |word| word.load(Ordering::Relaxed));
        SentMessages { all: count(SENT_AT), diffs: count(SENT_DIFFS_AT) }
    }
}
