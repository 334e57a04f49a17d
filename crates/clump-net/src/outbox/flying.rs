//! Units under way, as the packets that carry them.

use super::buffer::Buffer;
use super::{HEADROOM, Outbox};
use clump_driver::LEAST_KEPT;

/// A unit under way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) buffer: Buffer,
    /// Where the unit ends in it.
    pub(super) end: usize,
    pub(super) acked: bool,
    /// The unit that ends the message that this one has a piece of, whose payload would have to be
    /// returned whole.
    pub(super) kept_for: u64,
    /// The packet, where sealing changes it; kept as long as the unit.
    pub(super) cover: Buffer,
    /// The kernel may have been shown the packet where it lies: it stays as it is.
    shown: bool,
}

impl Flying {
    #[inline]
    pub(super) fn new(buffer: Buffer, kept_for: u64) -> Self {
        let end = buffer.len();
        Self { buffer, end, acked: false, kept_for, cover: Buffer::default(), shown: false }
    }

    #[inline]
    pub(super) fn body(&self) -> Option<&[u8]> {
        self.buffer.packet().get(HEADROOM..self.end)
    }
}

impl Outbox {
    #[inline]
    fn flying(&mut self, number: u64) -> Option<&mut Flying> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.flying.get_mut(at)
    }

    /// Whether the packet of a unit under way goes out for the first time, and is so long that it had better be
    /// shown to the kernel where it lies.
    #[inline]
    pub(crate) fn is_kept(&self, number: u64) -> bool {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let unit = at.and_then(|at| self.flying.get(at));
        unit.is_some_and(|unit| unit.end >= LEAST_KEPT && !unit.shown)
    }

    /// Whether the packet of a unit must not be touched any more.
    #[inline]
    pub(crate) fn is_shown(&self, number: u64) -> bool {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.flying.get(at)).is_some_and(|unit| unit.shown)
    }

    /// A unit under way as the packet that carries it, with room for header and trailer, to be filled in.
    #[inline]
    pub(crate) fn packet_mut(&mut self, number: u64, trailer: usize) -> Option<&mut [u8]> {
        let unit = self.flying(number)?;
        unit.shown = unit.end >= LEAST_KEPT;
        Some(unit.buffer.packet_mut(unit.end + trailer))
    }

    /// The same with a copy of the unit, for a seal that changes it.
    pub(crate) fn cover_mut(&mut self, number: u64, trailer: usize) -> Option<&mut [u8]> {
        let mut cover = self.fresh();
        let unit = self.flying(number)?;
        unit.shown = true;
        cover.end().extend_from_slice(unit.buffer.packet().get(HEADROOM..unit.end)?);
        unit.cover = cover;
        Some(unit.cover.packet_mut(unit.end + trailer))
    }

    /// The packet as it was filled in.
    #[inline]
    pub(crate) fn packet(&self, number: u64) -> Option<&[u8]> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let unit = self.flying.get(at)?;
        Some(if unit.cover.is_empty() { unit.buffer.packet() } else { unit.cover.packet() })
    }
}
