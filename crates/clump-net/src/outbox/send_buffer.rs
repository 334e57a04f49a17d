//! Memory of units: each lies in a send buffer as the packet that carries it, with room for a
//! header before it and for a checksum behind it.
//!
//! Packets of one send buffer lie back to back, so that a burst is one contiguous range for the
//! kernel. A send buffer is as long as one segmented send, or as one unit that is longer than half
//! of that.

use super::buffer_memory::BufferMemory;
use super::layout::{HEADROOM, TAILROOM};
use clump_wire::Append;

/// Most bytes of a send buffer with several packets: as many as a segmented send takes.
const MAX_BYTES: usize = 65_507;

/// Memory for consecutive packets. The default is empty and has no room.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    memory: BufferMemory,
    /// Largest offset at which the last packet may end.
    most: usize,
    /// Units in it that are still needed.
    pub(super) units: u32,
}

/// Place of a unit: its send buffer, the offset at which its packet begins, and that at which the
/// unit ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferRange {
    pub(super) send_buffer: u64,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl BufferRange {
    /// Returns the bytes of the unit.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        debug_assert!(self.end >= self.at + HEADROOM, "a unit lies behind its header");
        self.end - self.at - HEADROOM
    }
}

impl SendBuffer {
    /// Creates one for as many units of up to `capacity` bytes, with `tail` bytes behind each, as
    /// one send takes; one at least.
    pub(super) fn new(capacity: usize, tail: usize) -> Self {
        let packet = HEADROOM + capacity + tail;
        Self::of((MAX_BYTES / packet).max(1) * packet)
    }

    /// Creates one for one unit of up to `capacity` bytes.
    pub(super) fn for_one(capacity: usize) -> Self {
        Self::of(HEADROOM + capacity)
    }

    fn of(packets: usize) -> Self {
        debug_assert!(packets > HEADROOM, "a buffer holds a packet");
        Self { memory: BufferMemory::new(packets + TAILROOM), most: packets, units: 0 }
    }

    /// Returns true if there is room for another unit of up to `capacity` bytes.
    #[inline]
    pub(super) fn has_room(&self, capacity: usize, tail: usize) -> bool {
        self.memory.len() + HEADROOM + capacity + tail <= self.most
    }

    /// Returns the bytes that its packets may have.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.most
    }

    /// Returns true if its packets have not outgrown it.
    #[inline]
    pub(super) fn holds_all(&self) -> bool {
        self.memory.len() <= self.most
    }

    /// Begins a packet; returns its offset.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        let at = self.memory.len();
        debug_assert!(at + HEADROOM < self.most, "there is room for a unit");
        self.memory.append_zeroes(HEADROOM);
        self.units += 1;
        debug_assert!(self.len() == at + HEADROOM, "frames go behind the header");
        at
    }

    /// Returns the offset at which the packets end so far.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Removes all bytes from offset `at` on.
    #[inline]
    pub(super) fn truncate(&mut self, at: usize) {
        self.memory.truncate(at);
    }

    /// Ends the packet that begins at `at`, with `tail` bytes behind its unit.
    #[inline]
    pub(super) fn finish(&mut self, send_buffer: u64, at: usize, tail: usize) -> BufferRange {
        let end = self.memory.len();
        debug_assert!(end > at + HEADROOM, "a packet holds a unit");
        debug_assert!(tail <= TAILROOM && self.units > 0, "the tail fits");
        self.memory.append_zeroes(tail);
        BufferRange { send_buffer, at, end }
    }

    #[inline]
    pub(super) fn get(&self, from: usize, to: usize) -> Option<&[u8]> {
        debug_assert!(from <= to && to <= self.memory.len(), "a range of the buffer");
        self.memory.bytes().get(from..to)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, from: usize, to: usize) -> Option<&mut [u8]> {
        debug_assert!(from <= to && to <= self.memory.len(), "a range of the buffer");
        self.memory.bytes_mut().get_mut(from..to)
    }

    /// Returns all its packets.
    #[inline]
    pub(super) fn packets(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Clears its contents.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.memory.truncate(0);
        self.units = 0;
    }
}

impl Append for SendBuffer {
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.memory.append(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_begins_with_a_page_and_stays_there() {
        for capacity in [1400, 65_432] {
            let mut send_buffer = SendBuffer::new(capacity, 4);
            let first = send_buffer.begin();
            let at = send_buffer.packets().as_ptr();
            assert!(at.addr().is_multiple_of(4096), "both hold as much as a send takes");
            send_buffer.append(&vec![1; capacity]);
            let place = send_buffer.finish(0, first, 4);
            assert_eq!((send_buffer.packets().as_ptr(), place.bytes()), (at, capacity));
        }
    }

    #[test]
    fn packets_lie_back_to_back_as_far_as_one_send_goes() {
        let mut send_buffer = SendBuffer::new(1400, 4);
        let mut places = Vec::new();
        while send_buffer.has_room(1400, 4) {
            let at = send_buffer.begin();
            send_buffer.append(&[7; 1400]);
            places.push(send_buffer.finish(0, at, 4));
        }
        assert_eq!(places.len(), 65_507 / 1468);
        assert!(places.windows(2).all(|two| matches!(two, [a, b] if a.end + 4 == b.at)));
    }
}
