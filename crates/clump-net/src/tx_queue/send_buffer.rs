//! Memory of units: each lies in a send buffer as the packet that carries it, with room for a
//! header before it and for a checksum behind it.
//!
//! Packets of one send buffer lie back to back, so that a burst is one contiguous range for the
//! kernel. A send buffer is as long as one segmented send, or as one unit that is longer than half
//! of that.

use super::buffer_memory::BufferMemory;

/// Room before a unit, and the largest room behind it.
pub(super) const HEADROOM: usize = clump_wire::HEADER_BYTES;
pub(super) const TAILROOM: usize = 16;
/// Most bytes of a send buffer with several packets: as many as a segmented send takes.
const MAX_BYTES: usize = 65_507;

/// Contents of a pool of send buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// Units of bulk.
    Bulk,
    /// Units of control messages.
    Control,
    /// Encrypted packets, kept until acknowledged so that they can be sent zero-copy. Their buffers
    /// never hold anything that is not encrypted: bytes that may still be read there after their
    /// unit was acknowledged reveal nothing.
    Sealed,
}

/// Memory for consecutive packets.
#[derive(Debug)]
pub(super) struct SendBuffer {
    pub(super) memory: BufferMemory,
    /// Largest offset at which the last packet may end.
    most: usize,
    /// Units in it that are still needed.
    pub(super) units: u32,
}

/// Place of a unit: its send buffer, the offset at which its packet begins, and that at which the
/// unit ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferRange {
    pub(super) pool: PoolKind,
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
        let most = (MAX_BYTES / packet).max(1) * packet;
        debug_assert!(tail <= TAILROOM && most >= packet, "a buffer holds a packet");
        Self { memory: BufferMemory::new(most + TAILROOM), most, units: 0 }
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

    /// Clears its contents.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.memory.truncate(0);
        self.units = 0;
    }
}
