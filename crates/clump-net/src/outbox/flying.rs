//! Units under way, as the packets that carry them.

use super::row::{Place, Row};
use super::{HEADROOM, Outbox};
use crate::seal::Sealer;
use std::borrow::Cow;

/// A unit under way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) place: Place,
    /// Where it lies if it is in no row of the outbox.
    pub(super) own: Option<Box<Row>>,
    /// Its packet is kept among the covers, and the unit itself no more.
    pub(super) covered: bool,
    pub(super) acked: bool,
    /// The unit that ends the message that this one has a piece of, whose payload would have to be
    /// returned whole.
    pub(super) kept_for: u64,
    /// The kernel may have been shown a packet of it where that lies, which stays as it is.
    shown: bool,
}

impl Flying {
    #[inline]
    pub(super) fn new(place: Place, kept_for: u64) -> Self {
        Self { place, own: None, covered: false, acked: false, kept_for, shown: false }
    }

    /// One that lies in a row of its own.
    pub(super) fn apart(own: Row, place: Place, number: u64) -> Self {
        Self { own: Some(Box::new(own)), ..Self::new(place, number) }
    }

    /// Whether it lies in a row of units.
    #[inline]
    pub(super) fn is_in_row(&self) -> bool {
        self.own.is_none() && !self.covered
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

    /// The body of a unit under way, taken out of its packet if that is all there is.
    pub(super) fn body_of<'a>(
        &'a self,
        unit: &'a Flying,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        let Place { row, at, end } = unit.place;
        if unit.covered {
            return self
                .covered(unit.place)
                .and_then(|packet| sealer.reopen(packet))
                .map(Cow::Owned);
        }
        let row = match &unit.own {
            Some(own) => own,
            None => self.shelf.get(row)?,
        };
        row.get(at + HEADROOM, end).map(Cow::Borrowed)
    }

    /// The body of a unit under way.
    #[inline]
    pub(crate) fn unit(&self, number: u64, sealer: &Sealer) -> Option<Cow<'_, [u8]>> {
        self.body_of(self.flying(number)?, sealer)
    }

    /// Bytes of a unit under way; `None`: there is none of that number.
    #[inline]
    pub(crate) fn unit_bytes(&self, number: u64) -> Option<usize> {
        self.flying(number).map(|unit| unit.place.bytes())
    }

    /// Whether the packet of a unit is to be made elsewhere: the last one must not be touched any more.
    #[inline]
    pub(crate) fn is_shown(&self, number: u64) -> bool {
        self.flying(number).is_some_and(|unit| unit.shown || unit.covered)
    }

    /// A unit under way as the packet that carries it, with room for header and checksum, to be filled in.
    #[inline]
    pub(crate) fn packet_mut(&mut self, number: u64) -> Option<&mut [u8]> {
        let tail = self.shelf.tail();
        let unit = self.flying_mut(number)?;
        let Place { row, at, end } = unit.place;
        if unit.own.is_some() {
            return self.flying_mut(number)?.own.as_mut()?.get_mut(at, end + tail);
        }
        self.shelf.get_mut(row)?.get_mut(at, end + tail)
    }

    /// The packet as it was filled in.
    #[inline]
    pub(crate) fn packet(&self, number: u64) -> Option<&[u8]> {
        let unit = self.flying(number)?;
        let Place { row, at, end } = unit.place;
        let row = match &unit.own {
            Some(own) => own,
            None => self.shelf.get(row)?,
        };
        row.get(at, end + self.shelf.tail())
    }

    /// The kernel is about to be shown the packet of a unit where it lies.
    #[inline]
    pub(crate) fn on_shown(&mut self, number: u64) {
        if let Some(unit) = self.flying_mut(number) {
            unit.shown = true;
        }
    }
}
