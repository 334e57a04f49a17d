//! Period between two barriers of all ranks, in memory of the node: the interface says if the node
//! has anything that others are to see, so that ranks can do with a barrier of messages.

use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Places in the first page of the region of mailboxes.
const UNCHANGED_AT: u64 = 64;
const LAST_UNCHANGED_AT: u64 = 72;

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

    fn word(self, at: u64) -> Option<&'a AtomicU64> {
        let word = self.cells.word(at);
        debug_assert!(word.is_some(), "the region is mapped");
        word
    }

    /// Notes, at the interface, if the node has written and seen nothing since the last barrier;
    /// before anybody learns of what it has.
    pub(crate) fn note(self, unchanged: bool) {
        if let Some(word) = self.word(UNCHANGED_AT) {
            // SYNC 37: pairs with is_unchanged
            word.store(u64::from(unchanged), Ordering::Release);
        }
    }

    /// Notes, at the interface, that a barrier has ended, and if no node had anything to tell.
    pub(crate) fn note_barrier(self, unchanged: bool) {
        if let Some(word) = self.word(LAST_UNCHANGED_AT) {
            // The answers to the ranks publish it.
            word.store(u64::from(unchanged), Ordering::Relaxed);
        }
    }

    /// Returns true if the node has written and seen nothing since the last barrier, as far as its
    /// interface knows.
    pub(crate) fn is_unchanged(self) -> bool {
        // SYNC 37: pairs with note
        self.word(UNCHANGED_AT).is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Returns true if the last barrier by interfaces ended a period in which no node had changed;
    /// the same at all ranks that have passed it, until they all arrive at the next.
    pub(crate) fn was_last_unchanged(self) -> bool {
        self.word(LAST_UNCHANGED_AT).is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}
