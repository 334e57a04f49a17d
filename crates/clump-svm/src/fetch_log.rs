//! Pages that a rank has fetched by itself, and that the interface of its node does not know of: a
//! ring in memory of the node, filled by the rank, emptied by the interface before each event. Both
//! have the lock of the node then.

use crate::mailbox::{FETCH_LOG_PAGES, MAILBOX_BYTES};
use crate::node_pages::PAGE;
use crate::published_time::PUBLISHED_BYTES;
use crate::version_record::{RECORD_WORDS, VersionRecord};
use clump_hlrc::PageAccess;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Words before the entries: how many were written, and how many were taken.
const HEAD: usize = 2;
/// Words of a page, and of an entry: page and right, its version, its bytes.
const PAGE_WORDS: usize = PAGE / 8;
const ENTRY_WORDS: usize = 1 + RECORD_WORDS + PAGE_WORDS;
/// Entries of the ring.
const ENTRIES: usize = 32;
const WORDS: usize = HEAD + ENTRIES * ENTRY_WORDS;

const _: () = assert!(WORDS as u64 * 8 + PUBLISHED_BYTES <= FETCH_LOG_PAGES * MAILBOX_BYTES);

/// Mark, in the first word of an entry, of a right to write.
const WRITES: u64 = 1 << 32;

/// Note of a page that was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FetchNote {
    pub(crate) page: u32,
    /// Right that the rank has taken.
    pub(crate) access: PageAccess,
    pub(crate) version: VersionRecord,
}

/// Log of one rank, as either side sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchLog<'a> {
    words: &'a [AtomicU64],
}

impl<'a> FetchLog<'a> {
    /// Returns the log at a place, if the region is mapped there.
    pub(crate) fn over(cells: &'a Cells, at: u64) -> Option<Self> {
        debug_assert!(at.is_multiple_of(MAILBOX_BYTES), "logs are pages");
        cells.words(at, WORDS).map(|words| Self { words })
    }

    fn entry(&self, number: u64) -> &[AtomicU64] {
        let at = HEAD + (number % ENTRIES as u64) as usize * ENTRY_WORDS;
        &self.words[at..at + ENTRY_WORDS]
    }

    /// Returns true if the rank may append a note.
    pub(crate) fn has_room(&self) -> bool {
        // SYNC 43: pairs with end_first
        let taken = self.words[1].load(Ordering::Acquire);
        self.words[0].load(Ordering::Relaxed).wrapping_sub(taken) < ENTRIES as u64
    }

    /// Returns true each time that the rank has appended half as many notes as there is room for:
    /// the interface may take them before it is full.
    pub(crate) fn is_half_full(&self) -> bool {
        self.words[0].load(Ordering::Relaxed).is_multiple_of(ENTRIES as u64 / 2)
    }

    /// Appends a note, as the rank, where there is room; and the bytes that were fetched, if they
    /// are the page's twin.
    pub(crate) fn append(&self, note: &FetchNote, twin: Option<&[u8; PAGE]>) {
        debug_assert!(self.has_room(), "there is room");
        let end = self.words[0].load(Ordering::Relaxed);
        let (head, rest) = self.entry(end).split_at(1);
        let (version, bytes) = rest.split_at(RECORD_WORDS);
        let writes = if note.access == PageAccess::Write { WRITES } else { 0 };
        head[0].store(u64::from(note.page) | writes, Ordering::Relaxed);
        note.version.store(version);
        if let Some(twin) = twin {
            let (from, _) = twin.as_chunks::<8>();
            let pairs = bytes.iter().zip(from);
            pairs.for_each(|(word, from)| word.store(u64::from_ne_bytes(*from), Ordering::Relaxed));
        }
        // SYNC 44: pairs with first
        self.words[0].store(end.wrapping_add(1), Ordering::Release);
    }

    /// Returns the first note, at the interface, which trusts nothing in it.
    pub(crate) fn first(&self) -> Option<FetchNote> {
        // SYNC 44: pairs with append
        let end = self.words[0].load(Ordering::Acquire);
        let begin = self.words[1].load(Ordering::Relaxed);
        if end == begin {
            return None;
        }
        let entry = self.entry(begin);
        let word = entry[0].load(Ordering::Relaxed);
        let access = if word & WRITES != 0 { PageAccess::Write } else { PageAccess::Read };
        let version = VersionRecord::load(&entry[1..]);
        Some(FetchNote { page: word as u32, access, version })
    }

    /// Copies the bytes of the first note.
    pub(crate) fn first_bytes(&self) -> [u8; PAGE] {
        let mut bytes = [0; PAGE];
        let entry = self.entry(self.words[1].load(Ordering::Relaxed));
        let (to, _) = bytes.as_chunks_mut::<8>();
        let pairs = to.iter_mut().zip(&entry[1 + RECORD_WORDS..]);
        pairs.for_each(|(to, word)| *to = word.load(Ordering::Relaxed).to_ne_bytes());
        bytes
    }

    /// Takes the first note.
    pub(crate) fn end_first(&self) {
        // SYNC 43: pairs with has_room
        self.words[1].fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_out_once_and_never_overflow() {
        let words: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let log = FetchLog { words: &words };
        let note = |page: u32| {
            let access = if page.is_multiple_of(2) { PageAccess::Read } else { PageAccess::Write };
            FetchNote { page, access, version: VersionRecord::default() }
        };
        let mut next = 0;
        for round in 0..40 {
            let count = 1 + round % ENTRIES as u32;
            for page in next..next + count {
                assert!(log.has_room());
                log.append(&note(page), Some(&[page as u8; PAGE]));
            }
            assert_eq!(log.has_room(), count < ENTRIES as u32);
            for page in next..next + count {
                assert_eq!(log.first(), Some(note(page)));
                assert_eq!(log.first_bytes(), [page as u8; PAGE]);
                log.end_first();
            }
            assert_eq!(log.first(), None);
            next += count;
        }
    }
}
