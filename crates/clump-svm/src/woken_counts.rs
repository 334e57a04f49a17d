//! Counts of the requests that the protocol thread of a node was woken for, in memory of the node.

use crate::node_word::{WOKEN_AT, node_word};
use crate::protocol_step::{REQUEST_KINDS, RequestKind};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Counts by kind, at the head of the region of mailboxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WokenCounts<'a> {
    cells: &'a Cells,
}

impl<'a> WokenCounts<'a> {
    /// Returns the counts in the region of mailboxes, whose first page is free for them.
    pub(crate) fn over(cells: &'a Cells) -> Self {
        Self { cells }
    }

    fn word(self, kind: RequestKind) -> Option<&'a AtomicU64> {
        node_word(self.cells, WOKEN_AT + kind as u64 * 8)
    }

    /// Counts a request.
    pub(crate) fn count(self, kind: RequestKind) {
        if let Some(word) = self.word(kind) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts of all kinds, in their order.
    pub(crate) fn read(self) -> [u64; REQUEST_KINDS.len()] {
        REQUEST_KINDS.map(|kind| self.word(kind).map_or(0, |word| word.load(Ordering::Relaxed)))
    }
}
