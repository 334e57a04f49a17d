//! Encrypted packets, kept until acknowledged so that they can be sent zero-copy.
//!
//! They lie in send buffers of their own, which never hold anything that is not encrypted: bytes
//! that may still be read there after their unit was acknowledged reveal nothing.

use super::Outbox;
use super::buffer_pool::BufferPool;
use super::send_buffer::BufferRange;
use clump_driver::MIN_KEPT;
use std::collections::VecDeque;

/// Encrypted packets of units, kept until acknowledged.
#[derive(Debug)]
pub(super) struct SealedBuffers {
    pool: BufferPool,
    /// Unit and send buffer number of each packet that is still needed.
    units: VecDeque<(u64, u64)>,
}

impl SealedBuffers {
    /// Creates buffers for units of at most `capacity` bytes with `tail` bytes behind each.
    pub(super) fn new(capacity: usize, tail: usize) -> Self {
        Self { pool: BufferPool::new(capacity, tail, true), units: VecDeque::new() }
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.pool.set_capacity(capacity);
    }

    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.pool.set_growth(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.pool.clear();
        self.units.clear();
    }

    /// Keeps a packet behind the one before it; returns its place.
    fn keep(&mut self, unit: u64, packet: &[u8]) -> BufferRange {
        let at = self.pool.begin();
        let tail = self.pool.tail();
        let send_buffer = self.pool.filling_mut();
        send_buffer.end().truncate(at);
        send_buffer.end().extend_from_slice(packet);
        let end = send_buffer.len().saturating_sub(tail);
        let send_buffer = self.pool.number();
        self.units.push_back((unit, send_buffer));
        BufferRange { send_buffer, at, end }
    }

    /// Releases the packets of units below `base`.
    #[inline]
    pub(super) fn release(&mut self, base: u64) {
        while let Some(&(unit, send_buffer)) = self.units.front()
            && unit < base
        {
            self.units.pop_front();
            self.pool.release(send_buffer);
        }
    }
}

impl Outbox {
    /// Returns true if these bytes lie in memory that the kernel may read.
    #[cfg(test)]
    pub(crate) fn covers_hold(&self, bytes: &[u8]) -> bool {
        self.covers.pool.filling().packets().windows(bytes.len()).any(|window| window == bytes)
    }

    /// Returns true if so much is sent, with the unit launched last, that packets should be sent
    /// zero-copy.
    #[inline]
    pub(crate) fn has_much(&self) -> bool {
        let bytes = self.units_in_flight.back().map_or(0, |unit| unit.place.bytes());
        bytes + self.waiting >= MIN_KEPT || self.is_packing()
    }

    /// Builds the packet of a unit with `seal`, and keeps it, behind the one before it, instead of
    /// the unit: the unit's memory is then used for the next one while the nearest cache has it.
    /// `None`: nothing has changed, since there is no place for it.
    pub(crate) fn cover(&mut self, unit: u64, seal: impl FnOnce(&mut [u8])) -> Option<BufferRange> {
        let at = usize::try_from(unit.checked_sub(self.base)?).ok()?;
        let Self { pool, covers, units_in_flight, .. } = self;
        let flown = units_in_flight.get_mut(at)?;
        let BufferRange { send_buffer, at, end } = flown.place;
        if flown.covered || flown.place.bytes() > covers.pool.capacity() {
            return None;
        }
        let end = end + pool.tail();
        let packet = match &mut flown.own {
            Some(own) => own.get_mut(at, end)?,
            None => pool.get_mut(send_buffer)?.get_mut(at, end)?,
        };
        seal(packet);
        let place = covers.keep(unit, packet);
        flown.covered = true;
        flown.place = place;
        if flown.own.take().is_none() {
            pool.release(send_buffer);
        }
        Some(place)
    }

    /// Returns a kept packet.
    #[inline]
    pub(crate) fn covered(&self, place: BufferRange) -> Option<&[u8]> {
        let pool = &self.covers.pool;
        pool.get(place.send_buffer)?.get(place.at, place.end + pool.tail())
    }

    /// Returns true if the next packet to keep will lie in another send buffer than the last.
    #[inline]
    pub(super) fn covers_turn(&self) -> bool {
        !self.covers.pool.has_room()
    }
}
