//! Memory of a connection's units: waiting, in flight, and those that have arrived and are kept.

use super::buffer_pool::BufferPool;
use super::send_buffer::{BufferRange, PoolKind};

/// The pools of one connection.
#[derive(Debug)]
pub(crate) struct UnitMemory {
    pub(super) bulk: BufferPool,
    pub(super) control: BufferPool,
    pub(super) sealed: BufferPool,
}

/// Share of a unit that fits a message of the largest size.
pub(super) const MIN_SHARE: usize = 256;

/// Returns the bytes of control messages that may go ahead between two units of bulk.
#[inline]
fn share(capacity: usize) -> usize {
    (capacity / 4).max(MIN_SHARE)
}

impl UnitMemory {
    /// Creates pools for units of at most `capacity` bytes with `tail` bytes behind each.
    /// `encrypts`: sealing changes units, so that zero-copy packets are kept elsewhere.
    pub(super) fn new(capacity: usize, tail: usize, encrypts: bool) -> Self {
        let pool = |kind, bytes, zero_copy| BufferPool::new(kind, bytes, tail, zero_copy);
        debug_assert!(capacity.is_multiple_of(8), "frames begin at multiples of 8");
        Self {
            bulk: pool(PoolKind::Bulk, capacity, !encrypts),
            control: pool(PoolKind::Control, share(capacity), true),
            sealed: pool(PoolKind::Sealed, capacity, true),
        }
    }

    /// Returns all pools, in the order of their kinds.
    #[inline]
    fn all(&mut self) -> [&mut BufferPool; 3] {
        [&mut self.bulk, &mut self.control, &mut self.sealed]
    }

    /// Returns the packet at a place.
    #[inline]
    pub(super) fn packet(&self, place: BufferRange) -> Option<&[u8]> {
        [&self.bulk, &self.control, &self.sealed].get(place.pool as usize)?.packet(place)
    }

    /// Returns the packet at a place, to be filled in.
    #[inline]
    pub(super) fn packet_mut(&mut self, place: BufferRange) -> Option<&mut [u8]> {
        self.all().into_iter().nth(place.pool as usize)?.packet_mut(place)
    }

    /// Releases the unit at a place.
    #[inline]
    pub(super) fn release(&mut self, place: BufferRange) {
        debug_assert!(place.bytes() > 0, "no unit is empty");
        match place.pool {
            PoolKind::Bulk => self.bulk.release(place),
            PoolKind::Control => self.control.release(place),
            PoolKind::Sealed => self.sealed.release(place),
        }
    }

    /// Returns the bytes of control messages that may go ahead between two units of bulk.
    #[inline]
    pub(super) fn control_share(&self) -> usize {
        self.control.capacity()
    }

    /// Returns the number of bytes behind a unit.
    #[inline]
    pub(super) fn tail(&self) -> usize {
        self.bulk.tail()
    }

    /// Sets the bytes up to which zero-copy buffers may grow, however little of them is in flight.
    pub(crate) fn set_growth(&mut self, bytes: usize) {
        self.bulk.set_growth(bytes);
        self.sealed.set_growth(bytes);
    }

    /// Sets the longest unit of bulk. Existing units stay as they are.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity.is_multiple_of(8), "frames begin at multiples of 8");
        self.bulk.set_capacity(capacity);
        self.control.set_capacity(share(capacity));
        self.sealed.set_capacity(capacity);
    }

    /// Gives back all send buffers; no unit needs one.
    pub(super) fn release_spare(&mut self) {
        self.all().into_iter().for_each(BufferPool::release_spare);
        debug_assert!(self.spare_bytes() == 0, "all of it was given back");
    }

    /// Returns the bytes that [`UnitMemory::release_spare`] gives back.
    pub(super) fn spare_bytes(&self) -> usize {
        self.bulk.spare_bytes() + self.control.spare_bytes() + self.sealed.spare_bytes()
    }

    /// Gives up all units.
    pub(super) fn clear(&mut self) {
        self.all().into_iter().for_each(BufferPool::clear);
        debug_assert!(self.spare_bytes() == 0, "nothing is kept");
    }

    /// Returns true if these bytes lie in memory of sealed packets.
    #[cfg(test)]
    pub(crate) fn sealed_hold(&mut self, bytes: &[u8]) -> bool {
        self.sealed.holds(bytes)
    }

    /// Asserts what always holds between calls. `units` are the places of all units that are kept,
    /// but for those that are open.
    pub(super) fn check_invariants(
        &self,
        units: impl Iterator<Item = BufferRange>,
        open: [bool; 2],
    ) {
        let mut counts = [usize::from(open[0]), usize::from(open[1]), 0];
        for unit in units {
            assert!(unit.bytes() > 0, "no unit is empty");
            counts[unit.pool as usize] += 1;
        }
        for (pool, count) in [&self.bulk, &self.control, &self.sealed].into_iter().zip(counts) {
            assert_eq!(pool.units(), count, "buffers count the units that need them");
            pool.check_invariants();
        }
    }
}
