//! Leases of pages: a word of the node's memory for each page, by which one rank at a time fetches
//! it from its home by itself.
//!
//! ```text
//! closed -> open      the interface: the node has no copy of the page that is of any use
//! open   -> closed    the interface: it fetches the page, or has another version to ask for
//! open   -> leased    a rank begins to fetch
//! leased -> closed    it gives up
//! leased -> noted     it has stored the page, and left a note
//! leased, noted -> closed    the interface takes the note
//! ```

use crate::kept_locks::words_bytes;
use crate::mailbox::control_bytes;
use crate::version_record::{RECORD_WORDS, VersionRecord};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// States of a word, in its lower bits.
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const LEASED: u64 = 2;
const NOTED: u64 = 3;
const STATES: u64 = 3;
/// First bit of the page's home.
const HOME_SHIFT: u32 = 16;

/// Bytes of a page's word, and of the version that its copy must have.
pub(crate) const WORD_BYTES: u64 = 8;
const VERSION_BYTES: u64 = 8 * RECORD_WORDS as u64;

/// Place of the leases of a heap within the region that has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTable {
    at: u64,
    pub(crate) pages: u64,
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

/// Lease of one page, as a rank of the node or its interface sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLease<'a> {
    word: &'a AtomicU64,
    version: &'a [AtomicU64],
}

impl PageLease<'_> {
    /// Lets a rank fetch the page from `home`, at the interface, which has closed it before.
    pub(crate) fn open(&self, home: u16, required: &VersionRecord) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed), CLOSED, "the interface has closed it");
        required.store(self.version);
        // SYNC 41: pairs with take
        self.word.store(OPEN | u64::from(home) << HOME_SHIFT, Ordering::Release);
    }

    /// Lets no rank begin to fetch the page, at the interface. Returns false if one has begun, and
    /// the interface has not taken its note.
    pub(crate) fn close(&self) -> bool {
        let open = |word| (word & STATES <= OPEN).then_some(CLOSED);
        // SYNC 42: pairs with note
        self.word.fetch_update(Ordering::Acquire, Ordering::Acquire, open).is_ok()
    }

    /// Ends the lease of a rank whose note was taken, at the interface. Returns false if there was
    /// none.
    pub(crate) fn end(&self) -> bool {
        let leased = self.word.load(Ordering::Relaxed) & STATES >= LEASED;
        if leased {
            self.word.store(CLOSED, Ordering::Relaxed);
        }
        leased
    }

    /// Begins to fetch, as a rank. Returns the home, and the version that it must have.
    pub(crate) fn take(&self) -> Option<(u16, VersionRecord)> {
        let word = self.word.load(Ordering::Relaxed);
        let leased = word & !STATES | LEASED;
        if word & STATES != OPEN {
            return None;
        }
        // SYNC 41: pairs with open
        self.word.compare_exchange(word, leased, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(((word >> HOME_SHIFT) as u16, VersionRecord::load(self.version)))
    }

    /// Gives up, as the rank that fetches.
    pub(crate) fn give_up(&self) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed) & STATES, LEASED, "it has begun");
        self.word.store(CLOSED, Ordering::Release);
    }

    /// Ends a fetch, as the rank, which has left its note. The interface may have taken it.
    pub(crate) fn note(&self) {
        let noted = |word| (word & STATES == LEASED).then_some(NOTED);
        // SYNC 42: pairs with close
        let _ = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, noted);
    }

    /// Returns true while a rank fetches the page.
    pub(crate) fn is_leased(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATES == LEASED
    }

    /// Returns true if a rank has fetched the page, and its note was not taken.
    pub(crate) fn is_noted(&self) -> bool {
        // SYNC 42: pairs with note
        self.word.load(Ordering::Acquire) & STATES == NOTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_hlrc::PageVersion;

    #[test]
    fn one_rank_fetches_a_page_until_its_note_is_taken() {
        let words: Vec<_> = (0..=RECORD_WORDS).map(|_| AtomicU64::new(0)).collect();
        let lease = PageLease { word: &words[0], version: &words[1..] };
        let mut version = PageVersion::default();
        version.raise(3, 9);
        let record = VersionRecord::of(&version).unwrap();
        assert_eq!(lease.take(), None, "closed at first");
        lease.open(700, &record);
        assert!(lease.close() && lease.take().is_none());
        lease.open(700, &record);
        assert_eq!(lease.take(), Some((700, record)));
        assert_eq!(lease.take(), None, "one at a time");
        assert!(!lease.close() && lease.is_leased());
        lease.note();
        assert!(!lease.close() && lease.is_noted() && lease.take().is_none());
        assert!(lease.end() && !lease.end() && lease.close());
        lease.note();
        assert!(!lease.is_noted(), "its note was taken before");
        lease.open(0, &record);
        assert!(lease.take().is_some());
        lease.give_up();
        assert!(lease.close());
    }
}
