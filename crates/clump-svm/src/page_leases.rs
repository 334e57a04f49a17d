//! Leases of pages: a word of the node's memory for each page, by which one rank at a time fetches
//! it from its home by itself.
//!
//! ```text
//! closed -> open      the interface, behind an event: the node's copy is of no use
//! open   -> leased    a rank begins to fetch
//! open, leased -> closed    the interface, behind an event that concerns the page
//! leased -> closed    the rank gives up, or has stored the page and left a note
//! ```
//!
//! The rank stores the page while it has the lock of the node ([`crate::store_lock`]) and the
//! lease: so no event has concerned the page since it began.

use crate::kept_locks::words_bytes;
use crate::mailbox::control_bytes;
use crate::version_record::{RECORD_WORDS, VersionRecord};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// States of a word, in its lower bits.
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const LEASED: u64 = 2;
const STATES: u64 = 3;
/// First bits of the rank that has the lease, of the page's home, and of the place of its twin,
/// counted from 1; 0 for none.
const RANK_SHIFT: u32 = 2;
const HOME_SHIFT: u32 = 16;
const TWIN_SHIFT: u32 = 32;
const RANKS: u64 = (1 << (HOME_SHIFT - RANK_SHIFT)) - 1;

/// Bytes of a page's word, and of the version that its copy must have.
const WORD_BYTES: u64 = 8;
const VERSION_BYTES: u64 = 8 * RECORD_WORDS as u64;

/// Place of the leases of a heap within the region that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTable {
    at: u64,
    pages: u64,
}

impl LeaseTable {
    /// Returns that of a node with so many ranks, for a heap of so many pages.
    pub(crate) fn of_node(ranks: u32, pages: u64) -> Self {
        Self { at: control_bytes(ranks) + words_bytes(), pages }
    }

    /// Returns the end of all words and versions; they are sparse.
    pub(crate) fn end(self) -> u64 {
        self.at + self.pages * (WORD_BYTES + VERSION_BYTES)
    }

    /// Returns the place of a page's word, and of its version.
    pub(crate) fn places(self, page: u32) -> (u64, u64) {
        debug_assert!(u64::from(page) < self.pages, "a page of the heap");
        let page = u64::from(page);
        let versions = self.at + self.pages * WORD_BYTES;
        (self.at + page * WORD_BYTES, versions + page * VERSION_BYTES)
    }

    /// Returns the bytes of a page's word, for the interface's check of its place.
    pub(crate) fn word_bytes() -> u64 {
        WORD_BYTES
    }

    /// Returns the bytes of a version, for the interface's check of its place.
    pub(crate) fn version_bytes() -> u64 {
        VERSION_BYTES
    }

    /// Returns the lease of a page, if the region is mapped there.
    pub(crate) fn lease(self, cells: &Cells, page: u32) -> Option<PageLease<'_>> {
        if u64::from(page) >= self.pages {
            return None;
        }
        let (word, version) = self.places(page);
        Some(PageLease { word: cells.word(word)?, version: cells.words(version, RECORD_WORDS)? })
    }
}

/// Terms on which a rank fetches a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    pub(crate) home: u16,
    /// Version that the page must have.
    pub(crate) required: VersionRecord,
    /// Place of the twin with which it is merged.
    pub(crate) twin: Option<u32>,
}

/// Lease of one page, as a rank of the node or its interface sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLease<'a> {
    word: &'a AtomicU64,
    version: &'a [AtomicU64],
}

impl PageLease<'_> {
    /// Lets a rank fetch the page, at the interface, which has closed it before.
    pub(crate) fn open(&self, terms: &LeaseTerms) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed), CLOSED, "the interface has closed it");
        terms.required.store(self.version);
        let twin = terms.twin.map_or(0, |place| u64::from(place) + 1);
        let word = OPEN | u64::from(terms.home) << HOME_SHIFT | twin << TWIN_SHIFT;
        // SYNC 41: pairs with take
        self.word.store(word, Ordering::Release);
    }

    /// Lets no rank begin to fetch the page, nor end it: at the interface, which has the lock, or
    /// as the rank that has stored it.
    pub(crate) fn close(&self) {
        self.word.store(CLOSED, Ordering::Relaxed);
    }

    /// Begins to fetch, as a rank. Returns the terms.
    pub(crate) fn take(&self, local_rank: u32) -> Option<LeaseTerms> {
        let word = self.word.load(Ordering::Relaxed);
        let rank = u64::from(local_rank);
        if word & STATES != OPEN || rank > RANKS {
            return None;
        }
        let leased = word & !STATES | LEASED | rank << RANK_SHIFT;
        // SYNC 41: pairs with open
        self.word.compare_exchange(word, leased, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let twin = (word >> TWIN_SHIFT).checked_sub(1).map(|place| place as u32);
        let required = VersionRecord::load(self.version);
        Some(LeaseTerms { home: (word >> HOME_SHIFT) as u16, required, twin })
    }

    /// Returns true if a rank still has its lease. It has one at a time.
    pub(crate) fn is_held(&self, local_rank: u32) -> bool {
        is_leased_by(self.word.load(Ordering::Relaxed), local_rank)
    }

    /// Gives up, as a rank that has begun to fetch. The interface may have closed the page.
    pub(crate) fn give_up(&self, local_rank: u32) {
        let word = self.word.load(Ordering::Relaxed);
        if is_leased_by(word, local_rank) {
            let (free, order) = (CLOSED, Ordering::Relaxed);
            let _ = self.word.compare_exchange(word, free, order, order);
        }
    }
}

fn is_leased_by(word: u64, local_rank: u32) -> bool {
    word & STATES == LEASED && word >> RANK_SHIFT & RANKS == u64::from(local_rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_hlrc::PageVersion;

    #[test]
    fn one_rank_fetches_a_page_unless_it_is_closed_meanwhile() {
        let words: Vec<_> = (0..=RECORD_WORDS).map(|_| AtomicU64::new(0)).collect();
        let lease = PageLease { word: &words[0], version: &words[1..] };
        let mut version = PageVersion::default();
        version.raise(3, 9);
        let required = VersionRecord::of(&version).unwrap();
        let terms = |twin| LeaseTerms { home: 65_000, required, twin };
        assert_eq!(lease.take(4), None, "closed at first");
        lease.open(&terms(None));
        assert_eq!(lease.take(4), Some(terms(None)));
        assert_eq!(lease.take(5), None, "one at a time");
        assert!(lease.is_held(4) && !lease.is_held(5));
        lease.close();
        assert!(!lease.is_held(4), "an event has concerned the page");
        lease.open(&terms(Some(7)));
        assert_eq!(lease.take(5), Some(terms(Some(7))));
        lease.give_up(4);
        assert!(!lease.is_held(4) && lease.is_held(5), "it is the other's");
        lease.give_up(5);
        assert!(!lease.is_held(5) && lease.take(4).is_none());
        lease.open(&terms(Some(0)));
        assert_eq!(lease.take(0), Some(terms(Some(0))));
    }
}
