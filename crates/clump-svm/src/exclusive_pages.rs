//! Pages of a rank whose stores are not looked for: no other node has a copy of them.

use crate::error::Result;
use crate::rights_table::{bytes, words, zeroes};
use clump_hlrc::deposit::SHARED_TOGETHER;
use clump_os::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::ops::Range;

/// Exclusive pages, as one rank knows them. One thread of the rank changes them at a time.
#[derive(Debug)]
pub(crate) struct ExclusivePages {
    /// One byte a page; costs memory for pages that are used, as all that follows.
    marks: &'static [AtomicU8],
    /// By group of pages whose sharers are counted together: exclusive pages among them.
    counts: &'static [AtomicU32],
    /// By group: the count of sharers when they were looked at last, cut to 32 bits.
    shares: &'static [AtomicU32],
    /// By group: 1 once it is in the list.
    in_list: &'static [AtomicU8],
    /// Groups that have had exclusive pages, and their number.
    list: &'static [AtomicU32],
    listed: AtomicUsize,
}

impl ExclusivePages {
    /// Returns none of a heap that is used until the process ends.
    pub(crate) fn new(pages: usize) -> Result<Self> {
        let groups = pages.div_ceil(SHARED_TOGETHER as usize);
        debug_assert!(groups <= pages, "groups of pages");
        Ok(Self {
            marks: zeroes(pages, bytes)?,
            counts: zeroes(groups, words)?,
            shares: zeroes(groups, words)?,
            in_list: zeroes(groups, bytes)?,
            list: zeroes(groups, words)?,
            listed: AtomicUsize::new(0),
        })
    }

    fn has(&self, page: u32) -> bool {
        self.marks.get(page as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) != 0)
    }

    /// Returns true if none is in a range.
    pub(crate) fn lie_outside(&self, pages: &Range<u32>) -> bool {
        debug_assert!(!pages.is_empty(), "a range of pages");
        let (first, last) = (pages.start / SHARED_TOGETHER, (pages.end - 1) / SHARED_TOGETHER);
        let counts = self.counts.get(first as usize..=last as usize).unwrap_or_default();
        counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Makes a page one of them.
    pub(crate) fn add(&self, page: u32) {
        debug_assert!((page as usize) < self.marks.len(), "a page of the heap");
        let group = (page / SHARED_TOGETHER) as usize;
        let Some(mark) = self.marks.get(page as usize) else { return };
        let (Some(count), Some(in_list)) = (self.counts.get(group), self.in_list.get(group)) else {
            return;
        };
        if mark.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let before = count.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before < SHARED_TOGETHER, "each page is counted once");
        if in_list.swap(1, Ordering::Relaxed) == 0 {
            let at = self.listed.load(Ordering::Relaxed);
            debug_assert!(at < self.list.len(), "each group is listed once");
            if let Some(place) = self.list.get(at) {
                place.store(group as u32, Ordering::Relaxed);
                self.listed.store(at + 1, Ordering::Relaxed);
            }
        }
    }

    /// Lets those go that are no longer exclusive, where the count of sharers has changed since the
    /// last time; calls `ended` with them.
    pub(crate) fn look_through(
        &self,
        shares: impl Fn(u32) -> u64,
        is_exclusive: impl Fn(u32) -> bool,
        mut ended: impl FnMut(u32),
    ) {
        let listed = self.listed.load(Ordering::Relaxed);
        debug_assert!(listed <= self.list.len(), "each group is listed once");
        for place in self.list.iter().take(listed) {
            let group = place.load(Ordering::Relaxed);
            let at = group as usize;
            let (Some(seen), Some(count)) = (self.shares.get(at), self.counts.get(at)) else {
                continue;
            };
            let first = group * SHARED_TOGETHER;
            let now = shares(first) as u32;
            if seen.swap(now, Ordering::Relaxed) == now {
                continue;
            }
            let end = (first + SHARED_TOGETHER).min(self.marks.len() as u32);
            for page in (first..end).filter(|&page| self.has(page) && !is_exclusive(page)) {
                if let Some(mark) = self.marks.get(page as usize) {
                    mark.store(0, Ordering::Relaxed);
                }
                let before = count.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "the page was counted");
                ended(page);
            }
        }
    }

    /// Calls `each` with the runs of pages in a range that are not among them, and that `wanted`
    /// names: first pages and lengths.
    pub(crate) fn others(
        &self,
        pages: Range<u32>,
        wanted: impl Fn(u32) -> bool,
        mut each: impl FnMut(u32, u32),
    ) {
        debug_assert!(pages.end as usize <= self.marks.len(), "pages of the heap");
        let mut run = pages.start..pages.start;
        for page in pages {
            if !self.has(page) && wanted(page) {
                run = if run.end == page { run.start..page + 1 } else { page..page + 1 };
                continue;
            }
            if !run.is_empty() {
                each(run.start, run.end - run.start);
            }
            run = page + 1..page + 1;
        }
        if !run.is_empty() {
            each(run.start, run.end - run.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(pages: &ExclusivePages, range: Range<u32>) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        pages.others(range, |page| page != 2000, |first, count| runs.push((first, count)));
        runs
    }

    #[test]
    fn others_lie_between_exclusive_pages() {
        let pages = ExclusivePages::new(3000).unwrap();
        assert!(pages.lie_outside(&(0..3000)));
        [5, 6, 600, 1023].into_iter().for_each(|page| pages.add(page));
        pages.add(6);
        assert!(pages.has(6) && !pages.has(7) && !pages.has(3000));
        let all = [(0, 5), (7, 593), (601, 422), (1024, 976), (2001, 999)];
        assert_eq!(others(&pages, 0..3000), all);
        assert_eq!(others(&pages, 5..7), []);
        assert_eq!(others(&pages, 512..1024), [(512, 88), (601, 422)]);
        assert!(pages.lie_outside(&(1024..3000)) && !pages.lie_outside(&(1000..1500)));
    }

    #[test]
    fn shared_pages_go_once_sharers_were_counted() {
        let pages = ExclusivePages::new(1000).unwrap();
        [3, 4, 50, 700].into_iter().for_each(|page| pages.add(page));
        let mut ended = Vec::new();
        pages.look_through(|_| 0, |_| false, |page| ended.push(page));
        assert!(ended.is_empty(), "nobody was counted");
        let first = |page: u32| if page == 0 { 2 } else { 0 };
        pages.look_through(first, |page| page != 4, |page| ended.push(page));
        pages.look_through(first, |_| false, |page| ended.push(page));
        assert_eq!((ended, pages.has(4), pages.has(50)), (vec![4], false, true));
        assert_eq!(others(&pages, 0..100), [(0, 3), (4, 46), (51, 49)]);
        pages.add(4);
        assert_eq!(others(&pages, 3..5), []);
    }
}
