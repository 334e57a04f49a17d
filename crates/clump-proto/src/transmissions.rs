//! The last transmission of each unit in flight, in a table that grows with the window.

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
    /// Arrived; also an entry without a unit.
    Done,
}

/// The last transmission of a unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastTransmission {
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

impl LastTransmission {
    const NONE: Self = Self {
        links: Links::NONE,
        sent: 0,
        order: 0,
        bytes: 0,
        times: 0,
        state: UnitState::Done,
        lost_once: false,
    };
}

/// A table of transmissions: that of unit `u` lies at `u` modulo its length, a power of two.
#[derive(Debug)]
pub(crate) struct Transmissions(Box<[LastTransmission]>);

impl Transmissions {
    pub(crate) fn new() -> Self {
        Self::of(MIN_ENTRIES)
    }

    fn of(entries: usize) -> Self {
        debug_assert!(entries.is_power_of_two(), "units are masked");
        Self(vec![LastTransmission::NONE; entries].into_boxed_slice())
    }

    /// Returns the number of units that have entries of their own at once.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the index of a unit's entry.
    #[inline]
    pub(crate) fn index(&self, unit: u64) -> usize {
        unit as usize & (self.len() - 1)
    }

    /// Returns the entry at an index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&LastTransmission> {
        self.0.get(index)
    }

    /// Returns the entry at an index, mutably.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut LastTransmission> {
        self.0.get_mut(index)
    }

    /// Returns the unit from `first` on that has this entry.
    #[inline]
    pub(crate) fn unit_of(&self, index: usize, first: u64) -> u64 {
        first + ((index as u64).wrapping_sub(first) & (self.len() as u64 - 1))
    }

    /// Doubles the table, whose entries are those of the units `first` to `end`, and moves `lists`
    /// of entries along.
    #[cold]
    pub(crate) fn grow(&mut self, (first, end): (u64, u64), lists: [&mut List; 2]) {
        debug_assert!(end - first == self.len() as u64, "every entry is in use");
        debug_assert!(self.len() < MAX_ENTRIES, "no more units may be in flight");
        let mut grown = Self::of(self.len() * 2);
        let place = |index: usize| grown.index(self.unit_of(index, first));
        let moved: Vec<_> = (first..end)
            .filter_map(|unit| {
                let mut entry = *self.get(self.index(unit))?;
                entry.links.relocate(place);
                Some((grown.index(unit), entry))
            })
            .collect();
        lists.into_iter().for_each(|list| list.relocate(place));
        for (index, entry) in moved {
            if let Some(place) = grown.get_mut(index) {
                *place = entry;
            }
        }
        *self = grown;
    }

    /// Gives back what the table has grown by; no unit is in flight.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.0.iter().all(|entry| entry.state == UnitState::Done), "none in flight");
        if self.len() > MIN_ENTRIES {
            *self = Self::new();
        }
    }

    /// Returns the bytes of the table that [`Transmissions::shrink`] would give back.
    pub(crate) fn spare_bytes(&self) -> usize {
        (self.len() - MIN_ENTRIES) * size_of::<LastTransmission>()
    }
}

impl Linked for Transmissions {
    #[inline]
    fn links(&mut self, index: usize) -> Option<&mut Links> {
        self.get_mut(index).map(|entry| &mut entry.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::Send;

    #[derive(Debug, Clone, Copy)]
    enum Operation {
        Send,
        /// Acknowledges the unit at this place among those that have not arrived.
        Acknowledge(usize),
        LoseOldest,
        SendLostAgain,
        Shrink,
    }

    /// Units in flight and lost, each list in its order, and those that have arrived.
    #[derive(Default)]
    struct Model {
        in_flight: Vec<u64>,
        lost: Vec<u64>,
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
        model.arrived.push(unit);
        let first = model.open().first().copied().unwrap_or(send.next_unit());
        let mut sack = [0_u64; 16];
        for unit in model.arrived.iter().filter(|unit| **unit > first) {
            let bit = unit - first - 1;
            sack[bit as usize / 64] |= 1 << (bit % 64);
        }
        assert_eq!(send.handle_ack(first, &sack, None).map(|acked| acked.units), Some(1));
    }

    fn step(send: &mut Send, model: &mut Model, operation: Operation) {
        match operation {
            Operation::Send if send.is_full() => {}
            Operation::Send => model.in_flight.push(send.push(1, 100)),
            Operation::Acknowledge(at) => acknowledge(send, model, at),
            Operation::LoseOldest if model.in_flight.is_empty() => {}
            Operation::LoseOldest => {
                send.lose_oldest();
                model.lost.push(model.in_flight.remove(0));
            }
            Operation::SendLostAgain if model.lost.is_empty() => {}
            Operation::SendLostAgain => {
                let unit = model.lost.remove(0);
                assert_eq!(send.push_again(2, unit), Some(100));
                model.in_flight.push(unit);
            }
            Operation::Shrink => {
                send.shrink();
                assert!(send.spare_bytes() == 0 || !model.open().is_empty(), "an idle table");
            }
        }
        while send.poll_acked().is_some() {}
    }

    proptest::proptest! {
        /// Compares the lists through a table that grows and shrinks with vectors.
        #[test]
        fn as_vectors_would(steps in proptest::collection::vec((0_u8..12, 0_usize..99), 1..600)) {
            let (mut send, mut model) = (Send::new(), Model::default());
            for (kind, at) in steps {
                let operation = match kind {
                    0..6 => Operation::Send,
                    6..9 => Operation::Acknowledge(at),
                    9 => Operation::LoseOldest,
                    10 => Operation::SendLostAgain,
                    _ => Operation::Shrink,
                };
                step(&mut send, &mut model, operation);
                send.check_invariants();
                let unit = |listed: Option<crate::send::Transmission>| listed.map(|one| one.unit);
                proptest::prop_assert_eq!(unit(send.oldest()), model.in_flight.first().copied());
                proptest::prop_assert_eq!(unit(send.first_lost()), model.lost.first().copied());
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
            let grown = (MAX_ENTRIES - MIN_ENTRIES) * size_of::<LastTransmission>();
            assert_eq!(send.spare_bytes(), grown, "nothing in flight is given back");
            (0..MAX_ENTRIES).for_each(|_| step(&mut send, &mut model, Operation::Acknowledge(0)));
            step(&mut send, &mut model, Operation::Shrink);
            assert_eq!(send.spare_bytes(), 0);
        }
    }
}
