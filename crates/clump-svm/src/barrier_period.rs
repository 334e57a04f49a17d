//! Period between two barriers of all ranks, in memory of the node: the interface says if the node
//! has anything that others are to see, so that ranks can do with a barrier of messages.

use crate::node_word::{LAST_UNCHANGED_AT, UNCHANGED_AT, node_word};
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;

/// The words of a node, as either side sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BarrierPeriod<'a> {
    cells: &'a Cells,
}

impl<'a> BarrierPeriod<'a> {
    /// Returns the words in the region of mailboxes.
    pub(crate) fn over(cells: &'a Cells) -> Self {
        Self { cells }
    }

    /// Notes, at the interface, if the node has written and seen nothing since the last barrier;
    /// before anybody learns of what it has.
    pub(crate) fn note(self, unchanged: bool) {
        if let Some(word) = node_word(self.cells, UNCHANGED_AT) {
            // SYNC 37: pairs with is_unchanged
            word.store(u64::from(unchanged), Ordering::Release);
        }
    }

    /// Notes, at the interface, that a barrier has ended, and if no node had anything to tell.
    pub(crate) fn note_barrier(self, unchanged: bool) {
        if let Some(word) = node_word(self.cells, LAST_UNCHANGED_AT) {
            // The answers to the ranks publish it.
            word.store(u64::from(unchanged), Ordering::Relaxed);
        }
    }

    /// Returns true if the node has written and seen nothing since the last barrier, as far as its
    /// interface knows.
    pub(crate) fn is_unchanged(self) -> bool {
        // SYNC 37: pairs with note
        node_word(self.cells, UNCHANGED_AT).is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Returns true if the last barrier by interfaces ended a period in which no node had changed;
    /// the same at all ranks that have passed it, until they all arrive at the next.
    pub(crate) fn was_last_unchanged(self) -> bool {
        node_word(self.cells, LAST_UNCHANGED_AT)
            .is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}
