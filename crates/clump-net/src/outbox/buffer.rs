//! The buffer of a unit: a packet that grows, with room for a header before the unit and a trailer behind it.

use super::{HEADROOM, TAILROOM};
use clump_driver::LEAST_KEPT;

/// Packets that are shown to the kernel begin with a page, so that they lie in as few as possible.
const PAGE: usize = 4096;

/// See the module. One that was never made is empty and has no room.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Where the packet begins.
    start: usize,
}

impl Buffer {
    /// For a unit of up to `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        let packet = HEADROOM + capacity + TAILROOM;
        let slack = if packet < LEAST_KEPT { 0 } else { PAGE };
        let mut bytes: Vec<u8> = Vec::with_capacity(packet + slack);
        // Nothing depends on it: were the memory to move, packets would lie in one page more.
        let start = if slack == 0 { 0 } else { bytes.as_ptr().addr().wrapping_neg() % PAGE };
        bytes.resize(start + HEADROOM, 0);
        Self { bytes, start }
    }

    /// Bytes of the packet so far, the room for its header included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether it was never made.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that the packet may have.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity() - self.start
    }

    /// The packet.
    #[inline]
    pub(super) fn packet(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The packet made `bytes` long, to be filled in.
    #[inline]
    pub(super) fn packet_mut(&mut self, bytes: usize) -> &mut [u8] {
        self.bytes.resize(self.start + bytes, 0);
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// The unit: all behind the room for the header.
    #[inline]
    pub(super) fn unit(&self) -> &[u8] {
        self.packet().get(HEADROOM..).unwrap_or_default()
    }

    /// Where frames are appended.
    #[inline]
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Forgets the unit.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(self.start + HEADROOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_begins_with_a_page_and_stays_there() {
        for capacity in [1400, 65_432] {
            let mut buffer = Buffer::new(capacity);
            let at = buffer.packet().as_ptr();
            assert!(capacity < LEAST_KEPT || at.addr().is_multiple_of(PAGE));
            assert!(buffer.capacity() >= HEADROOM + capacity + TAILROOM);
            assert_eq!((buffer.len(), buffer.unit().len()), (HEADROOM, 0));
            buffer.end().extend(std::iter::repeat_n(1, capacity));
            assert_eq!(buffer.unit(), vec![1; capacity]);
            assert_eq!(buffer.packet_mut(HEADROOM + capacity + TAILROOM).as_ptr(), at);
            buffer.clear();
            assert_eq!(buffer.len(), HEADROOM);
        }
        assert!(Buffer::default().is_empty() && Buffer::default().unit().is_empty());
    }
}
