//! Stores of a rank to pages of the heap, as the interface of its node finds them by itself: by
//! scans of the rank's page table.

use crate::node_pages::PAGE;
use clump_os::userfault::StoreScanner;
use std::collections::BTreeMap;

/// Pages of a chunk.
const CHUNK: u32 = 512;

/// Marks of the pages of a chunk.
type Marks = [u64; CHUNK as usize / 64];

/// Scans of one rank.
#[derive(Debug, Default)]
pub(crate) struct RankStores {
    /// None where the rank scans.
    scanner: Option<StoreScanner>,
    /// Pages that the rank was ever given, by chunk. It may write those that it is to give up until
    /// it has done so.
    given: BTreeMap<u32, Marks>,
}

/// Returns true if a page of a chunk is marked.
fn is_marked(marks: &Marks, page: u32) -> bool {
    marks[(page % CHUNK / 64) as usize] >> (page % 64) & 1 != 0
}

impl RankStores {
    /// Returns those of a process whose heap begins at `address`; without scans where the kernel
    /// does not permit them.
    pub(crate) fn of_process(pid: u32, address: u64, pages: u32) -> Self {
        let fits = address != 0 && address.is_multiple_of(PAGE as u64);
        let bytes = pages as usize * PAGE;
        let scanner =
            fits.then(|| StoreScanner::of_process(pid, address as usize, bytes).ok()).flatten();
        Self { scanner, given: BTreeMap::new() }
    }

    /// Returns true if the interface scans.
    pub(crate) fn are_scanned(&self) -> bool {
        self.scanner.is_some()
    }

    /// Notes a page that the rank is given.
    pub(crate) fn note_given(&mut self, page: u32) {
        if self.scanner.is_some() {
            let marks = self.given.entry(page / CHUNK).or_default();
            marks[(page % CHUNK / 64) as usize] |= 1 << (page % 64);
            debug_assert!(is_marked(marks, page));
        }
    }

    /// Calls `each` with the pages that the rank has written since they were last scanned. Where
    /// that is not known any more, because its process has ended, with all pages that it was given,
    /// and true: they may have been written.
    pub(crate) fn take(&self, mut each: impl FnMut(u32, bool)) {
        let Some(scanner) = &self.scanner else { return };
        let mut scanned = true;
        self.runs(|first, pages| {
            let found = |offset: usize, bytes: usize| {
                let (first, pages) = ((offset / PAGE) as u32, (bytes / PAGE) as u32);
                let given = |page: &u32| {
                    self.given.get(&(page / CHUNK)).is_some_and(|marks| is_marked(marks, *page))
                };
                (first..first + pages).filter(given).for_each(|page| each(page, false));
            };
            let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
            scanned &= scanner.scan(offset, bytes, found).is_ok();
        });
        if scanned && scanner.is_there().unwrap_or(false) {
            return;
        }
        for (chunk, marks) in &self.given {
            let pages = (chunk * CHUNK..).take(CHUNK as usize);
            pages.filter(|&page| is_marked(marks, page)).for_each(|page| each(page, true));
        }
    }

    /// Calls `each` with runs of pages that contain all given ones: from the first to the last of
    /// neighbouring chunks.
    fn runs(&self, mut each: impl FnMut(u32, u32)) {
        let mut run: Option<(u32, u32)> = None;
        for (chunk, marks) in &self.given {
            let first = (0..CHUNK).find(|&page| is_marked(marks, page)).unwrap_or(0);
            let last = (0..CHUNK).rev().find(|&page| is_marked(marks, page)).unwrap_or(0);
            let (first, end) = (chunk * CHUNK + first, chunk * CHUNK + last + 1);
            debug_assert!(first < end, "a chunk has a given page");
            match &mut run {
                Some((_, before)) if *before / CHUNK + 1 >= *chunk => *before = end,
                _ => {
                    if let Some((first, end)) = run.replace((first, end)) {
                        each(first, end - first);
                    }
                }
            }
        }
        if let Some((first, end)) = run {
            each(first, end - first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_pages_lie_in_runs() {
        let mut stores = RankStores::default();
        let mut give = |page: u32| {
            let marks = stores.given.entry(page / CHUNK).or_default();
            marks[(page % CHUNK / 64) as usize] |= 1 << (page % 64);
        };
        [5, 7, 600, 5 * CHUNK + 1, 5 * CHUNK + 511].into_iter().for_each(&mut give);
        let mut runs = Vec::new();
        stores.runs(|first, pages| runs.push((first, pages)));
        assert_eq!(runs, [(5, 596), (5 * CHUNK + 1, 511)]);
        assert!(is_marked(&stores.given[&0], 7) && !is_marked(&stores.given[&0], 8));
    }

    #[test]
    fn a_process_that_is_not_there_is_not_scanned() {
        assert!(!RankStores::of_process(u32::MAX, 1 << 44, 10).are_scanned());
        let own = clump_os::process::own_pid();
        assert!(!RankStores::of_process(own, 1 << 46, 10).are_scanned(), "no heap lies there");
        assert!(!RankStores::of_process(own, 0, 10).are_scanned());
    }
}
