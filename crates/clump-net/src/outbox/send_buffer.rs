//! Where units lie: in rows, each as the packet that carries it, with room for a header before it and for a checksum
//! behind it.
//!
//! Packets of one row lie back to back, so that what leaves in one burst is one piece of memory for the kernel. A row is
//! as long as one segmented send, or as one unit that is longer than half of that.

use super::{HEADROOM, Outbox, TAILROOM};
use clump_driver::MIN_KEPT;

/// Packets that are shown to the kernel begin with a page, so that they lie in as few as possible.
const PAGE: usize = 4096;

/// Most bytes of a row that holds several packets: what a segmented send takes.
const MAX_BYTES: usize = 65_507;

/// See the module. One that was never made is empty and has no room.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    /// Where the first packet begins.
    start: usize,
    /// Where the last may end.
    most: usize,
    /// Units in it that something still needs.
    pub(super) units: u32,
}

/// Where a unit lies: which row, where its packet begins there, and where it ends itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferRange {
    pub(super) send_buffer: u64,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl BufferRange {
    /// Bytes of the unit.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.end - self.at - HEADROOM
    }
}

impl SendBuffer {
    /// For as many units of up to `capacity` bytes, with `tail` bytes behind each, as one send takes; one at least.
    pub(super) fn new(capacity: usize, tail: usize) -> Self {
        let packet = HEADROOM + capacity + tail;
        Self::of((MAX_BYTES / packet).max(1) * packet)
    }

    /// For one unit of up to `capacity` bytes.
    pub(super) fn for_one(capacity: usize) -> Self {
        Self::of(HEADROOM + capacity)
    }

    fn of(packets: usize) -> Self {
        let room = packets + TAILROOM;
        // So much that all pages its packets lie in are its own.
        let slack = if room < MIN_KEPT { 0 } else { 2 * PAGE };
        let mut bytes: Vec<u8> = Vec::with_capacity(room + slack);
        // Nothing depends on it: were the memory to move, packets would lie in one page more.
        let start = if slack == 0 { 0 } else { bytes.as_ptr().addr().wrapping_neg() % PAGE };
        bytes.resize(start, 0);
        Self { bytes, start, most: start + packets, units: 0 }
    }

    /// Whether another unit of up to `capacity` bytes has room.
    #[inline]
    pub(super) fn has_room(&self, capacity: usize, tail: usize) -> bool {
        self.bytes.len() + HEADROOM + capacity + tail <= self.most
    }

    /// Bytes that its packets may have.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.most - self.start
    }

    /// Begins a packet; gives where.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + HEADROOM, 0);
        self.units += 1;
        at
    }

    /// Where the packets end so far.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Where frames are appended.
    #[inline]
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the packet that begins at `at`, with `tail` bytes behind its unit.
    #[inline]
    pub(super) fn finish(&mut self, send_buffer: u64, at: usize, tail: usize) -> BufferRange {
        let end = self.bytes.len();
        self.bytes.resize(end + tail, 0);
        BufferRange { send_buffer, at, end }
    }

    #[inline]
    pub(super) fn get(&self, from: usize, to: usize) -> Option<&[u8]> {
        self.bytes.get(from..to)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, from: usize, to: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(from..to)
    }

    /// All its packets.
    #[inline]
    pub(super) fn packets(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Forgets what it holds.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(self.start);
        self.units = 0;
    }
}

impl Drop for SendBuffer {
    /// A packet of it may wait to be sent yet, to a peer that was given up for example: what this memory is used for
    /// next must not go out with it.
    fn drop(&mut self) {
        if self.bytes.capacity() < MIN_KEPT {
            return;
        }
        self.bytes.clear();
        if !clump_os::udp::withdraw(self.bytes.spare_capacity_mut()) {
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}

impl Outbox {
    /// Begins a unit: behind the last one, or in a row of its own.
    #[inline]
    pub(super) fn begin_unit(&mut self) {
        self.open = Some(self.pool.begin());
    }

    /// Bytes of the whole units that wait and leave in one piece, if there are several.
    pub(crate) fn row_bytes(&self) -> usize {
        let Some(first) = self.closed.front() else { return 0 };
        let count = self.closed.partition_point(|unit| unit.send_buffer <= first.send_buffer);
        let last = count.checked_sub(1).and_then(|last| self.closed.get(last));
        if count > 1 { last.map_or(0, |last| last.end - first.at) } else { 0 }
    }

    /// Whether the next packet to send lies, or will lie, in another row than the last that was sent, also among the
    /// sealed ones (`covers`).
    #[inline]
    pub(crate) fn turns_to_next_row(&self, covers: bool) -> bool {
        if covers {
            return self.covers_turn();
        }
        match (self.closed.front(), self.units_in_flight.back()) {
            (Some(next), Some(last)) => next.send_buffer != last.place.send_buffer,
            _ => self.open.is_none() && !self.pool.has_room(),
        }
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
            assert!(at.addr().is_multiple_of(PAGE), "both hold as much as a send takes");
            send_buffer.end().extend_from_slice(&vec![1; capacity]);
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
            send_buffer.end().extend_from_slice(&[7; 1400]);
            places.push(send_buffer.finish(0, at, 4));
        }
        assert_eq!(places.len(), 65_507 / 1468);
        assert!(places.windows(2).all(|two| matches!(two, [a, b] if a.end + 4 == b.at)));
    }
}
