//! Units in flight: the last transmission of each, and the units that have arrived.

use crate::bits::Bits;
use crate::list::{Links, List};
use crate::receive::SPAN;
use crate::time::Ticks;
use clump_wire::MAX_SACK_WORDS;

/// Entries for units; as many as may be in flight.
const UNITS: usize = SPAN as usize;
const _: () = assert!(UNITS.is_power_of_two() && UNITS == MAX_SACK_WORDS * 64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitState {
    /// In flight: sent, and neither acknowledged nor found lost.
    InFlight,
    /// Found lost, and not sent again yet.
    Lost,
    /// Arrived; also an entry without a unit.
    Done,
}

/// The last transmission of a unit.
#[derive(Debug, Clone, Copy)]
struct LastTransmission {
    links: Links,
    sent: Ticks,
    /// Position of the transmission in the order of all; tells packets of one tick apart.
    order: u64,
    bytes: u32,
    times: u8,
    state: UnitState,
    /// True if it was found lost at some time.
    lost_once: bool,
}

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
}

/// News of an acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Units that it acknowledges for the first time.
    pub units: u32,
    /// Length of the longest of them.
    pub longest: usize,
    /// Highest order of a transmission that arrived: all transmissions before it were overtaken.
    pub order: u64,
    /// Units that had been found lost, although their first transmission arrived.
    pub false_losses: u32,
    /// Units sent again after a silence although their first transmission arrived.
    pub false_timeouts: u32,
}

/// The units in flight.
#[derive(Debug)]
pub(crate) struct Send {
    places: Box<[LastTransmission; UNITS]>,
    /// First unit that has not arrived.
    first: u64,
    /// Number of the next new unit.
    next: u64,
    /// First unit that `poll_acked` has not returned.
    released: u64,
    /// Units of `first..next` that have arrived.
    arrived: Bits<MAX_SACK_WORDS>,
    units_in_flight: List,
    lost: List,
    bytes_in_flight: usize,
    lost_bytes: usize,
    order: u64,
}

impl Send {
    pub(crate) fn new() -> Self {
        let nowhere = LastTransmission {
            links: Links::NONE,
            sent: 0,
            order: 0,
            bytes: 0,
            times: 0,
            state: UnitState::Done,
            lost_once: false,
        };
        Self {
            places: Box::new([nowhere; UNITS]),
            first: 0,
            next: 0,
            released: 0,
            arrived: Bits::new(),
            units_in_flight: List::new(),
            lost: List::new(),
            bytes_in_flight: 0,
            lost_bytes: 0,
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

    /// Returns the bytes sent that are neither known to have arrived nor found lost.
    #[inline]
    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Returns the bytes not known to have arrived.
    #[inline]
    pub(crate) fn open_bytes(&self) -> usize {
        self.bytes_in_flight + self.lost_bytes
    }

    /// Sends the next unit; returns its number, or `u64::MAX` if there is no entry for it.
    #[inline]
    pub(crate) fn push(&mut self, sent: Ticks, bytes: usize) -> u64 {
        if self.is_full() {
            debug_assert!(false, "senders ask for room");
            return u64::MAX;
        }
        let unit = self.next;
        self.order += 1;
        let bytes = bytes.min(u32::MAX as usize) as u32;
        let index = unit as usize & (UNITS - 1);
        if let Some(place) = self.places.get_mut(index) {
            let (order, state) = (self.order, UnitState::InFlight);
            *place = LastTransmission {
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
            self.units_in_flight.push(&mut *self.places, index);
        }
        unit
    }

    /// Sends a unit again; returns its length, or `None` if it is not in flight.
    pub(crate) fn push_again(&mut self, sent: Ticks, unit: u64) -> Option<usize> {
        if unit < self.first || unit >= self.next {
            return None;
        }
        let index = unit as usize & (UNITS - 1);
        let place = self.places.get_mut(index)?;
        let (state, bytes) = (place.state, place.bytes as usize);
        if state == UnitState::Done {
            return None;
        }
        self.order += 1;
        place.sent = sent;
        place.order = self.order;
        place.times = place.times.saturating_add(1);
        place.state = UnitState::InFlight;
        if state == UnitState::Lost {
            self.lost.remove(&mut *self.places, index);
            self.lost_bytes -= bytes;
            self.bytes_in_flight += bytes;
        } else {
            self.units_in_flight.remove(&mut *self.places, index);
        }
        self.units_in_flight.push(&mut *self.places, index);
        Some(bytes)
    }

    /// Returns the oldest transmission in flight.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Transmission> {
        self.judged(self.units_in_flight.front()?)
    }

    /// Returns the unit that has been lost for the longest time.
    #[inline]
    pub(crate) fn first_lost(&self) -> Option<Transmission> {
        self.judged(self.lost.front()?)
    }

    #[inline]
    fn judged(&self, index: usize) -> Option<Transmission> {
        let place = self.places.get(index)?;
        // The unit between `first` and `next` that has this entry.
        let unit = self.first + ((index as u64).wrapping_sub(self.first) & (SPAN - 1));
        Some(Transmission {
            unit,
            sent: place.sent,
            order: place.order,
            bytes: place.bytes as usize,
        })
    }

    /// Marks the oldest transmission as lost.
    pub(crate) fn lose_oldest(&mut self) {
        let Some(index) = self.units_in_flight.front() else { return };
        self.units_in_flight.remove(&mut *self.places, index);
        self.lost.push(&mut *self.places, index);
        if let Some(place) = self.places.get_mut(index) {
            place.state = UnitState::Lost;
            place.lost_once = true;
            self.bytes_in_flight -= place.bytes as usize;
            self.lost_bytes += place.bytes as usize;
        }
    }

    /// Takes in the acknowledgements of a packet: all units below `ack`, and those of `sack`.
    /// `echo` is the time of the newest packet that its sender had received. Returns `None` if that
    /// cannot be.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        ack: u64,
        sack: &[u64],
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
        if !sack.is_empty() {
            self.handle_sack(ack, sack, echo, &mut acked);
        }
        Some(acked)
    }

    fn handle_sack(&mut self, ack: u64, sack: &[u64], echo: Option<Ticks>, acked: &mut Acked) {
        let mut at = ack + 1;
        for word in sack.iter().take(MAX_SACK_WORDS) {
            if at >= self.next {
                return;
            }
            let left = self.next - at;
            let sent = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            let mut new = word & sent & !self.arrived.from(at);
            while new != 0 {
                let unit = at + u64::from(new.trailing_zeros());
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
        let index = unit as usize & (UNITS - 1);
        let Some(place) = self.places.get_mut(index) else { return };
        let (state, bytes) = (place.state, place.bytes as usize);
        place.state = UnitState::Done;
        acked.units += 1;
        acked.longest = acked.longest.max(bytes);
        // RFC 3522, 3.2 (Eifel): if the newest arrival was sent before the last transmission, then
        // an earlier one of this unit has arrived, and the last was unnecessary.
        let first_came = place.times > 1 && echo.is_some_and(|echo| echo < place.sent);
        if state == UnitState::Lost || (first_came && place.lost_once) {
            acked.false_losses += 1;
        } else if first_came {
            acked.false_timeouts += 1;
        }
        // RFC 8985, 6.2, step 2: a retransmitted unit says nothing about order where it is not
        // clear which of its transmissions arrived.
        let clear = place.times == 1 || echo.is_some_and(|echo| place.sent <= echo);
        if clear {
            acked.order = acked.order.max(place.order);
        }
        if state == UnitState::Lost {
            self.lost.remove(&mut *self.places, index);
            self.lost_bytes -= bytes;
        } else {
            self.units_in_flight.remove(&mut *self.places, index);
            self.bytes_in_flight -= bytes;
        }
    }

    /// Returns the number of the next new unit, and that of the next one to be released.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.next, self.released)
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.released <= self.first && self.first <= self.next, "units in order");
        assert!(self.next - self.released <= SPAN, "at most {SPAN} units in flight");
        let (mut flying, mut lost) = (0, 0);
        for unit in self.first..self.next {
            let Some(place) = self.places.get(unit as usize & (UNITS - 1)) else { continue };
            let arrived = self.arrived.has(unit);
            assert_eq!(arrived, place.state == UnitState::Done, "arrived units are done");
            match place.state {
                UnitState::InFlight => flying += place.bytes as usize,
                UnitState::Lost => lost += place.bytes as usize,
                UnitState::Done => {}
            }
        }
        assert_eq!(self.bytes_in_flight, flying, "bytes in flight are counted");
        assert_eq!(self.lost_bytes, lost, "lost bytes are counted");
        assert_eq!(self.units_in_flight.front().is_none(), flying == 0, "listed in flight");
        assert_eq!(self.lost.front().is_none(), lost == 0, "listed as lost");
    }

    /// Returns true if a unit is known to have arrived.
    pub(crate) fn has_arrived(&self, unit: u64) -> bool {
        unit < self.first || (unit < self.next && self.arrived.has(unit))
    }

    /// Returns the next unit whose buffer is free.
    #[inline]
    pub(crate) fn poll_acked(&mut self) -> Option<u64> {
        let unit = self.released;
        if unit == self.first {
            return None;
        }
        self.released += 1;
        Some(unit)
    }
}

impl crate::list::Linked for [LastTransmission; UNITS] {
    #[inline]
    fn links(&mut self, index: usize) -> Option<&mut Links> {
        self.get_mut(index & (UNITS - 1)).map(|place| &mut place.links)
    }
}
