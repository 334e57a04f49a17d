//! Units under way, as the packets that carry them.

use super::row::{Place, Row};
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
    pub(super) place: Place,
    /// Where it lies if it is in no row of the outbox.
    own: Option<Box<Row>>,
    pub(super) acked: bool,
    /// The unit that ends the message that this one has a piece of, whose payload would have to be
    /// returned whole.
    pub(super) kept_for: u64,
    /// The packet, where sealing changes it; kept as long as the unit.
    pub(super) cover: Option<Box<Row>>,
    /// The kernel may have been shown the packet where it lies: it stays as it is.
    shown: bool,
}

impl Flying {
    #[inline]
    pub(super) fn new(place: Place, kept_for: u64) -> Self {
        Self { place, own: None, acked: false, kept_for, cover: None, shown: false }
    }

    /// One that lies in a row of its own.
    pub(super) fn apart(own: Row, place: Place, number: u64) -> Self {
        Self { own: Some(Box::new(own)), ..Self::new(place, number) }
    }

    /// Whether it lies in a row of the outbox.
    #[inline]
    pub(super) fn is_in_row(&self) -> bool {
        self.own.is_none()
    }
}

impl Outbox {
    #[inline]
    fn flying(&self, number: u64) -> Option<&Flying> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.flying.get(at)
    }

    #[inline]
    fn flying_mut(&mut self, number: u64) -> Option<&mut Flying> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.flying.get_mut(at)
    }

    #[inline]
    pub(super) fn body_of<'a>(&'a self, unit: &'a Flying) -> Option<&'a [u8]> {
        let Place { row, at, end } = unit.place;
        let row = match &unit.own {
            Some(own) => own,
            None => self.row(row)?,
        };
        row.get(at + HEADROOM, end)
    }

    /// The body of a unit under way.
    #[inline]
    pub(crate) fn unit(&self, number: u64) -> Option<&[u8]> {
        self.body_of(self.flying(number)?)
    }

    /// How the packet of a unit is to be made.
    #[inline]
    pub(crate) fn making(&self, number: u64) -> Making {
        match self.flying(number) {
            Some(unit) if unit.shown => Making::Apart,
            Some(unit) if unit.place.bytes() >= LEAST_KEPT => Making::Kept,
            _ => Making::Around,
        }
    }

    /// A unit under way as the packet that carries it, with room for header and checksum, to be filled in.
    #[inline]
    pub(crate) fn packet_mut(&mut self, number: u64) -> Option<&mut [u8]> {
        let tail = self.tail;
        let unit = self.flying_mut(number)?;
        let Place { row, at, end } = unit.place;
        if unit.own.is_some() {
            return self.flying_mut(number)?.own.as_mut()?.get_mut(at, end + tail);
        }
        self.row_mut(row)?.get_mut(at, end + tail)
    }

    /// The same with a copy of the unit and `trailer` bytes behind it, for a seal that changes it.
    pub(crate) fn cover_mut(&mut self, number: u64, trailer: usize) -> Option<&mut [u8]> {
        let mut cover = self.fresh_row();
        cover.begin();
        cover.end().extend_from_slice(self.unit(number)?);
        let end = cover.len() + trailer;
        cover.end().resize(end, 0);
        let unit = self.flying_mut(number)?;
        unit.shown = true;
        Some(unit.cover.insert(Box::new(cover)).packets_mut())
    }

    /// The packet as it was filled in.
    #[inline]
    pub(crate) fn packet(&self, number: u64) -> Option<&[u8]> {
        let unit = self.flying(number)?;
        let Place { row, at, end } = unit.place;
        match (&unit.cover, &unit.own) {
            (Some(cover), _) => Some(cover.packets()),
            (None, Some(own)) => own.get(at, end + self.tail),
            (None, None) => self.row(row)?.get(at, end + self.tail),
        }
    }

    /// The kernel is about to be shown the packet of a unit where it lies.
    #[inline]
    pub(crate) fn on_shown(&mut self, number: u64) {
        if let Some(unit) = self.flying_mut(number) {
            unit.shown = true;
        }
    }
}
