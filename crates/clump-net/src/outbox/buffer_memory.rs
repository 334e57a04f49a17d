//! Bytes of a send buffer: pages of its own where it is large, else memory of the allocator.
//!
//! A freed range of the allocator leaves holes between the small objects that live on beside it,
//! and a page with one of those stays resident: with a buffer for each of many peers, most of what
//! an idle peer costs. A range of pages is unmapped as a whole. It also begins with a page, so that
//! zero-copy packets span as few as possible, and its pages never hold anything else: a packet may
//! still wait in the kernel, for a peer that was given up for example, and later contents must not
//! be sent with it.

use clump_driver::MIN_KEPT;
use clump_os::memory::Aligned;
use clump_wire::Append;

/// Memory that bytes are appended to, up to a capacity.
#[derive(Debug)]
pub(super) enum BufferMemory {
    Heap(Vec<u8>),
    /// Pages, and the number of bytes in them.
    Pages(Aligned, usize),
}

impl Default for BufferMemory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl BufferMemory {
    /// Creates memory for so many bytes. Pages become resident as they are filled.
    pub(super) fn new(bytes: usize) -> Self {
        if bytes >= MIN_KEPT
            && let Ok(pages) = Aligned::new(bytes)
        {
            debug_assert!(pages.len() >= bytes, "whole pages");
            return Self::Pages(pages, 0);
        }
        // Where no more mappings are allowed, the allocator may have memory.
        Self::Heap(Vec::with_capacity(bytes))
    }

    /// Returns the number of bytes appended.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Pages(_, len) => *len,
        }
    }

    /// Returns the bytes appended.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(pages, len) => pages.get(..*len).unwrap_or_default(),
        }
    }

    /// Returns the bytes appended, mutably.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(pages, len) => pages.get_mut(..*len).unwrap_or_default(),
        }
    }

    /// Appends so many zeroes.
    #[inline]
    pub(super) fn append_zeroes(&mut self, count: usize) {
        let before = self.len();
        match self {
            Self::Heap(bytes) => bytes.resize(before + count, 0),
            Self::Pages(pages, len) => match pages.get_mut(before..before + count) {
                Some(room) => {
                    room.fill(0);
                    *len += count;
                }
                None => self.outgrow(&vec![0; count]),
            },
        }
        debug_assert!(self.len() == before + count, "all of them are there");
    }

    /// Removes all bytes from the one at `len` on.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len(), "there are so many");
        match self {
            Self::Heap(bytes) => bytes.truncate(len),
            Self::Pages(_, all) => *all = len.min(*all),
        }
    }

    /// Moves to the allocator's memory, which grows: the pages are too few.
    #[cold]
    fn outgrow(&mut self, more: &[u8]) {
        debug_assert!(matches!(self, Self::Pages(..)), "the allocator's memory grows itself");
        *self = Self::Heap([self.bytes(), more].concat());
    }
}

impl Append for BufferMemory {
    #[inline]
    fn append(&mut self, more: &[u8]) {
        match self {
            Self::Heap(bytes) => bytes.extend_from_slice(more),
            Self::Pages(pages, len) => match pages.get_mut(*len..*len + more.len()) {
                Some(room) => {
                    room.copy_from_slice(more);
                    *len += more.len();
                }
                None => self.outgrow(more),
            },
        }
    }
}

impl Drop for BufferMemory {
    /// Exchanges the pages of large memory of the allocator for new ones, for the reason above.
    fn drop(&mut self) {
        if let Self::Heap(bytes) = self
            && bytes.capacity() >= MIN_KEPT
        {
            bytes.clear();
            if !clump_os::udp::withdraw(bytes.spare_capacity_mut()) {
                std::mem::forget(std::mem::take(bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_in_either_memory_and_beyond_what_was_asked_for() {
        for asked in [100, MIN_KEPT] {
            let mut memory = BufferMemory::new(asked);
            assert_eq!(matches!(memory, BufferMemory::Pages(..)), asked == MIN_KEPT);
            memory.append(b"head");
            memory.append_zeroes(3);
            memory.append(b"tail");
            memory.truncate(9);
            assert_eq!(memory.bytes(), b"head\0\0\0ta");
            memory.bytes_mut()[4] = 9;
            memory.append(&vec![7; asked]);
            memory.append_zeroes(1);
            assert_eq!(memory.len(), asked + 10);
            assert!(memory.bytes().starts_with(b"head\x09\0\0ta\x07"));
            assert!(memory.bytes().ends_with(&[7, 7, 0]));
        }
    }

    #[test]
    fn bytes_that_were_removed_do_not_come_back() {
        let mut memory = BufferMemory::new(MIN_KEPT);
        memory.append(&[5; 100]);
        memory.truncate(10);
        memory.append_zeroes(90);
        assert_eq!(memory.bytes(), [&[5; 10][..], &[0; 90]].concat());
    }
}
