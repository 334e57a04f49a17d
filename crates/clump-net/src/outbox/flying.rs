//! Units under way, as the packets that carry them.

use super::buffer::Buffer;
use super::{HEADROOM, Outbox};
use clump_driver::LEAST_KEPT;

/// How the packet of a unit is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Making {
    /// Around the unit where it lies.
    Around,
    /// The same, but it is so long that it had better be shown to the kernel there, and stay as it is.
    Kept,
    /// Elsewhere: the last one must not be touched any more.
    Apart,
}

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
    pub(super) cover: Option<Box<Buffer>>,
    /// The kernel may have been shown the packet where it lies: it stays as it is.
    shown: bool,
}

impl Flying {
    #[inline]
    pub(super) fn new(buffer: Buffer, kept_for: u64) -> Self {
        let end = buffer.len();
        Self { buffer, end, acked: false, kept_for, cover: None, shown: false }
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

    /// How the packet of a unit is to be made.
    #[inline]
    pub(crate) fn making(&self, number: u64) -> Making {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.flying.get(at)) {
            Some(unit) if unit.shown => Making::Apart,
            Some(unit) if unit.end >= LEAST_KEPT => Making::Kept,
            _ => Making::Around,
        }
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
        let end = unit.end + trailer;
        Some(unit.cover.insert(Box::new(cover)).packet_mut(end))
    }

    /// The packet as it was filled in.
    #[inline]
    pub(crate) fn packet(&self, number: u64) -> Option<&[u8]> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let unit = self.flying.get(at)?;
        Some(unit.cover.as_deref().unwrap_or(&unit.buffer).packet())
    }
}
