//! A unit that was launched, as the packet that carries it.

use super::send_buffer::{BufferRange, HEADROOM, PoolKind};
use super::unit_memory::UnitMemory;
use crate::seal::Sealer;
use std::borrow::Cow;

/// A unit that was launched, from then until nothing needs it any more: the body that the channel
/// keeps.
#[derive(Debug)]
pub(crate) struct Unit {
    place: BufferRange,
    /// True if the kernel may have got its packet zero-copy, so that it must not change.
    zero_copy: bool,
    /// Of a unit of bulk: the last one of the message that it holds a fragment of, whose payload
    /// would have to be returned whole.
    needed_for: Option<u64>,
}

impl Unit {
    /// Makes a unit of what waited at `place`. One of bulk is kept until bulk up to unit
    /// `needed_for` has arrived.
    #[inline]
    pub(super) fn new(place: BufferRange, needed_for: Option<u64>) -> Self {
        debug_assert!(place.bytes() > 0, "it holds a message");
        debug_assert!(needed_for.is_some() == (place.pool == PoolKind::Bulk), "bulk is numbered");
        Self { place, zero_copy: false, needed_for }
    }

    /// Returns the bytes of its body.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.place.bytes()
    }

    /// Returns true if its packet must be built elsewhere: the last one must not be touched any
    /// more.
    #[inline]
    pub(crate) fn is_fixed(&self) -> bool {
        self.zero_copy || self.is_sealed()
    }

    /// Notes that the kernel got its packet zero-copy.
    #[inline]
    pub(crate) fn on_zero_copy_send(&mut self) {
        self.zero_copy |= !self.is_sealed();
        debug_assert!(self.is_fixed(), "it is not touched any more");
    }

    /// Returns its place.
    #[inline]
    pub(super) fn place(&self) -> BufferRange {
        self.place
    }

    /// Returns true if only its sealed packet is kept.
    #[inline]
    fn is_sealed(&self) -> bool {
        self.place.pool == PoolKind::Sealed
    }

    /// Returns the unit of bulk that has to arrive before this one, of bulk, is given up.
    #[inline]
    pub(super) fn needed_for(&self) -> Option<u64> {
        self.needed_for
    }

    /// Returns its packet.
    #[inline]
    pub(crate) fn packet<'a>(&self, memory: &'a UnitMemory) -> Option<&'a [u8]> {
        memory.packet(self.place)
    }

    /// Returns its packet, to be filled in.
    #[inline]
    pub(crate) fn packet_mut<'a>(&self, memory: &'a mut UnitMemory) -> Option<&'a mut [u8]> {
        debug_assert!(!self.is_fixed(), "the kernel may read it");
        memory.packet_mut(self.place)
    }

    /// Returns its body, decrypted from its packet if only that is kept.
    pub(crate) fn body<'a>(
        &self,
        memory: &'a UnitMemory,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        let packet = memory.packet(self.place)?;
        if self.is_sealed() {
            debug_assert!(sealer.in_place(), "only encrypted packets are kept sealed");
            return sealer.reopen(packet).map(Cow::Owned);
        }
        debug_assert!(packet.len() >= HEADROOM + memory.tail(), "a packet has its header");
        packet.get(HEADROOM..packet.len() - memory.tail()).map(Cow::Borrowed)
    }

    /// Builds its packet with `seal`, and keeps that, behind the one before it, instead of the
    /// unit: the unit's memory is then used for the next one while the nearest cache has it.
    /// Returns what `seal` has returned; `None`, and changes nothing, if there is no place for it.
    #[inline]
    pub(crate) fn keep_sealed<T>(
        &mut self,
        memory: &mut UnitMemory,
        seal: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        if self.is_fixed() || self.bytes() > memory.sealed.capacity() {
            return None;
        }
        let UnitMemory { bulk, control, sealed } = memory;
        let pool = if self.place.pool == PoolKind::Bulk { bulk } else { control };
        let packet = pool.packet_mut(self.place)?;
        let made = seal(packet);
        let place = sealed.keep(packet);
        debug_assert!(self.bytes() == place.bytes(), "sealing keeps the length");
        pool.release(std::mem::replace(&mut self.place, place));
        Some(made)
    }
}
