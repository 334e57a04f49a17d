//! Units in flight, with their bodies: the last transmission of each, and the units that have
//! arrived.

use crate::bits::Bits;
use crate::list::{Links, List};
use crate::receive::SPAN;
use crate::time::Ticks;
use crate::transmissions::{Transmissions, UnitInFlight, UnitState};

/// A transmission, as loss detection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// The unit that it carried.
    pub unit: u64,
    /// Time at which it was sent.
    pub sent: Ticks,
    /// Its position in the order of all transmissions.
    pub order: u64,
    /// Length of its packet.
    pub bytes: usize,
    /// True if the driver has not taken it.
    pub refused: bool,
}

/// News of an acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Units that it acknowledges for the first time.
    pub units: u32,
    /// Their bytes, and the length of the longest of them.
    pub bytes: usize,
    pub longest: usize,
    /// Highest order of a transmission that arrived: all transmissions before it were overtaken.
    pub order: u64,
    /// Units that had been found lost, although their first transmission arrived.
    pub false_losses: u32,
    /// Units sent again after a silence although their first transmission arrived.
    pub false_timeouts: u32,
}

/// The units in flight, with bodies `U`.
#[derive(Debug)]
pub(crate) struct Send<U> {
    places: Transmissions<U>,
    /// First unit that has not arrived.
    first: u64,
    /// Number of the next new unit.
    next: u64,
    /// First unit that `poll_acked` has not returned.
    released: u64,
    /// Units of `first..next` that have arrived.
    arrived: Bits,
    units_in_flight: List,
    /// Units to be sent again: those that the driver has not taken, in their order, and behind
    /// them those that were found lost.
    again: List,
    bytes_in_flight: usize,
    again_bytes: usize,
    order: u64,
}

impl<U> Send<U> {
    pub(crate) fn new() -> Self {
        Self {
            places: Transmissions::new(),
            first: 0,
            next: 0,
            released: 0,
            arrived: Bits::new(),
            units_in_flight: List::new(),
            again: List::new(),
            bytes_in_flight: 0,
            again_bytes: 0,
            order: 0,
        }
    }

    /// Returns true if there is no entry left for another unit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.next - self.released >= SPAN
    }

    /// Returns the number of the next new unit.
    #[inline]
    pub(crate) fn next_unit(&self) -> u64 {
        self.next
    }

    /// Returns true if every unit has arrived.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.first == self.next
    }

    /// Returns the bytes that the driver has taken, and that are neither known to have arrived nor
    /// found lost.
    #[inline]
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Returns the bytes not known to have arrived.
    #[inline]
    pub(crate) fn open_bytes(&self) -> usize {
        self.bytes_in_flight + self.again_bytes
    }

    /// Sends the next unit; returns its number, or `u64::MAX` if there is no entry for it.
    #[inline]
    pub(crate) fn push(&mut self, sent: Ticks, bytes: usize, body: U) -> u64 {
        if self.is_full() {
            clump_bug::bug!("senders ask for room");
            return u64::MAX;
        }
        debug_assert!(u32::try_from(bytes).is_ok(), "the length of a packet");
        if self.next - self.released >= self.places.len() as u64 {
            let lists = [&mut self.units_in_flight, &mut self.again];
            self.places.grow((self.released, self.next), lists);
            self.arrived.grow(self.places.len() as u64, (self.first, self.next));
        }
        let unit = self.next;
        debug_assert!(!self.arrived.has(unit), "what was not sent has not arrived");
        self.order += 1;
        let bytes = bytes.min(u32::MAX as usize) as u32;
        let index = self.places.index(unit);
        if let Some(place) = self.places.get_mut(index) {
            debug_assert!(place.state == UnitState::Done, "the entry is free");
            debug_assert!(place.body.is_none(), "what was there is released");
            debug_assert!(place.order < self.order, "orders grow");
            let (order, state) = (self.order, UnitState::InFlight);
            *place = UnitInFlight {
                body: Some(body),
                links: Links::NONE,
                sent,
                order,
                bytes,
                times: 1,
                state,
                lost_once: false,
            };
            self.next += 1;
            self.bytes_in_flight += bytes as usize;
            self.units_in_flight.push(&mut self.places, index);
        }
        unit
    }

    /// Sends a unit again; returns its length, and true if the driver had not taken its last
    /// packet. `None` if it is not in flight.
    pub(crate) fn push_again(&mut self, sent: Ticks, unit: u64) -> Option<(usize, bool)> {
        if unit < self.first || unit >= self.next {
            return None;
        }
        let index = self.places.index(unit);
        let place = self.places.get_mut(index)?;
        let (state, bytes) = (place.state, place.bytes as usize);
        if state == UnitState::Done {
            return None;
        }
        self.order += 1;
        debug_assert!(place.order < self.order, "it was launched before");
        place.sent = sent;
        place.order = self.order;
        place.times = place.times.saturating_add(1);
        place.state = UnitState::InFlight;
        if state == UnitState::InFlight {
            self.units_in_flight.remove(&mut self.places, index);
        } else {
            debug_assert!(self.again_bytes >= bytes, "its bytes were counted");
            self.again.remove(&mut self.places, index);
            self.again_bytes -= bytes;
            self.bytes_in_flight += bytes;
        }
        self.units_in_flight.push(&mut self.places, index);
        Some((bytes, state == UnitState::Refused))
    }

    /// Takes the last transmission of a unit in flight back: the driver has not taken its packet.
    /// The unit goes before all that are to be sent again.
    pub(crate) fn take_back(&mut self, unit: u64) {
        let index = self.places.index(unit);
        let sent = (self.first..self.next).contains(&unit);
        let place = self.places.get_mut(index).filter(|_| sent);
        let Some(place) = place.filter(|place| place.state == UnitState::InFlight) else { return };
        debug_assert!(place.times > 0, "it was launched");
        place.times -= 1;
        place.state = UnitState::Refused;
        let bytes = place.bytes as usize;
        self.units_in_flight.remove(&mut self.places, index);
        self.again.push_front(&mut self.places, index);
        debug_assert!(self.bytes_in_flight >= bytes, "its bytes were counted");
        self.bytes_in_flight -= bytes;
        self.again_bytes += bytes;
    }

    /// Returns true if the driver has taken units that are neither known to have arrived nor found
    /// lost.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.units_in_flight.front().is_some()
    }

    /// Returns true if units are to be sent again.
    #[inline]
    pub(crate) fn has_again(&self) -> bool {
        self.again.front().is_some()
    }

    /// Returns the oldest transmission in flight.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Transmission> {
        self.judged(self.units_in_flight.front()?)
    }

    /// Returns the last transmission of the unit to be sent again first.
    #[inline]
    pub(crate) fn first_again(&self) -> Option<Transmission> {
        self.judged(self.again.front()?)
    }

    #[inline]
    fn judged(&self, index: usize) -> Option<Transmission> {
        let (place, unit) = (self.places.get(index)?, self.unit_of(index));
        debug_assert!(unit < self.next, "only units that were sent are listed");
        debug_assert!(place.state != UnitState::Done, "units that have arrived are not listed");
        Some(Transmission {
            unit,
            sent: place.sent,
            order: place.order,
            bytes: place.bytes as usize,
            refused: place.state == UnitState::Refused,
        })
    }

    /// Returns the unit that has this entry.
    #[inline]
    fn unit_of(&self, index: usize) -> u64 {
        self.places.unit_of(index, self.released)
    }

    /// Returns the order of the last transmission.
    pub(crate) fn last_order(&self) -> u64 {
        self.order
    }

    /// Marks the oldest transmission as lost.
    pub(crate) fn lose_oldest(&mut self) {
        let Some(index) = self.units_in_flight.front() else {
            clump_bug::bug!("what is found lost was in flight");
            return;
        };
        self.units_in_flight.remove(&mut self.places, index);
        self.again.push(&mut self.places, index);
        let open = self.open_bytes();
        if let Some(place) = self.places.get_mut(index) {
            debug_assert!(place.state == UnitState::InFlight, "from in flight to lost only");
            debug_assert!(self.bytes_in_flight >= place.bytes as usize, "its bytes were counted");
            place.state = UnitState::Lost;
            place.lost_once = true;
            self.bytes_in_flight -= place.bytes as usize;
            self.again_bytes += place.bytes as usize;
        }
        debug_assert!(open == self.open_bytes(), "a lost unit is still to arrive");
    }

    /// Takes in the acknowledgements of a packet: all units below `ack`, and those of `sack`, whose
    /// first bit is of unit `ack + 1 + offset`. `echo` is the time of the newest packet that its
    /// sender had received. Returns `None` if that cannot be.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        ack: u64,
        (offset, sack): (u64, &[u64]),
        echo: Option<Ticks>,
    ) -> Option<Acked> {
        let mut acked = Acked::default();
        // The last condition: the first missing unit had arrived already. Correct receivers never
        // forget units.
        if ack > self.next || (ack < self.next && ack > self.first && self.arrived.has(ack)) {
            return None;
        }
        if ack < self.first {
            return Some(acked);
        }
        for unit in self.first..ack {
            if self.arrived.has(unit) {
                self.arrived.clear(unit);
            } else {
                self.on_delivered(unit, echo, &mut acked);
            }
        }
        self.first = ack;
        debug_assert!(self.released <= ack && ack <= self.next, "units in order");
        if !sack.is_empty() && offset < SPAN {
            self.handle_sack(ack + 1 + offset, sack, echo, &mut acked);
        }
        debug_assert!(!self.arrived.has(self.first), "the first is missing");
        debug_assert!(u64::from(acked.units) <= SPAN, "no more than was in flight");
        Some(acked)
    }

    fn handle_sack(&mut self, from: u64, sack: &[u64], echo: Option<Ticks>, acked: &mut Acked) {
        debug_assert!(from > self.first, "words begin behind the first missing unit");
        let mut at = from;
        for word in sack {
            if at >= self.next {
                return;
            }
            let left = self.next - at;
            let sent = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            let mut new = word & sent & !self.arrived.from(at);
            while new != 0 {
                let unit = at + u64::from(new.trailing_zeros());
                debug_assert!(unit < self.next, "only what was sent arrives");
                self.arrived.set(unit);
                self.on_delivered(unit, echo, acked);
                new &= new - 1;
            }
            at += 64;
        }
    }

    /// Notes that a unit has arrived, for the first and only time.
    #[inline]
    fn on_delivered(&mut self, unit: u64, echo: Option<Ticks>, acked: &mut Acked) {
        let index = self.places.index(unit);
        debug_assert!(self.released <= unit && unit < self.next, "a unit on its way");
        let Some(place) = self.places.get_mut(index) else {
            clump_bug::bug!("the mask keeps the index inside");
            return;
        };
        let (state, bytes) = (place.state, place.bytes as usize);
        debug_assert!(state != UnitState::Done, "a unit arrives once");
        debug_assert!(place.lost_once || state != UnitState::Lost, "losses are remembered");
        place.state = UnitState::Done;
        acked.units += 1;
        acked.bytes += bytes;
        acked.longest = acked.longest.max(bytes);
        // RFC 3522, 3.2 (Eifel): if the newest arrival was sent before the last transmission, then
        // an earlier one of this unit has arrived, and the last was unnecessary.
        let waits = state != UnitState::InFlight;
        let first_came = place.times > 1 && echo.is_some_and(|echo| echo < place.sent);
        if place.lost_once && (waits || first_came) {
            acked.false_losses += 1;
        } else if first_came && !waits {
            acked.false_timeouts += 1;
        }
        // RFC 8985, 6.2, step 2: a retransmitted unit says nothing about order where it is not
        // clear which of its transmissions arrived.
        let clear = place.times == 1 || echo.is_some_and(|echo| place.sent <= echo);
        if clear && state != UnitState::Refused {
            acked.order = acked.order.max(place.order);
        }
        debug_assert!(self.open_bytes() >= bytes, "its bytes were counted");
        if waits {
            self.again.remove(&mut self.places, index);
            self.again_bytes -= bytes;
        } else {
            self.units_in_flight.remove(&mut self.places, index);
            self.bytes_in_flight -= bytes;
        }
    }

    /// Gives back the memory that units in flight took, if there are none and all are released.
    pub(crate) fn shrink(&mut self) {
        if self.is_quiet() && self.released == self.next {
            debug_assert!(self.open_bytes() == 0, "quiet: none on its way");
            self.places.shrink();
            self.arrived.shrink();
        }
    }

    /// Returns the bytes that [`Send::shrink`] would give back.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.places.spare_bytes() + self.arrived.spare_bytes()
    }

    /// Returns the body of a unit that is not released.
    #[inline]
    pub(crate) fn body(&self, unit: u64) -> Option<&U> {
        let kept = (self.released..self.next).contains(&unit);
        self.places.get(self.places.index(unit)).filter(|_| kept)?.body.as_ref()
    }

    /// Returns the body of a unit that is not released, mutably.
    #[inline]
    pub(crate) fn body_mut(&mut self, unit: u64) -> Option<&mut U> {
        let kept = (self.released..self.next).contains(&unit);
        let index = self.places.index(unit);
        self.places.get_mut(index).filter(|_| kept)?.body.as_mut()
    }

    /// Returns the bodies that are not released, in the order of their units.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &U> + '_ {
        (self.released..self.next).filter_map(|unit| self.body(unit))
    }

    /// Takes the bodies that are not released, each with true if its unit has arrived. Their units
    /// stay in flight.
    pub(crate) fn take_bodies(&mut self) -> Vec<(bool, U)> {
        let mut taken = Vec::new();
        for unit in self.released..self.next {
            let (arrived, index) = (self.has_arrived(unit), self.places.index(unit));
            let body = self.places.get_mut(index).and_then(|place| place.body.take());
            taken.extend(body.map(|body| (arrived, body)));
        }
        debug_assert!(self.bodies().next().is_none(), "all were taken");
        taken
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.released <= self.first && self.first <= self.next, "units in order");
        assert!(self.next - self.released <= SPAN, "at most {SPAN} units in flight");
        assert!(!self.arrived.has(self.first), "the first is missing");
        let (mut seen, mut in_flight_count, mut again) = (0, 0, 0);
        for unit in self.first..self.next {
            let Some(place) = self.places.get(self.places.index(unit)) else { break };
            seen += 1;
            let open = place.state != UnitState::Done;
            assert_eq!(open, !self.arrived.has(unit), "units are open until they arrive");
            assert!(place.order <= self.order, "each was launched");
            let sent = place.state == UnitState::InFlight || place.state == UnitState::Lost;
            assert!(place.times > 0 || !sent, "what is in flight was sent");
            assert!(place.state != UnitState::Lost || place.lost_once, "losses are remembered");
            in_flight_count += usize::from(place.state == UnitState::InFlight);
            again += usize::from(open && place.state != UnitState::InFlight);
        }
        assert_eq!(self.first + seen, self.next, "every unit has its entry");
        let entries = self.places.len() as u64;
        assert!(self.arrived.len() >= entries, "every unit has its bit");
        assert!(self.next - self.released <= entries, "also those that are not released");
        let in_flight = self.listed(&self.units_in_flight, in_flight_count, self.bytes_in_flight);
        assert!(in_flight.iter().all(|place| place.state == UnitState::InFlight), "and no others");
        assert!(in_flight.is_sorted_by_key(|place| place.order), "in the order they were sent");
        let again = self.listed(&self.again, again, self.again_bytes);
        let waits = |state| matches!(state, UnitState::Lost | UnitState::Refused);
        assert!(again.iter().all(|place| waits(place.state)), "and no others");
        let lost = again.iter().map(|place| place.state == UnitState::Lost);
        assert!(lost.is_sorted(), "what the driver has not taken goes before what was lost");
    }

    /// Returns the entries of a list, and asserts that it has so many `units`, and that their bytes
    /// are counted.
    fn listed(&self, list: &List, units: usize, bytes: usize) -> Vec<&UnitInFlight<U>> {
        let listed = list.checked(|index| self.places.get(index).map(|place| place.links));
        assert_eq!(listed.len(), units, "all of a state are listed");
        let places: Vec<_> = listed.iter().filter_map(|index| self.places.get(*index)).collect();
        let sum: usize = places.iter().map(|place| place.bytes as usize).sum();
        assert_eq!(sum, bytes, "bytes of the listed are counted");
        places
    }

    /// Returns true if a unit is known to have arrived.
    pub(crate) fn has_arrived(&self, unit: u64) -> bool {
        unit < self.first || (unit < self.next && self.arrived.has(unit))
    }

    /// Returns the next unit that has arrived with all before it, and its body, each once.
    #[inline]
    pub(crate) fn poll_acked(&mut self) -> Option<(u64, U)> {
        while self.released < self.first {
            let unit = self.released;
            debug_assert!(unit < self.next, "only what was sent arrives");
            self.released += 1;
            let index = self.places.index(unit);
            let place = self.places.get_mut(index)?;
            debug_assert!(place.state == UnitState::Done, "only what has arrived is released");
            if let Some(body) = place.body.take() {
                return Some((unit, body));
            }
        }
        None
    }
}
