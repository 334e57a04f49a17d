//! Units under way, as the packets that carry them.

use super::send_buffer::{BufferRange, SendBuffer};
use super::{HEADROOM, Outbox};
use crate::seal::Sealer;
use std::borrow::Cow;

/// A unit under way.
#[derive(Debug)]
pub(super) struct InFlightUnit {
    pub(super) place: BufferRange,
    /// Where it lies if it is in no row of the outbox.
    pub(super) own: Option<Box<SendBuffer>>,
    /// Its packet is kept among the covers, and the unit itself no more.
    pub(super) covered: bool,
    pub(super) acked: bool,
    /// The unit that ends the message that this one has a piece of, whose payload would have to be
    /// returned whole.
    pub(super) kept_for: u64,
    /// The kernel may have been shown a packet of it where that lies, which stays as it is.
    shown: bool,
}

impl InFlightUnit {
    #[inline]
    pub(super) fn new(place: BufferRange, kept_for: u64) -> Self {
        Self { place, own: None, covered: false, acked: false, kept_for, shown: false }
    }

    /// One that lies in a row of its own.
    pub(super) fn apart(own: SendBuffer, place: BufferRange, number: u64) -> Self {
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
    fn in_flight(&self, number: u64) -> Option<&InFlightUnit> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.units_in_flight.get(at)
    }

    #[inline]
    fn in_flight_mut(&mut self, number: u64) -> Option<&mut InFlightUnit> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.units_in_flight.get_mut(at)
    }

    /// The body of a unit under way, taken out of its packet if that is all there is.
    pub(super) fn body_of<'a>(
        &'a self,
        unit: &'a InFlightUnit,
        sealer: &Sealer,
    ) -> Option<Cow<'a, [u8]>> {
        let BufferRange { send_buffer, at, end } = unit.place;
        if unit.covered {
            return self
                .covered(unit.place)
                .and_then(|packet| sealer.reopen(packet))
                .map(Cow::Owned);
        }
        let send_buffer = match &unit.own {
            Some(own) => own,
            None => self.pool.get(send_buffer)?,
        };
        send_buffer.get(at + HEADROOM, end).map(Cow::Borrowed)
    }

    /// The body of a unit under way.
    #[inline]
    pub(crate) fn unit(&self, number: u64, sealer: &Sealer) -> Option<Cow<'_, [u8]>> {
        self.body_of(self.in_flight(number)?, sealer)
    }

    /// Bytes of a unit under way; `None`: there is none of that number.
    #[inline]
    pub(crate) fn unit_bytes(&self, number: u64) -> Option<usize> {
        self.in_flight(number).map(|unit| unit.place.bytes())
    }

    /// Whether the packet of a unit is to be made elsewhere: the last one must not be touched any more.
    #[inline]
    pub(crate) fn is_zero_copy(&self, number: u64) -> bool {
        self.in_flight(number).is_some_and(|unit| unit.shown || unit.covered)
    }

    /// A unit under way as the packet that carries it, with room for header and checksum, to be filled in.
    #[inline]
    pub(crate) fn packet_mut(&mut self, number: u64) -> Option<&mut [u8]> {
        let tail = self.pool.tail();
        let unit = self.in_flight_mut(number)?;
        let BufferRange { send_buffer, at, end } = unit.place;
        if unit.own.is_some() {
            return self.in_flight_mut(number)?.own.as_mut()?.get_mut(at, end + tail);
        }
        self.pool.get_mut(send_buffer)?.get_mut(at, end + tail)
    }

    /// The packet as it was filled in.
    #[inline]
    pub(crate) fn packet(&self, number: u64) -> Option<&[u8]> {
        let unit = self.in_flight(number)?;
        let BufferRange { send_buffer, at, end } = unit.place;
        let send_buffer = match &unit.own {
            Some(own) => own,
            None => self.pool.get(send_buffer)?,
        };
        send_buffer.get(at, end + self.pool.tail())
    }

    /// The kernel is about to be shown the packet of a unit where it lies.
    #[inline]
    pub(crate) fn on_zero_copy_send(&mut self, number: u64) {
        if let Some(unit) = self.in_flight_mut(number) {
            unit.shown = true;
        }
    }
}
