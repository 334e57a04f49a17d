//! The units that have arrived, and their selective acknowledgements.

use crate::bits::Bits;
use crate::sack::SackBuf;

/// Units that may be in flight at once: 256 MiB in datagrams of 1472 bytes, so that
/// those of 64 MiB can be repaired twice. One packet describes
/// 8192 of them; where more lie beyond a gap, packets take turns.
pub(crate) const SPAN: u64 = 1 << 18;

/// Disposition of an arriving unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitDisposition {
    /// New, and nothing is missing up to it or beyond.
    InOrder,
    /// New, while others are, or were, missing.
    OutOfOrder,
    /// Arrived before.
    Duplicate,
    /// Further ahead than any sender may send: refused, bounded memory.
    TooFar,
}

/// The units that have arrived.
#[derive(Debug)]
pub(crate) struct Receive {
    /// First unit that has not arrived.
    expected: u64,
    /// One past the last that has arrived.
    end: u64,
    /// Number of units of `expected..end` that have arrived; their bits are set, and no others.
    beyond: u64,
    arrived: Bits,
    /// First unit that the next report describes; at or below `expected`: it begins anew.
    described: u64,
}

/// Units that a packet describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Description {
    /// Units between the first missing one and the first of its words.
    pub offset: u64,
    /// True if nothing has arrived beyond its words.
    pub whole: bool,
}

impl Description {
    /// That of a packet where nothing is missing.
    pub(crate) const NOTHING: Self = Self { offset: 0, whole: true };
}

impl Receive {
    pub(crate) fn new() -> Self {
        Self { expected: 0, end: 0, beyond: 0, arrived: Bits::new(), described: 0 }
    }

    /// Returns the first unit that has not arrived.
    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns true if a unit would be taken in as new.
    pub(crate) fn wants(&self, unit: u64) -> bool {
        unit >= self.expected && unit - self.expected < SPAN && !self.has(unit)
    }

    /// Returns true if a unit beyond the first missing one has arrived.
    #[inline]
    fn has(&self, unit: u64) -> bool {
        self.beyond > 0 && unit < self.end && self.arrived.has(unit)
    }

    /// Takes a unit in; returns its disposition.
    #[inline]
    pub(crate) fn take(&mut self, unit: u64) -> UnitDisposition {
        debug_assert!(!self.has(self.expected), "what is expected is missing");
        if unit == self.expected && self.beyond == 0 {
            self.expected += 1;
            return UnitDisposition::InOrder;
        }
        self.take_astray(unit)
    }

    fn take_astray(&mut self, unit: u64) -> UnitDisposition {
        if unit < self.expected {
            return UnitDisposition::Duplicate;
        }
        if unit - self.expected >= SPAN {
            return UnitDisposition::TooFar;
        }
        if self.has(unit) {
            return UnitDisposition::Duplicate;
        }
        if unit - self.expected >= self.arrived.len() {
            self.arrived
                .grow(unit + 1 - self.expected, (self.expected, self.end.max(self.expected)));
        }
        if self.beyond == 0 {
            self.described = 0;
        }
        self.arrived.set(unit);
        self.beyond += 1;
        self.end = self.end.max(unit + 1);
        while self.beyond > 0 && self.arrived.has(self.expected) {
            self.arrived.clear(self.expected);
            self.expected += 1;
            self.beyond -= 1;
        }
        debug_assert!(self.beyond < SPAN, "the first is missing");
        debug_assert!(self.beyond == 0 || self.end > self.expected + 1, "they lie beyond it");
        debug_assert!(!self.wants(unit), "it has arrived");
        UnitDisposition::OutOfOrder
    }

    /// Returns true if a unit is missing before one that has arrived.
    #[inline]
    pub(crate) fn has_gap(&self) -> bool {
        self.beyond > 0
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(!self.has(self.expected), "what is expected is missing");
        assert!(self.beyond < SPAN, "memory is bounded");
        let ring = self.expected..self.expected + self.arrived.len();
        let beyond = ring.filter(|&unit| self.arrived.has(unit));
        assert_eq!(beyond.count() as u64, self.beyond, "units beyond a gap are counted");
        if self.beyond > 0 {
            assert!(self.end > self.expected + self.beyond, "they lie beyond it");
            assert!(self.end <= self.expected + SPAN, "no further than a packet can tell");
            assert!(self.arrived.has(self.end - 1), "the last of them has arrived");
        }
    }

    /// Returns the number of units that have arrived.
    pub(crate) fn count(&self) -> u64 {
        self.expected + self.beyond
    }

    /// Appends the units beyond the first gap, if there is one, that have arrived, as far as there
    /// is room: the next report begins where this one ends.
    #[cold]
    pub(crate) fn report(&mut self, sack: &mut SackBuf) -> Description {
        if self.beyond == 0 {
            return Description::NOTHING;
        }
        debug_assert!(sack.words().is_empty(), "words follow the first missing unit");
        debug_assert!(self.end - self.expected <= SPAN, "no sender may send more");
        let first = self.expected + 1;
        let from = if self.described < self.end { self.described.max(first) } else { first };
        let mut at = from;
        while at < self.end && sack.has_room() {
            let left = self.end - at;
            // Bits past the end are those of units before it.
            let mask = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            sack.push(self.arrived.from(at) & mask);
            at += 64;
        }
        let whole = at >= self.end;
        self.described = if whole { 0 } else { at };
        debug_assert!(whole || !sack.has_room(), "a report is as long as it can be");
        Description { offset: from - first, whole }
    }

    /// Has the next report begin with the first unit beyond the gap.
    pub(crate) fn restart_description(&mut self) {
        self.described = 0;
    }

    /// Gives back the memory that units beyond a gap took, if there is no gap.
    pub(crate) fn shrink(&mut self) {
        if self.beyond == 0 {
            self.arrived.shrink();
        }
    }

    /// Returns the bytes that [`Receive::shrink`] gives back once there is no gap.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.arrived.spare_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_wire::MAX_SACK_WORDS;
    use std::collections::BTreeSet;

    #[test]
    fn nothing_beyond_the_span_is_kept() {
        let mut receive = Receive::new();
        assert_eq!(receive.take(SPAN), UnitDisposition::TooFar);
        assert_eq!(receive.take(u64::MAX), UnitDisposition::TooFar);
        assert_eq!(receive.take(SPAN - 1), UnitDisposition::OutOfOrder);
        assert_eq!(receive.take(0), UnitDisposition::OutOfOrder);
        assert_eq!(
            receive.take(SPAN),
            UnitDisposition::OutOfOrder,
            "the span moves with the first gap"
        );
        assert_eq!(receive.expected(), 1);
    }

    #[test]
    fn more_units_than_a_packet_describes_take_turns() {
        let mut receive = Receive::new();
        let arrived: BTreeSet<u64> = (1..20_000).filter(|unit| unit % 3 != 0).collect();
        arrived.iter().for_each(|&unit| assert_ne!(receive.take(unit), UnitDisposition::TooFar));
        for _ in 0..2 {
            let (mut told, mut offsets) = (BTreeSet::new(), Vec::new());
            for _ in 0..3 {
                let mut sack = SackBuf::new();
                let described = receive.report(&mut sack);
                offsets.push((described.offset, described.whole));
                let units = (0..64 * MAX_SACK_WORDS as u64).filter(|i| {
                    let word = sack.words().get(*i as usize / 64);
                    word.is_some_and(|word| word >> (i % 64) & 1 != 0)
                });
                told.extend(units.map(|i| 1 + described.offset + i));
            }
            assert_eq!(offsets, [(0, false), (8192, false), (16_384, true)], "and begin anew");
            assert_eq!(told, arrived);
        }
    }

    proptest::proptest! {
        /// Compares with a set of all units ever, and the report with the same set.
        #[test]
        fn as_a_set_would(steps in proptest::collection::vec(0_u64..1300, 1..900)) {
            let (mut receive, mut set, mut first) = (Receive::new(), BTreeSet::new(), 0_u64);
            for step in steps {
                let unit = (first + step % (1 + step % 1200)).saturating_sub(20);
                let taken = receive.take(unit);
                if unit >= first + SPAN {
                    proptest::prop_assert_eq!(taken, UnitDisposition::TooFar);
                } else {
                    proptest::prop_assert_eq!(taken == UnitDisposition::Duplicate, !set.insert(unit));
                }
                while set.contains(&first) {
                    first += 1;
                }
                proptest::prop_assert_eq!(receive.expected(), first);
                let (mut told, mut whole) = (BTreeSet::new(), false);
                while !whole {
                    let mut sack = SackBuf::new();
                    let described = receive.report(&mut sack);
                    whole = described.whole;
                    let from = first + 1 + described.offset;
                    told.extend((0..64 * MAX_SACK_WORDS)
                        .filter(|i| {
                            sack.words().get(i / 64).is_some_and(|w| w >> (i % 64) & 1 != 0)
                        })
                        .map(|i| from + i as u64));
                }
                proptest::prop_assert_eq!(told, set.range(first..).copied().collect());
            }
        }
    }
}
