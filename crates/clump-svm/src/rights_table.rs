//! The rights of this process on each page of the heap, and the pages that it has written since its
//! last release. May be used in signal handlers: nothing is allocated after it was made.

use crate::error::Result;
use clump_os::map::Rights;
use clump_os::memory::zeroed_for_ever;
use clump_os::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// Table of a heap of a fixed number of pages. Costs memory only for pages that are used.
#[derive(Debug)]
pub(crate) struct RightsTable {
    rights: &'static [AtomicU8],
    written: &'static [AtomicU32],
    count: AtomicUsize,
    /// Marks of the pages of that list, so that each lies there once.
    marks: &'static [AtomicU8],
    /// True for chunks of pages in which any was ever granted, and their list.
    used: &'static [AtomicU8],
    chunks: &'static [AtomicU32],
    chunk_count: AtomicUsize,
}

/// Marks of a page that lies in the list of written ones: it was written; it may have been.
const WRITTEN: u8 = 1;
const MAYBE: u8 = 2;

/// Pages of a chunk.
const CHUNK: u32 = 512;

/// Returns `count` zeroes that are never given back.
pub(crate) fn zeroes<T>(
    count: usize,
    of: fn(*mut u8, usize) -> &'static [T],
) -> Result<&'static [T]> {
    Ok(of(zeroed_for_ever(count * size_of::<T>())?.as_ptr(), count))
}

/// Appends to a list. One that is full has every page of the heap.
fn append(list: &[AtomicU32], count: &AtomicUsize, value: u32) {
    let at = count.load(Ordering::Relaxed);
    if let Some(place) = list.get(at) {
        place.store(value, Ordering::Relaxed);
        count.store(at + 1, Ordering::Relaxed);
    }
}

pub(crate) fn bytes(base: *mut u8, count: usize) -> &'static [AtomicU8] {
    // SAFETY: `zeroes` passes memory of so many bytes, page aligned, that lives as long as the
    // process and has no other user; all bits are valid for an atomic integer.
    unsafe { std::slice::from_raw_parts(base.cast::<AtomicU8>(), count) }
}

pub(crate) fn words(base: *mut u8, count: usize) -> &'static [AtomicU32] {
    // SAFETY: as for `bytes`; the alignment of a page is that of words, too.
    unsafe { std::slice::from_raw_parts(base.cast::<AtomicU32>(), count) }
}

impl RightsTable {
    /// Creates the table of a heap that is used until the process ends.
    pub(crate) fn new(pages: usize) -> Result<Self> {
        let chunks = pages.div_ceil(CHUNK as usize);
        let count = || AtomicUsize::new(0);
        Ok(Self {
            rights: zeroes(pages, bytes)?,
            written: zeroes(pages, words)?,
            count: count(),
            marks: zeroes(pages, bytes)?,
            used: zeroes(chunks, bytes)?,
            chunks: zeroes(chunks, words)?,
            chunk_count: count(),
        })
    }

    /// Returns the right on a page.
    pub(crate) fn get(&self, page: u32) -> Rights {
        match self.rights.get(page as usize).map_or(0, |right| right.load(Ordering::Relaxed)) {
            0 => Rights::None,
            1 => Rights::Read,
            _ => Rights::Write,
        }
    }

    /// Sets the right on pages; notes those that become writable.
    pub(crate) fn set(&self, first: u32, pages: u32, rights: Rights) {
        for page in first..first.saturating_add(pages) {
            let Some(right) = self.rights.get(page as usize) else { return };
            let before = right.swap(rights as u8, Ordering::Relaxed);
            if rights == Rights::Write && before != Rights::Write as u8 {
                self.note(page);
            }
            if rights != Rights::None {
                self.use_chunk(page / CHUNK);
            }
        }
    }

    /// Notes a page as written.
    pub(crate) fn note(&self, page: u32) {
        self.mark(page, WRITTEN);
    }

    /// Notes a page that another thread may have written while it was taken away.
    pub(crate) fn note_maybe(&self, page: u32) {
        self.mark(page, MAYBE);
    }

    fn mark(&self, page: u32, mark: u8) {
        if let Some(marks) = self.marks.get(page as usize)
            && marks.fetch_or(mark, Ordering::Relaxed) == 0
        {
            append(self.written, &self.count, page);
        }
    }

    /// Takes the marks of a page, which no longer lies in the list.
    fn take_marks(&self, page: u32) -> u8 {
        self.marks.get(page as usize).map_or(0, |marks| marks.swap(0, Ordering::Relaxed))
    }

    fn use_chunk(&self, chunk: u32) {
        if let Some(used) = self.used.get(chunk as usize)
            && used.swap(1, Ordering::Relaxed) == 0
        {
            append(self.chunks, &self.chunk_count, chunk);
        }
    }

    /// Calls `each` with runs of pages that contain all on which there were ever rights.
    pub(crate) fn used_runs(&self, mut each: impl FnMut(u32, u32)) {
        let count = self.chunk_count.load(Ordering::Relaxed);
        let last = self.rights.len() as u32;
        let mut run: Option<(u32, u32)> = None;
        let mut end = |(first, chunks): (u32, u32)| {
            let first = first * CHUNK;
            each(first, (chunks * CHUNK).min(last - first));
        };
        for place in self.chunks.iter().take(count) {
            let chunk = place.load(Ordering::Relaxed);
            match &mut run {
                Some((first, chunks)) if *first + *chunks == chunk => *chunks += 1,
                _ => {
                    if let Some(before) = run.replace((chunk, 1)) {
                        end(before);
                    }
                }
            }
        }
        if let Some(before) = run {
            end(before);
        }
    }

    /// Returns true if no page is noted as written.
    pub(crate) fn is_nothing_noted(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Forgets the pages that were noted, and calls `each` with them, and with true for those that
    /// only may have been written.
    pub(crate) fn take_noted(&self, mut each: impl FnMut(u32, bool)) {
        let count = self.count.swap(0, Ordering::Relaxed).min(self.written.len());
        for place in self.written.iter().take(count) {
            let page = place.load(Ordering::Relaxed);
            each(page, self.take_marks(page) & WRITTEN == 0);
        }
    }

    /// Forgets the pages that were written, and takes the right to write them away: `each` is
    /// called with runs of such pages.
    pub(crate) fn take_written(&self, mut each: impl FnMut(u32, u32)) {
        let count = self.count.swap(0, Ordering::Relaxed).min(self.written.len());
        let mut run: Option<(u32, u32)> = None;
        for place in self.written.iter().take(count) {
            let page = place.load(Ordering::Relaxed);
            self.take_marks(page);
            // It may have been taken away since.
            if self.get(page) != Rights::Write {
                continue;
            }
            self.set(page, 1, Rights::Read);
            match &mut run {
                Some((first, pages)) if *first + *pages == page => *pages += 1,
                _ => {
                    if let Some((first, pages)) = run.replace((page, 1)) {
                        each(first, pages);
                    }
                }
            }
        }
        if let Some((first, pages)) = run {
            each(first, pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_taken_in_runs_once() {
        let table = RightsTable::new(100).unwrap();
        table.set(3, 4, Rights::Write);
        table.set(9, 1, Rights::Write);
        table.set(10, 5, Rights::Read);
        table.set(4, 1, Rights::None);
        table.set(4, 1, Rights::Write);
        table.set(9, 1, Rights::None);
        let mut runs = Vec::new();
        table.take_written(|first, pages| runs.push((first, pages)));
        assert_eq!(runs, [(3, 4)]);
        assert_eq!(
            (table.get(3), table.get(9), table.get(10)),
            (Rights::Read, Rights::None, Rights::Read)
        );
        table.take_written(|_, _| panic!("nothing is left"));
        assert_eq!(table.get(1000), Rights::None);
    }

    #[test]
    fn used_pages_lie_in_runs_of_chunks() {
        let table = RightsTable::new(3000).unwrap();
        table.set(5, 1, Rights::Read);
        table.set(600, 1, Rights::Read);
        table.set(5, 1, Rights::None);
        table.set(2999, 1, Rights::Write);
        let mut runs = Vec::new();
        table.used_runs(|first, pages| runs.push((first, pages)));
        assert_eq!(runs, [(0, 1024), (2560, 440)]);
        table.note(7);
        let mut noted = Vec::new();
        table.note_maybe(9);
        table.take_noted(|page, maybe| noted.push((page, maybe)));
        assert_eq!(noted, [(2999, false), (7, false), (9, true)]);
    }

    #[test]
    fn a_table_of_many_pages_costs_little() {
        let table = RightsTable::new(24 << 20).unwrap();
        table.set((24 << 20) - 1, 1, Rights::Write);
        let mut runs = 0;
        table.take_written(|_, pages| runs += pages);
        assert_eq!(runs, 1);
    }
}
