//! Words that ranks and the interface of their node change and watch together: those of flags, and
//! any word that a request of another node waits for.

use clump_os::sync::{AtomicU64, Ordering, fence};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::rank::RankBlock;

/// Offset in a flag of the number of its waiters.
const WATCHERS: u64 = 8;
/// Bytes of a flag that belong to it.
pub const FLAG_BYTES: u64 = 16;

/// The words of a flag of this node: its value, and its number of waiters.
#[derive(Debug, Clone, Copy)]
pub struct FlagWords<'a> {
    word: &'a AtomicU64,
    watchers: &'a AtomicU64,
}

impl<'a> FlagWords<'a> {
    /// Returns the flag at `offset` of a segment; `None` when it is not inside, or not aligned.
    pub fn over(cells: &'a Cells, offset: u64) -> Option<Self> {
        let watchers = cells.word(offset.saturating_add(WATCHERS))?;
        Some(Self { word: cells.word(offset)?, watchers })
    }

    /// Sets the flag, or adds to it. Returns true if there are waiters, and all ranks of the node
    /// have to be woken.
    pub fn change(self, value: u64, adds: bool) -> bool {
        let (word, watchers) = (self.word.as_ptr().addr(), self.watchers.as_ptr().addr());
        debug_assert_eq!(watchers - word, WATCHERS as usize, "both are words of one flag");
        // SYNC 14: pairs with watch
        match adds {
            true => drop(self.word.fetch_add(value, Ordering::SeqCst)),
            false => drop(self.word.swap(value, Ordering::SeqCst)),
        }
        self.watchers.load(Ordering::SeqCst) != 0
    }

    /// Adds a waiter.
    pub fn watch(self) {
        // SYNC 14: pairs with change
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a waiter.
    pub fn unwatch(self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns its value, for a registered waiter.
    pub fn get(self) -> u64 {
        self.word.load(Ordering::SeqCst)
    }
}

/// Notes that a rank has changed a word by a plain store, if the interface of its node, whose block
/// is given, watches it. Returns true if that interface has to be woken.
pub fn note_store(interface: &RankBlock, segment: SegmentName, offset: u64) -> bool {
    // SYNC 20: pairs with read_watched
    fence(Ordering::SeqCst);
    interface.mark_changed(segment, offset)
}

/// Reads a word that the interface of its node watches; `None` when it is not inside, or not
/// aligned.
pub fn read_watched(cells: &Cells, offset: u64) -> Option<u64> {
    // SYNC 20: pairs with note_store
    Some(cells.word(offset)?.load(Ordering::SeqCst))
}
