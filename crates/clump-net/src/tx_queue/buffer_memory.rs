//! Memory of send buffers.
//!
//! Memory of many packets is a range of pages of its own, never mixed with other objects of the
//! program in a page. The kernel would copy such a page before it passes it on (copy-on-write), and
//! a packet may still wait there, for a peer that was given up for example: later contents must not
//! be sent with it. It also begins with a page, so that zero-copy packets span as few as possible.

use clump_driver::MIN_KEPT;
use clump_os::memory::Aligned;
use clump_wire::Append;
use std::ops::{Deref, DerefMut};

/// Memory that bytes are appended to, up to what it holds.
#[derive(Debug, Default)]
pub(super) struct BufferMemory {
    bytes: Bytes,
    len: usize,
}

/// The free end of a memory, to be written.
#[derive(Debug)]
pub(super) struct FreeEnd<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

/// Initialized bytes: pages, or where there are none the allocator's.
#[derive(Debug, Default)]
struct Bytes {
    pages: Option<Aligned>,
    heap: Vec<u8>,
}

impl Bytes {
    fn new(bytes: usize) -> Self {
        // Where no more mappings are allowed, the allocator may have memory.
        let pages = Aligned::new(bytes).ok().filter(|_| bytes >= MIN_KEPT);
        let heap = if pages.is_none() { vec![0; bytes] } else { Vec::new() };
        Self { pages, heap }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.pages.as_deref().unwrap_or(&self.heap)
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.as_deref_mut().unwrap_or(&mut self.heap)
    }
}

impl Drop for Bytes {
    /// Exchanges the pages of large memory of the allocator for new ones, for the reason above.
    fn drop(&mut self) {
        let large = self.heap.len() >= MIN_KEPT;
        if large && !clump_os::udp::give_back(&mut self.heap) {
            std::mem::forget(std::mem::take(&mut self.heap));
        }
    }
}

impl BufferMemory {
    /// Creates memory for so many bytes. Pages become resident as they are filled.
    pub(super) fn new(bytes: usize) -> Self {
        let memory = Self { bytes: Bytes::new(bytes), len: 0 };
        debug_assert!(memory.bytes.len() >= bytes, "as many as are needed");
        memory
    }

    /// Returns the number of bytes appended.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns some of the bytes appended.
    #[inline]
    pub(super) fn get(&self, from: usize, to: usize) -> Option<&[u8]> {
        debug_assert!(from <= to && to <= self.len, "a range of what was appended");
        self.bytes.get(from..to)
    }

    /// Returns some of the bytes appended, mutably.
    #[inline]
    pub(super) fn get_mut(&mut self, from: usize, to: usize) -> Option<&mut [u8]> {
        debug_assert!(from <= to && to <= self.len, "a range of what was appended");
        self.bytes.get_mut(from..to)
    }

    /// Appends so many bytes that are written later: until then they are what was there before.
    #[inline]
    pub(super) fn reserve(&mut self, count: usize) {
        self.len += count;
        debug_assert!(self.len <= self.bytes.len(), "there is room");
    }

    /// Appends so many bytes, which `write` writes.
    #[inline]
    pub(super) fn append(&mut self, count: usize, write: impl FnOnce(&mut FreeEnd<'_>)) {
        let end = self.len + count;
        if end > self.bytes.len() {
            self.outgrow(end);
        }
        let mut free =
            FreeEnd { bytes: self.bytes.get_mut(self.len..end).unwrap_or_default(), len: 0 };
        write(&mut free);
        debug_assert!(free.len == count, "all of it was written");
        self.len = end;
    }

    /// Removes all bytes from the one at `len` on.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len, "there are so many");
        self.len = len.min(self.len);
    }

    /// Moves to longer memory: this one is too short.
    #[cold]
    fn outgrow(&mut self, len: usize) {
        debug_assert!(len > self.bytes.len(), "it is too short");
        let mut longer = Bytes::new(len.next_power_of_two());
        if let Some(copy) = longer.get_mut(..self.bytes.len()) {
            copy.copy_from_slice(&self.bytes);
        }
        self.bytes = longer;
    }
}

impl Append for FreeEnd<'_> {
    #[inline]
    fn append(&mut self, more: &[u8]) {
        let end = self.len + more.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(more);
            self.len = end;
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
            assert_eq!(memory.bytes.pages.is_some(), asked == MIN_KEPT);
            memory.append(4, |free| free.append(b"head"));
            memory.reserve(3);
            memory
                .append(4, |free| [&b"ta"[..], b"il"].into_iter().for_each(|two| free.append(two)));
            memory.truncate(9);
            assert_eq!(memory.get(0, 9), Some(&b"head\0\0\0ta"[..]));
            if let Some(byte) = memory.get_mut(4, 5) {
                byte.fill(9);
            }
            let more = memory.bytes.len();
            memory.append(more, |free| free.append(&vec![7; more]));
            assert_eq!(memory.len(), more + 9, "it has outgrown its memory");
            let all = memory.get(0, more + 9).unwrap_or_default();
            assert!(all.starts_with(b"head\x09\0\0ta\x07") && all.ends_with(&[7, 7]));
        }
    }
}
