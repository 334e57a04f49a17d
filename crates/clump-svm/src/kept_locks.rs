//! Locks that ranks keep: a word of the node's memory for each lock, by which a rank enters again,
//! without a call, a lock that it was the last to have.
//!
//! ```text
//! none -> had       the interface grants the lock
//! had -> kept       the rank gives it back, and tells nobody
//! kept -> had       the rank enters again
//! had -> wanted     the interface asks for it: the release is a call
//! kept -> none      the interface takes it back, because others want it
//! ```

use crate::mailbox::MAILBOX_BYTES;
use clump_os::sync::{AtomicU32, Ordering};
use clump_shm::cells::Cells;

/// Locks that may be kept: the first of those that all ranks make together, and as many that single
/// ranks make.
const MAX_KEPT: u64 = 1 << 23;
/// First number of locks and flags that single ranks make: below are those that all ranks make
/// together.
pub(crate) const FIRST_ALONE: u64 = 1 << 27;
/// Bytes of a word.
const WORD_BYTES: u64 = 4;

/// Bits of a word below the rank's number.
const HAD: u32 = 1;
const KEPT: u32 = 2;
const WANTED: u32 = 4;
const RANK_SHIFT: u32 = 3;

/// Returns the bytes of all words; sparse.
pub(crate) fn words_bytes() -> u64 {
    (2 * MAX_KEPT * WORD_BYTES).next_multiple_of(MAILBOX_BYTES)
}

/// Returns the place of a lock's word among all words; `None` for locks that are never kept.
pub(crate) fn word_offset(lock: u64) -> Option<u64> {
    let (part, number) = match lock.checked_sub(FIRST_ALONE) {
        None => (0, lock),
        Some(number) => (MAX_KEPT, number),
    };
    (number < MAX_KEPT).then_some((part + number) * WORD_BYTES)
}

/// Bytes of one word, for the interface's check of its place.
pub(crate) const fn word_bytes() -> u64 {
    WORD_BYTES
}

/// Returns the rank of the node, by its place there, that a lock's word says to have the lock.
pub(crate) fn holder(word: &AtomicU32) -> Option<u32> {
    let word = word.load(Ordering::Relaxed);
    if word & HAD == 0 { None } else { (word >> RANK_SHIFT).checked_sub(1) }
}

/// State of a lock, as far as a rank can tell by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptState {
    /// The rank has it.
    Had,
    /// The rank has given it back, and may enter again.
    Kept,
    /// Neither.
    Unknown,
}

/// Word of a lock, as a rank of the node or its interface sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptLock<'a> {
    word: &'a AtomicU32,
    /// Number of the rank in the word.
    rank: u32,
}

impl<'a> KeptLock<'a> {
    /// Returns the word at a place, as it concerns a rank of the node.
    pub(crate) fn over(cells: &'a Cells, at: u64, local_rank: u32) -> Option<Self> {
        let rank = (local_rank + 1) << RANK_SHIFT;
        debug_assert!(rank > WANTED, "numbers lie above the state");
        cells.half(at).map(|word| Self { word, rank })
    }

    /// Returns the state for this rank.
    pub(crate) fn state(&self) -> KeptState {
        let word = self.word.load(Ordering::Relaxed);
        if word == self.rank | KEPT {
            KeptState::Kept
        } else if word & !WANTED == self.rank | HAD {
            KeptState::Had
        } else {
            KeptState::Unknown
        }
    }

    fn change(&self, from: u32, to: u32, order: Ordering) -> bool {
        debug_assert_ne!(from, to, "a change");
        self.word
            .compare_exchange(self.rank | from, self.rank | to, order, Ordering::Relaxed)
            .is_ok()
    }

    /// Enters a lock that this rank has kept. Returns false if it is to be asked for.
    pub(crate) fn enter(&self) -> bool {
        // SYNC 31: pairs with keep
        self.change(KEPT, HAD, Ordering::Acquire)
    }

    /// Keeps a lock that this rank gives back. Returns false if the release is to be sent.
    pub(crate) fn keep(&self) -> bool {
        // SYNC 31: pairs with enter and ask
        self.change(HAD, KEPT, Ordering::Release)
    }

    /// Notes, at the interface, that the rank has the lock.
    pub(crate) fn grant(&self, wanted: bool) {
        let wanted = if wanted { WANTED } else { 0 };
        // The answer to the rank publishes it.
        self.word.store(self.rank | HAD | wanted, Ordering::Relaxed);
    }

    /// Notes, at the interface, that the rank tells of its release.
    pub(crate) fn forget(&self) {
        if self.word.load(Ordering::Relaxed) >> RANK_SHIFT == self.rank >> RANK_SHIFT {
            self.word.store(0, Ordering::Relaxed);
        }
    }

    /// Takes a kept lock back, at the interface. Returns false if the rank has it: its release will
    /// be a call.
    pub(crate) fn ask(&self) -> bool {
        // SYNC 31: pairs with keep
        let before = self.word.fetch_or(WANTED, Ordering::Acquire);
        let kept = before == self.rank | KEPT;
        if kept {
            self.forget();
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_lock_is_entered_again_until_it_is_asked_for() {
        let word = AtomicU32::new(0);
        let own = KeptLock { word: &word, rank: 1 << RANK_SHIFT };
        let other = KeptLock { word: &word, rank: 2 << RANK_SHIFT };
        assert!(!own.enter() && !own.keep(), "nothing was granted");
        own.grant(false);
        assert_eq!((own.state(), other.state()), (KeptState::Had, KeptState::Unknown));
        assert_eq!(holder(&word), Some(0));
        assert!(own.keep() && !other.enter());
        assert_eq!(holder(&word), None, "it is kept, and not held");
        assert_eq!(own.state(), KeptState::Kept);
        assert!(own.enter());
        assert!(!own.ask(), "the rank has it");
        assert_eq!(own.state(), KeptState::Had);
        assert!(!own.keep(), "it is wanted: the release is a call");
        own.grant(false);
        assert!(own.keep() && own.ask() && !own.enter());
        own.grant(true);
        assert!(!own.keep(), "wanted from the first");
    }

    #[test]
    fn locks_with_high_numbers_are_not_kept() {
        assert_eq!(word_offset(3), Some(12));
        assert_eq!(word_offset(MAX_KEPT), None);
        assert_eq!(word_offset(FIRST_ALONE), Some(MAX_KEPT * WORD_BYTES));
        assert_eq!(word_offset(FIRST_ALONE + MAX_KEPT), None);
        assert!(words_bytes() >= 2 * MAX_KEPT * WORD_BYTES);
    }
}
