//! The units that have arrived, and their selective acknowledgements.

use crate::bits::Bits;
use crate::sack::SackBuf;
use clump_wire::MAX_SACK_WORDS;

/// Units that may be in flight at once: as many as one packet can acknowledge one by one, so that
/// no unit can arrive without its sender being told (a sender that is not told takes it for lost).
pub(crate) const SPAN: u64 = MAX_SACK_WORDS as u64 * 64;

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
    arrived: Bits<MAX_SACK_WORDS>,
}

impl Receive {
    pub(crate) const fn new() -> Self {
        Self { expected: 0, end: 0, beyond: 0, arrived: Bits::new() }
    }

    /// Returns the first unit that has not arrived.
    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns true if a unit would be taken in as new.
    pub(crate) fn wants(&self, unit: u64) -> bool {
        unit >= self.expected && unit - self.expected < SPAN && !self.arrived.has(unit)
    }

    /// Takes a unit in; returns its disposition.
    #[inline]
    pub(crate) fn take(&mut self, unit: u64) -> UnitDisposition {
        debug_assert!(!self.arrived.has(self.expected), "what is expected is missing");
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
        if self.arrived.has(unit) {
            return UnitDisposition::Duplicate;
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
        assert!(!self.arrived.has(self.expected), "what is expected is missing");
        assert!(self.beyond < SPAN, "memory is bounded");
        let beyond = (self.expected..self.expected + SPAN).filter(|&unit| self.arrived.has(unit));
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

    /// Appends the units beyond the first gap that have arrived.
    pub(crate) fn report(&self, sack: &mut SackBuf) {
        if self.beyond == 0 {
            return;
        }
        debug_assert!(sack.words().is_empty(), "words follow the first missing unit");
        debug_assert!(self.end - self.expected <= SPAN, "one packet tells all of them");
        let mut at = self.expected + 1;
        while at < self.end {
            let left = self.end - at;
            // Bits past the end are those of units before it: the ring is one span long.
            let mask = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            sack.push(self.arrived.from(at) & mask);
            at += 64;
        }
        debug_assert!(sack.words().last() != Some(&0), "the last word tells the last unit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                let mut sack = SackBuf::new();
                receive.report(&mut sack);
                let told: BTreeSet<u64> = (0..SPAN as usize)
                    .filter(|i| sack.words().get(i / 64).is_some_and(|w| w >> (i % 64) & 1 != 0))
                    .map(|i| first + 1 + i as u64)
                    .collect();
                proptest::prop_assert_eq!(told, set.range(first..).copied().collect());
            }
        }
    }
}
