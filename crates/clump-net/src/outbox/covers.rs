//! Packets that sealing has made of units, where they can stay until they have arrived: so their pages may be shown to
//! the kernel.
//!
//! They lie in rows of their own, which never hold anything that is not encrypted: whatever may still be read there
//! after its unit was acknowledged tells nobody anything.

use super::Outbox;
use super::row::Place;
use super::shelf::Shelf;
use clump_driver::LEAST_KEPT;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Covers {
    shelf: Shelf,
    /// Of which unit the packets are that are needed yet, and in which row each is.
    units: VecDeque<(u64, u64)>,
}

impl Covers {
    /// For units of at most `capacity` bytes with `tail` bytes behind each.
    pub(super) fn new(capacity: usize, tail: usize) -> Self {
        Self { shelf: Shelf::new(capacity, tail, true), units: VecDeque::new() }
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.shelf.set_capacity(capacity);
    }

    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.shelf.set_growth(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.shelf.clear();
        self.units.clear();
    }

    /// Keeps a packet behind the one before it; gives where.
    fn keep(&mut self, unit: u64, packet: &[u8]) -> Place {
        let at = self.shelf.begin();
        let tail = self.shelf.tail();
        let row = self.shelf.filling_mut();
        row.end().truncate(at);
        row.end().extend_from_slice(packet);
        let end = row.len().saturating_sub(tail);
        let row = self.shelf.number();
        self.units.push_back((unit, row));
        Place { row, at, end }
    }

    /// Units below `base` are not needed any more.
    #[inline]
    pub(super) fn release(&mut self, base: u64) {
        while let Some(&(unit, row)) = self.units.front()
            && unit < base
        {
            self.units.pop_front();
            self.shelf.release(row);
        }
    }
}

impl Outbox {
    /// Whether these bytes lie anywhere where others may look.
    #[cfg(test)]
    pub(crate) fn covers_hold(&self, bytes: &[u8]) -> bool {
        self.covers.shelf.filling().packets().windows(bytes.len()).any(|window| window == bytes)
    }

    /// Whether so much goes out, with the unit that was launched last, that packets had better be shown to the kernel
    /// where they lie.
    #[inline]
    pub(crate) fn has_much(&self) -> bool {
        let bytes = self.flying.back().map_or(0, |unit| unit.place.bytes());
        bytes + self.waiting >= LEAST_KEPT || self.is_packing()
    }

    /// Makes the packet of a unit with `seal`, and keeps that, behind the one before it, instead of the unit: so its
    /// memory is used for the next one while the nearest cache has it. `None`: nothing has happened, since there is no
    /// place for it.
    pub(crate) fn cover(&mut self, unit: u64, seal: impl FnOnce(&mut [u8])) -> Option<Place> {
        let at = usize::try_from(unit.checked_sub(self.base)?).ok()?;
        let Self { shelf, covers, flying, .. } = self;
        let flown = flying.get_mut(at)?;
        let Place { row, at, end } = flown.place;
        if flown.covered || flown.place.bytes() > covers.shelf.capacity() {
            return None;
        }
        let end = end + shelf.tail();
        let packet = match &mut flown.own {
            Some(own) => own.get_mut(at, end)?,
            None => shelf.get_mut(row)?.get_mut(at, end)?,
        };
        seal(packet);
        let place = covers.keep(unit, packet);
        flown.covered = true;
        flown.place = place;
        if flown.own.take().is_none() {
            shelf.release(row);
        }
        Some(place)
    }

    /// A packet that is kept.
    #[inline]
    pub(crate) fn covered(&self, place: Place) -> Option<&[u8]> {
        let shelf = &self.covers.shelf;
        shelf.get(place.row)?.get(place.at, place.end + shelf.tail())
    }

    /// Whether the next packet that is kept will lie in another row than the last.
    #[inline]
    pub(super) fn covers_turn(&self) -> bool {
        !self.covers.shelf.has_room()
    }
}
