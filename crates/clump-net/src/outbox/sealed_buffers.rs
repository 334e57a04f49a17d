//! Encrypted packets, kept until acknowledged so that they can be sent zero-copy.
//!
//! They lie in send buffers of their own, which never hold anything that is not encrypted: bytes
//! that may still be read there after their unit was acknowledged reveal nothing.

use super::buffer_pool::BufferPool;
use super::send_buffer::BufferRange;
use clump_wire::Append;

/// Encrypted packets of units, kept until acknowledged.
#[derive(Debug)]
pub(super) struct SealedBuffers {
    pool: BufferPool,
}

impl SealedBuffers {
    /// Creates buffers for units of at most `capacity` bytes with `tail` bytes behind each.
    pub(super) fn new(capacity: usize, tail: usize) -> Self {
        Self { pool: BufferPool::new(capacity, tail, true) }
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.pool.set_capacity(capacity);
    }

    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.pool.set_growth(bytes);
    }

    /// Gives back all send buffers; no packet is kept.
    pub(super) fn release_spare(&mut self) {
        debug_assert!(self.packets() == 0, "packets in flight are kept");
        self.pool.release_spare();
    }

    /// Returns the bytes that [`SealedBuffers::release_spare`] gives back.
    pub(super) fn spare_bytes(&self) -> usize {
        self.pool.spare_bytes()
    }

    pub(super) fn clear(&mut self) {
        self.pool.clear();
    }

    /// Keeps a packet behind the one before it; returns its place.
    pub(super) fn keep(&mut self, packet: &[u8]) -> BufferRange {
        debug_assert!(packet.len() > self.pool.tail(), "a packet with its tag");
        let at = self.pool.begin();
        let tail = self.pool.tail();
        let send_buffer = self.pool.filling_mut();
        send_buffer.truncate(at);
        send_buffer.append(packet);
        let end = send_buffer.len().saturating_sub(tail);
        debug_assert!(end > at, "the packet lies behind the one before");
        debug_assert!(end + tail - at == packet.len(), "as a whole");
        BufferRange { send_buffer: self.pool.number(), at, end }
    }

    /// Releases a packet of this send buffer.
    #[inline]
    pub(super) fn release(&mut self, send_buffer: u64) {
        debug_assert!(self.pool.get(send_buffer).is_some(), "kept packets keep their buffers");
        self.pool.release(send_buffer);
    }

    /// Returns the number of packets that are kept.
    pub(super) fn packets(&self) -> usize {
        self.pool.units()
    }

    /// Returns the largest size of a unit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.pool.capacity()
    }

    /// Returns a kept packet.
    #[inline]
    pub(super) fn get(&self, place: BufferRange) -> Option<&[u8]> {
        self.pool.get(place.send_buffer)?.get(place.at, place.end + self.pool.tail())
    }

    /// Returns true if the next packet to keep will lie in another send buffer than the last.
    #[inline]
    pub(super) fn ends_send_buffer(&self) -> bool {
        !self.pool.has_room()
    }

    /// Returns true if these bytes lie in memory that the kernel may read.
    #[cfg(test)]
    pub(super) fn hold(&self, bytes: &[u8]) -> bool {
        self.pool.filling().packets().windows(bytes.len()).any(|window| window == bytes)
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        self.pool.check_invariants();
    }
}
