//! A unit that was sent, as the packet that carries it.

use super::buffer_pool::BufferPool;
use super::layout::HEADROOM;
use super::sealed_buffers::SealedBuffers;
use super::send_buffer::{BufferRange, SendBuffer};
use crate::seal::Sealer;
use std::borrow::Cow;

/// Memory of a unit's packet.
#[derive(Debug)]
enum PacketMemory {
    /// A send buffer of the pool.
    Pool,
    /// A send buffer of its own.
    Own(Box<SendBuffer>),
    /// A sealed buffer; the unit itself is not kept any more.
    Sealed,
}

/// A unit that was sent, from then until nothing needs it any more: the body that the channel
/// keeps.
#[derive(Debug)]
pub(crate) struct Unit {
    place: BufferRange,
    memory: PacketMemory,
    /// True if the kernel may have got its packet zero-copy, so that it must not change.
    zero_copy: bool,
    /// Of a unit of bulk: the last one of the message that it holds a fragment of, whose payload
    /// would have to be returned whole.
    needed_for: Option<u64>,
}

impl Unit {
    /// Makes a unit of bulk of what waited at `place` in the pool; it is kept until bulk up to unit
    /// `needed_for` has arrived.
    #[inline]
    pub(super) fn bulk(place: BufferRange, needed_for: u64) -> Self {
        debug_assert!(place.bytes() > 0, "it holds a message");
        let memory = PacketMemory::Pool;
        Self { place, memory, zero_copy: false, needed_for: Some(needed_for) }
    }

    /// Makes a unit of control messages, in a send buffer of its own.
    pub(super) fn control(own: SendBuffer, place: BufferRange) -> Self {
        debug_assert!(place.bytes() > 0, "it holds a message");
        debug_assert!(own.units > 0, "its buffer is in use");
        let memory = PacketMemory::Own(Box::new(own));
        Self { place, memory, zero_copy: false, needed_for: None }
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

    /// Notes that the kernel is about to get its packet zero-copy.
    #[inline]
    pub(crate) fn on_zero_copy_send(&mut self) {
        self.zero_copy |= !self.is_sealed();
        debug_assert!(self.is_fixed(), "it is not touched any more");
        debug_assert!(!self.is_sealed() || !self.zero_copy, "it is sent from one place");
    }

    /// Returns its place.
    #[inline]
    pub(super) fn place(&self) -> &BufferRange {
        &self.place
    }

    /// Returns true if its packet lies among the sealed ones.
    #[inline]
    pub(super) fn is_sealed(&self) -> bool {
        matches!(self.memory, PacketMemory::Sealed)
    }

    /// Returns true if its packet lies in the pool.
    #[inline]
    pub(super) fn is_in_pool(&self) -> bool {
        matches!(self.memory, PacketMemory::Pool)
    }

    /// Returns the unit of bulk that has to arrive before this one, of bulk, is given up.
    #[inline]
    pub(super) fn needed_for(&self) -> Option<u64> {
        self.needed_for
    }

    /// Returns its packet.
    #[inline]
    pub(super) fn packet<'a>(
        &'a self,
        pool: &'a BufferPool,
        sealed: &'a SealedBuffers,
    ) -> Option<&'a [u8]> {
        let BufferRange { send_buffer, at, end } = self.place;
        debug_assert!(at < end, "a packet has its header");
        match &self.memory {
            PacketMemory::Pool => pool.get(send_buffer)?.get(at, end + pool.tail()),
            PacketMemory::Own(own) => own.get(at, end + pool.tail()),
            PacketMemory::Sealed => sealed.get(self.place),
        }
    }

    /// Returns its packet, to be filled in.
    #[inline]
    pub(super) fn packet_mut<'a>(&'a mut self, pool: &'a mut BufferPool) -> Option<&'a mut [u8]> {
        debug_assert!(!self.is_fixed(), "the kernel may read it");
        let BufferRange { send_buffer, at, end } = self.place;
        let end = end + pool.tail();
        match &mut self.memory {
            PacketMemory::Pool => pool.get_mut(send_buffer)?.get_mut(at, end),
            PacketMemory::Own(own) => own.get_mut(at, end),
            PacketMemory::Sealed => None,
        }
    }

    /// Returns its body, decrypted from its packet if only that is kept.
    pub(super) fn body<'a>(
        &'a self,
        pool: &'a BufferPool,
        sealed: &'a SealedBuffers,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        let packet = self.packet(pool, sealed)?;
        if self.is_sealed() {
            debug_assert!(sealer.in_place(), "only encrypted packets are kept sealed");
            return sealer.reopen(packet).map(Cow::Owned);
        }
        debug_assert!(packet.len() >= HEADROOM + pool.tail(), "a packet has its header");
        packet.get(HEADROOM..packet.len() - pool.tail()).map(Cow::Borrowed)
    }

    /// Builds its packet with `seal`, and keeps it among the sealed ones instead of the unit.
    /// Returns false, and changes nothing, if there is no place for it.
    #[inline]
    pub(super) fn keep_sealed(
        &mut self,
        pool: &mut BufferPool,
        sealed: &mut SealedBuffers,
        seal: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.is_fixed() || self.bytes() > sealed.capacity() {
            return false;
        }
        let Some(packet) = self.packet_mut(pool) else {
            clump_bug::bug!("units in use keep their send buffers");
            return false;
        };
        seal(packet);
        let place = sealed.keep(packet);
        debug_assert!(self.bytes() == place.bytes(), "sealing keeps the length");
        let before = std::mem::replace(&mut self.place, place);
        if self.is_in_pool() {
            pool.release(before.send_buffer);
        }
        self.memory = PacketMemory::Sealed;
        debug_assert!(self.is_fixed() && !self.is_in_pool(), "the pool's memory is free again");
        true
    }

    /// Gives its memory back.
    #[inline]
    pub(super) fn release(self, pool: &mut BufferPool, sealed: &mut SealedBuffers) {
        debug_assert!(self.bytes() > 0, "no unit is empty");
        match self.memory {
            PacketMemory::Pool => pool.release(self.place.send_buffer),
            PacketMemory::Own(own) => drop(own),
            PacketMemory::Sealed => sealed.release(self.place.send_buffer),
        }
    }
}
