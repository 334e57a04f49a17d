//! Pages that a rank is likely to use next: how it used each before, and patterns in its faults.

use crate::breakdown::AheadPages;
use crate::error::Result;
use crate::rights_table::{bytes, zeroes};
use clump_boot::SvmAhead;
use clump_hlrc::{PageHistory, PageTurn};
use clump_os::sync::{AtomicU8, AtomicU64, Ordering};

/// Histories of the pages of a rank. Threads that change one at a time lose at most a use.
#[derive(Debug)]
pub(crate) struct Foresight {
    choice: SvmAhead,
    /// One byte a page; costs memory for pages that are used.
    pages: &'static [AtomicU8],
    fetched: AtomicU64,
    wasted: AtomicU64,
}

impl Foresight {
    /// Returns histories of a heap that is used until the process ends.
    pub(crate) fn new(choice: SvmAhead, pages: u32) -> Result<Self> {
        let pages = zeroes(pages as usize, bytes)?;
        debug_assert!(!pages.is_empty(), "a heap has pages");
        Ok(Self { choice, pages, fetched: AtomicU64::new(0), wasted: AtomicU64::new(0) })
    }

    /// Returns true if pages come ahead of faults that follow a pattern.
    pub(crate) fn follows_strides(&self) -> bool {
        matches!(self.choice, SvmAhead::Auto | SvmAhead::Strides)
    }

    /// Returns true if pages come ahead that were used before.
    pub(crate) fn follows_history(&self) -> bool {
        debug_assert!(!self.pages.is_empty(), "there are histories");
        matches!(self.choice, SvmAhead::Auto | SvmAhead::History)
    }

    fn history(&self, page: u32) -> Option<&AtomicU8> {
        debug_assert!((page as usize) < self.pages.len(), "a page of the heap");
        self.pages.get(page as usize)
    }

    /// Notes that the rank uses a page, by a fault.
    pub(crate) fn note_use(&self, page: u32) {
        if let Some(place) = self.history(page) {
            let history = PageHistory(place.load(Ordering::Relaxed)).used();
            debug_assert!(!history.is_expected(), "it is here");
            place.store(history.0, Ordering::Relaxed);
        }
    }

    /// Notes that the node's copies of these pages have become stale. Leaves those that the rank is
    /// expected to use again.
    pub(crate) fn expect(&self, stale: &mut Vec<u32>) {
        stale.retain(|&page| {
            let Some(place) = self.history(page) else { return false };
            let before = PageHistory(place.load(Ordering::Relaxed));
            let (history, wasted) = before.stale();
            if history != before {
                place.store(history.0, Ordering::Relaxed);
            }
            if wasted {
                self.wasted.fetch_add(1, Ordering::Relaxed);
            }
            history.is_expected()
        });
        debug_assert!(stale.is_sorted(), "pages ascend");
    }

    /// Notes that a page has come ahead of its use. Returns true if the rank is to have a right on
    /// it: else its fault tells that it is used.
    pub(crate) fn is_given(&self, page: u32) -> bool {
        let Some(place) = self.history(page) else { return false };
        let history = PageHistory(place.load(Ordering::Relaxed));
        if !history.is_expected() {
            return false;
        }
        let (history, turn) = history.ahead();
        debug_assert!(!history.is_expected(), "it comes once");
        place.store(history.0, Ordering::Relaxed);
        turn == PageTurn::Given
    }

    /// Counts pages that were fetched ahead of their use.
    pub(crate) fn count_fetched(&self, pages: u64) {
        debug_assert!(pages <= self.pages.len() as u64, "each once");
        self.fetched.fetch_add(pages, Ordering::Relaxed);
    }

    /// Returns the pages fetched ahead of their use.
    pub(crate) fn counts(&self) -> AheadPages {
        let (pages, unused) = (&self.fetched, &self.wasted);
        AheadPages { pages: pages.load(Ordering::Relaxed), unused: unused.load(Ordering::Relaxed) }
    }
}
