//! Pages of a rank whose stores are not looked for: no other node has a copy of them.

use crate::error::Result;
use clump_hlrc::deposit::SHARED_TOGETHER;
use clump_os::memory::zeroed_for_ever;
use clump_os::sync::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;

/// Group of pages whose sharers are counted together.
#[derive(Debug)]
#[repr(C)]
struct Group {
    /// Exclusive pages among them.
    count: AtomicU64,
    /// Count of sharers when they were looked at last.
    shares: AtomicU64,
    /// 1 once the group is in the list.
    listed: AtomicU64,
    /// Place in the list: a group.
    list: AtomicU64,
}

/// Exclusive pages, as one rank knows them. One thread of the rank changes them at a time.
#[derive(Debug)]
pub(crate) struct ExclusivePages {
    /// One byte a page; costs memory for pages that are used.
    marks: &'static [AtomicU8],
    groups: &'static [Group],
    listed: AtomicUsize,
}

impl ExclusivePages {
    /// Returns none of a heap that is used until the process ends.
    pub(crate) fn new(pages: usize) -> Result<Self> {
        let count = pages.div_ceil(SHARED_TOGETHER as usize);
        let groups = zeroed_for_ever(count * size_of::<Group>())?.as_ptr().cast::<Group>();
        let marks = zeroed_for_ever(pages)?.as_ptr().cast::<AtomicU8>();
        // SAFETY: memory of so many of each, page aligned, that lives as long as the process and
        // has no other user; all bits are valid for atomic integers.
        let (groups, marks) = unsafe {
            (std::slice::from_raw_parts(groups, count), std::slice::from_raw_parts(marks, pages))
        };
        debug_assert!(groups.len() <= marks.len(), "groups of pages");
        Ok(Self { marks, groups, listed: AtomicUsize::new(0) })
    }

    fn has(&self, page: u32) -> bool {
        self.marks.get(page as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) != 0)
    }

    /// Returns true if none is in a range.
    pub(crate) fn lie_outside(&self, pages: &Range<u32>) -> bool {
        debug_assert!(!pages.is_empty(), "a range of pages");
        let groups = pages.start / SHARED_TOGETHER..=(pages.end - 1) / SHARED_TOGETHER;
        let mut groups = groups.filter_map(|group| self.groups.get(group as usize));
        groups.all(|group| group.count.load(Ordering::Relaxed) == 0)
    }

    /// Makes a page one of them.
    pub(crate) fn add(&self, page: u32) {
        let group = page / SHARED_TOGETHER;
        let found = self.marks.get(page as usize).zip(self.groups.get(group as usize));
        let Some((mark, of_page)) = found else { return };
        if mark.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let before = of_page.count.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before < u64::from(SHARED_TOGETHER), "each page is counted once");
        if of_page.listed.swap(1, Ordering::Relaxed) == 0 {
            let at = self.listed.load(Ordering::Relaxed);
            debug_assert!(at < self.groups.len(), "each group is listed once");
            if let Some(place) = self.groups.get(at) {
                place.list.store(group.into(), Ordering::Relaxed);
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
        let count = self.listed.load(Ordering::Relaxed);
        debug_assert!(count <= self.groups.len(), "each group is listed once");
        let listed = self.groups.iter().take(count);
        for number in listed.map(|place| place.list.load(Ordering::Relaxed) as u32) {
            let Some(group) = self.groups.get(number as usize) else { continue };
            let first = number * SHARED_TOGETHER;
            let now = shares(first);
            if group.shares.swap(now, Ordering::Relaxed) == now {
                continue;
            }
            let end = (first + SHARED_TOGETHER).min(self.marks.len() as u32);
            for page in (first..end).filter(|&page| self.has(page)) {
                if is_exclusive(page) {
                    continue;
                }
                if let Some(mark) = self.marks.get(page as usize) {
                    mark.store(0, Ordering::Relaxed);
                }
                let before = group.count.fetch_sub(1, Ordering::Relaxed);
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
