//! Units in flight, each with its body and its last transmission, in a table that grows with the
//! window.

use crate::list::{Linked, Links, List};
use crate::receive::SPAN;
use crate::time::Ticks;

/// Entries of a table whose channel is idle, and the most that there are: as many as units may be
/// in flight.
const MIN_ENTRIES: usize = 16;
const MAX_ENTRIES: usize = SPAN as usize;
const _: () = assert!(MIN_ENTRIES.is_power_of_two() && MAX_ENTRIES.is_power_of_two());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitState {
    /// In flight: sent, and neither acknowledged nor found lost.
    InFlight,
    /// Found lost, and not sent again yet.
    Lost,
    /// To be sent, since the driver has not taken its last packet.
    Refused,
    /// Arrived, and perhaps not released yet; also an entry without a unit.
    Done,
}

/// A unit in flight, and its last transmission.
#[derive(Debug)]
pub(crate) struct UnitInFlight<U> {
    /// Its body, until it is released.
    pub(crate) body: Option<U>,
    pub(crate) links: Links,
    pub(crate) sent: Ticks,
    /// Position of the transmission in the order of all; tells packets of one tick apart.
    pub(crate) order: u64,
    pub(crate) bytes: u32,
    pub(crate) times: u8,
    pub(crate) state: UnitState,
    /// True if it was found lost at some time.
    pub(crate) lost_once: bool,
}

impl<U> UnitInFlight<U> {
    const NONE: Self = Self {
        body: None,
        links: Links::NONE,
        sent: 0,
        order: 0,
        bytes: 0,
        times: 0,
        state: UnitState::Done,
        lost_once: false,
    };
}

/// A table of units in flight: unit `u` is at `u` modulo its length, a power of two.
#[derive(Debug)]
pub(crate) struct Transmissions<U>(Box<[UnitInFlight<U>]>);

impl<U> Transmissions<U> {
    pub(crate) fn new() -> Self {
        Self::of(MIN_ENTRIES)
    }

    fn of(entries: usize) -> Self {
        debug_assert!(entries.is_power_of_two(), "units are masked");
        Self((0..entries).map(|_| UnitInFlight::NONE).collect())
    }

    /// Returns the number of units that have entries of their own at once.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the index of a unit's entry.
    #[inline]
    pub(crate) fn index(&self, unit: u64) -> usize {
        masked(unit, self.len())
    }

    /// Returns the entry at an index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&UnitInFlight<U>> {
        self.0.get(index)
    }

    /// Returns the entry at an index, mutably.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut UnitInFlight<U>> {
        self.0.get_mut(index)
    }

    /// Returns the unit from `first` on that has this entry.
    #[inline]
    pub(crate) fn unit_of(&self, index: usize, first: u64) -> u64 {
        unit_at(index, first, self.len())
    }

    /// Doubles the table, whose entries are those of the units `first` to `end`, and moves `lists`
    /// of entries along.
    #[cold]
    pub(crate) fn grow(&mut self, (first, end): (u64, u64), lists: [&mut List; 2]) {
        debug_assert!(end - first == self.len() as u64, "every entry is in use");
        debug_assert!(self.len() < MAX_ENTRIES, "no more units may be in flight");
        let (before, mut grown) = (self.len(), Self::of(self.len() * 2));
        let (small, large) = (before, grown.len());
        let place = |index: usize| masked(unit_at(index, first, small), large);
        for unit in first..end {
            let Some(entry) = self.get_mut(masked(unit, small)) else {
                clump_bug::bug!("the mask keeps the index inside");
                break;
            };
            let mut entry = std::mem::replace(entry, UnitInFlight::NONE);
            entry.links.relocate(place);
            if let Some(place) = grown.get_mut(masked(unit, large)) {
                *place = entry;
            }
        }
        lists.into_iter().for_each(|list| list.relocate(place));
        *self = grown;
        debug_assert!(self.len() == 2 * before, "twice as many entries");
    }

    /// Gives back what the table has grown by; no unit is in flight, and all are released.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.0.iter().all(|entry| entry.state == UnitState::Done), "none in flight");
        debug_assert!(self.0.iter().all(|entry| entry.body.is_none()), "all are released");
        if self.len() > MIN_ENTRIES {
            *self = Self::new();
        }
    }

    /// Returns the bytes of the table that [`Transmissions::shrink`] would give back.
    pub(crate) fn spare_bytes(&self) -> usize {
        (self.len() - MIN_ENTRIES) * size_of::<UnitInFlight<U>>()
    }
}

impl<U> Linked for Transmissions<U> {
    #[inline]
    fn links(&mut self, index: usize) -> Option<&mut Links> {
        self.get_mut(index).map(|entry| &mut entry.links)
    }
}

/// Returns the index of a unit's entry in a table of so many.
#[inline]
fn masked(unit: u64, entries: usize) -> usize {
    debug_assert!(entries.is_power_of_two(), "units are masked");
    unit as usize & (entries - 1)
}

/// Returns the unit from `first` on that is at `index` in a table of so many entries.
#[inline]
fn unit_at(index: usize, first: u64, entries: usize) -> u64 {
    debug_assert!(index < entries, "an index of the table");
    first + ((index as u64).wrapping_sub(first) & (entries as u64 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::Send as Sender;

    type Send = Sender<u64>;

    #[derive(Debug, Clone, Copy)]
    enum Operation {
        Send,
        /// Acknowledges the unit at this place among those that have not arrived.
        Acknowledge(usize),
        LoseOldest,
        SendLostAgain,
        /// Takes the last transmission back: the driver has not taken its packet.
        TakeBackNewest,
        /// Takes the bodies of the units that have arrived in order.
        Release,
        Shrink,
    }

    /// Units in flight and lost, each list in its order, and those that have arrived.
    #[derive(Default)]
    struct Model {
        in_flight: Vec<u64>,
        lost: Vec<u64>,
        /// Those among the lost that the driver has not taken.
        refused: Vec<u64>,
        arrived: Vec<u64>,
    }

    impl Model {
        fn open(&self) -> Vec<u64> {
            let mut open = [&self.in_flight[..], &self.lost].concat();
            open.sort_unstable();
            open
        }
    }

    fn acknowledge(send: &mut Send, model: &mut Model, at: usize) {
        let open = model.open();
        let Some(&unit) = open.get(at % open.len().max(1)) else { return };
        model.in_flight.retain(|other| *other != unit);
        model.lost.retain(|other| *other != unit);
        model.refused.retain(|other| *other != unit);
        model.arrived.push(unit);
        let first = model.open().first().copied().unwrap_or(send.next_unit());
        let mut sack = [0_u64; 1024];
        for unit in model.arrived.iter().filter(|unit| **unit > first) {
            let bit = unit - first - 1;
            sack[bit as usize / 64] |= 1 << (bit % 64);
        }
        assert_eq!(send.handle_ack(first, (0, &sack), None).map(|acked| acked.units), Some(1));
    }

    fn step(send: &mut Send, model: &mut Model, operation: Operation) {
        match operation {
            Operation::Send if send.is_full() => {}
            Operation::Send => {
                let next = send.next_unit();
                model.in_flight.push(send.push(1, 100, next));
            }
            Operation::Acknowledge(at) => acknowledge(send, model, at),
            Operation::LoseOldest if model.in_flight.is_empty() => {}
            Operation::LoseOldest => {
                send.lose_oldest();
                model.lost.push(model.in_flight.remove(0));
            }
            Operation::SendLostAgain if model.lost.is_empty() => {}
            Operation::SendLostAgain => {
                let unit = model.lost.remove(0);
                let refused = model.refused.contains(&unit);
                model.refused.retain(|other| *other != unit);
                assert_eq!(send.push_again(2, unit), Some((100, refused)));
                model.in_flight.push(unit);
            }
            Operation::TakeBackNewest => {
                if let Some(unit) = model.in_flight.pop() {
                    send.take_back(unit);
                    model.lost.insert(0, unit);
                    model.refused.push(unit);
                }
            }
            Operation::Release => release(send),
            Operation::Shrink => {
                release(send);
                send.shrink();
                assert!(send.spare_bytes() == 0 || !model.open().is_empty(), "an idle table");
            }
        }
    }

    fn release(send: &mut Send) {
        while let Some((unit, body)) = send.poll_acked() {
            assert_eq!(unit, body, "each with its own body");
        }
    }

    proptest::proptest! {
        /// Compares the lists through a table that grows and shrinks with vectors.
        #[test]
        fn as_vectors_would(steps in proptest::collection::vec((0_u8..15, 0_usize..99), 1..600)) {
            let (mut send, mut model) = (Send::new(), Model::default());
            for (kind, at) in steps {
                let operation = match kind {
                    0..6 => Operation::Send,
                    6..9 => Operation::Acknowledge(at),
                    9 => Operation::LoseOldest,
                    10 => Operation::SendLostAgain,
                    11 => Operation::Release,
                    12..14 => Operation::TakeBackNewest,
                    _ => Operation::Shrink,
                };
                step(&mut send, &mut model, operation);
                send.check_invariants();
                let unit = |listed: Option<crate::send::Transmission>| listed.map(|one| one.unit);
                proptest::prop_assert_eq!(unit(send.oldest()), model.in_flight.first().copied());
                proptest::prop_assert_eq!(unit(send.first_again()), model.lost.first().copied());
            }
        }
    }

    #[test]
    fn a_full_table_holds_all_units_and_an_idle_one_is_small() {
        let (mut send, mut model) = (Send::new(), Model::default());
        for _ in 0..2 {
            while !send.is_full() {
                step(&mut send, &mut model, Operation::Send);
            }
            assert_eq!(model.in_flight.len(), MAX_ENTRIES);
            send.check_invariants();
            send.shrink();
            let grown = (MAX_ENTRIES - MIN_ENTRIES) * size_of::<UnitInFlight<u64>>();
            let bits = (MAX_ENTRIES - 1024) / 8;
            assert_eq!(send.spare_bytes(), grown + bits, "nothing in flight is given back");
            let acked = send.handle_ack(send.next_unit(), (0, &[]), None);
            assert_eq!(acked.map(|acked| acked.units as usize), Some(MAX_ENTRIES));
            model = Model::default();
            assert!(send.is_full(), "none is released");
            step(&mut send, &mut model, Operation::Shrink);
            assert_eq!(send.spare_bytes(), 0);
        }
    }
}
