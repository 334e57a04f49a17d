//! Units in flight, as the packets that carry them.

use super::send_buffer::{BufferRange, SendBuffer};
use super::{HEADROOM, Outbox};
use crate::seal::Sealer;
use std::borrow::Cow;

/// A unit in flight.
#[derive(Debug)]
pub(super) struct InFlightUnit {
    pub(super) place: BufferRange,
    /// The unit's own send buffer, if it is in none of the pool.
    pub(super) own: Option<Box<SendBuffer>>,
    /// True if its packet is kept among the sealed buffers, and the unit itself is not kept any
    /// more.
    pub(super) covered: bool,
    pub(super) acked: bool,
    /// The last unit of the message that this one holds a fragment of; that message's payload would
    /// have to be returned whole.
    pub(super) kept_for: u64,
    /// True if the kernel may have got its packet zero-copy, so that it must not change.
    shown: bool,
}

impl InFlightUnit {
    #[inline]
    pub(super) fn new(place: BufferRange, kept_for: u64) -> Self {
        Self { place, own: None, covered: false, acked: false, kept_for, shown: false }
    }

    /// Creates one that has a send buffer of its own.
    pub(super) fn apart(own: SendBuffer, place: BufferRange, number: u64) -> Self {
        Self { own: Some(Box::new(own)), ..Self::new(place, number) }
    }

    /// Returns true if it lies in a send buffer of the pool of units.
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

    /// Returns the body of a unit in flight, decrypted from its packet if only that is kept.
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

    /// Returns the body of a unit in flight.
    #[inline]
    pub(crate) fn unit(&self, number: u64, sealer: &Sealer) -> Option<Cow<'_, [u8]>> {
        self.body_of(self.in_flight(number)?, sealer)
    }

    /// Returns the bytes of a unit in flight; `None` if there is none of that number.
    #[inline]
    pub(crate) fn unit_bytes(&self, number: u64) -> Option<usize> {
        self.in_flight(number).map(|unit| unit.place.bytes())
    }

    /// Returns true if the unit's packet must be built elsewhere: the last one must not be touched
    /// any more.
    #[inline]
    pub(crate) fn is_zero_copy(&self, number: u64) -> bool {
        self.in_flight(number).is_some_and(|unit| unit.shown || unit.covered)
    }

    /// Returns a unit in flight as the packet that carries it, with room for header and checksum,
    /// to be filled in.
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

    /// Returns the packet as it was filled in.
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

    /// Notes that the kernel is about to get the packet of a unit zero-copy.
    #[inline]
    pub(crate) fn on_zero_copy_send(&mut self, number: u64) {
        if let Some(unit) = self.in_flight_mut(number) {
            unit.shown = true;
        }
    }
}
