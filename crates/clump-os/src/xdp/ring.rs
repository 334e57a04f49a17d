//! A ring that the kernel and one thread of ours share: one side produces, the other consumes.

use crate::error::Result;
use crate::map::Mapping;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::os::fd::BorrowedFd;

/// Largest size of a ring's mapping, in bytes, that is accepted.
const MAX_BYTES: usize = 1 << 20;

/// One ring, seen from our side.
#[derive(Debug)]
pub(super) struct XdpRing {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    entries_at: usize,
    /// A power of two.
    entries: u32,
    /// Words of an entry.
    words: usize,
    /// Our own count: position of the next entry that we produce or consume.
    next: u32,
}

impl XdpRing {
    /// Maps a ring whose parts are at the kernel's offsets; returns `None` when they are
    /// impossible.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        [producer, consumer, entries_at, _]: [u64; 4],
        entries: usize,
        entry_bytes: usize,
    ) -> Result<Option<Self>> {
        let parts =
            [producer, consumer, entries_at].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let [producer, consumer, entries_at] = parts;
        let possible = parts.iter().all(|at| *at < MAX_BYTES && at.is_multiple_of(8));
        if !possible || !entries.is_power_of_two() {
            return Ok(None);
        }
        let end = entries_at + entries * entry_bytes;
        let bytes = end.max(producer + 8).max(consumer + 8);
        let memory = Mapping::shared(socket, page, bytes)?;
        let (entries, words) = (u32::try_from(entries).unwrap_or(0), entry_bytes / 8);
        Ok(Some(Self { memory, producer, consumer, entries_at, entries, words, next: 0 }))
    }

    /// Returns the first words of the entry that the kernel produced next, if it has.
    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<[u64; N]> {
        // Acquires the entries that the kernel wrote before it moved its count.
        if self.count(self.producer).load(Ordering::Acquire) == self.next {
            return None;
        }
        let mut entry = [0; N];
        for (at, word) in entry.iter_mut().enumerate().take(self.words) {
            *word = self.word(at).load(Ordering::Relaxed);
        }
        Some(entry)
    }

    /// Consumes the entry that was peeked at.
    #[inline]
    pub(super) fn take(&mut self) {
        self.next = self.next.wrapping_add(1);
        // Releases the entry after it was read.
        self.count(self.consumer).store(self.next, Ordering::Release);
    }

    /// Produces an entry. The caller never has more buffers than there are entries, so one is free.
    #[inline]
    pub(super) fn put(&mut self, entry: &[u64]) {
        for (at, word) in entry.iter().enumerate().take(self.words) {
            self.word(at).store(*word, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        // Releases the entry to the kernel.
        self.count(self.producer).store(self.next, Ordering::Release);
    }

    #[inline]
    fn count(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has made sure that 8 aligned bytes are mapped there; the mapping outlives
        // the borrow, and an atomic may be changed by others (invariants 1 and 2).
        unsafe { &*self.memory.base().as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Returns a word of the current entry.
    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        debug_assert!(word < self.words);
        let entry = (self.next & (self.entries - 1)) as usize;
        let at = self.entries_at + (entry * self.words + word) * 8;
        // SAFETY: the entry is masked and the word below `words`, so it is inside the mapping,
        // aligned as `entries_at` is; as above.
        unsafe { &*self.memory.base().as_ptr().add(at).cast::<AtomicU64>() }
    }
}
