//! Units that arrive in fragments, because they were made when their path carried more than it does
//! now.
//!
//! Pure. Fragments come in any order, more than once, and with other boundaries once the path has
//! changed again.

use clump_wire::UnitFragment;
use std::collections::BTreeMap;

/// Bytes of units that may be incomplete; fragments of others are dropped, and retransmitted.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Incomplete units of one peer, reassembled from fragments.
#[derive(Debug, Default)]
pub(crate) struct UnitFragments {
    units: BTreeMap<u64, Partial>,
    bytes: usize,
}

/// A unit of which something is missing.
#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    /// Begin and end of the ranges that have arrived; they do not touch.
    arrived: BTreeMap<usize, usize>,
}

impl UnitFragments {
    /// Handles a fragment; returns the unit once that is whole.
    pub(crate) fn take(
        &mut self,
        unit: u64,
        unit_fragment: UnitFragment,
        part: &[u8],
    ) -> Option<Vec<u8>> {
        let (begin, total) = (unit_fragment.offset as usize, unit_fragment.total as usize);
        if !self.units.contains_key(&unit) {
            if self.bytes + total > MAX_BYTES {
                return None;
            }
            self.bytes += total;
            let partial = Partial { bytes: vec![0; total], arrived: BTreeMap::new() };
            self.units.insert(unit, partial);
        }
        debug_assert!(self.bytes <= MAX_BYTES, "memory is bounded");
        debug_assert!(self.units.contains_key(&unit), "the unit is joined");
        let partial = self.units.get_mut(&unit)?;
        partial.put(begin, part);
        if !partial.is_whole() {
            return None;
        }
        self.forget(unit)
    }

    /// Drops the fragments of units that are not needed any more.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(u64) -> bool) {
        let Self { units, bytes } = self;
        units.retain(|&unit, partial| {
            let wanted = is_wanted(unit);
            debug_assert!(*bytes >= partial.bytes.len(), "its bytes were counted");
            *bytes -= if wanted { 0 } else { partial.bytes.len() };
            wanted
        });
        debug_assert!(!units.is_empty() || *bytes == 0, "bytes are of units");
    }

    fn forget(&mut self, unit: u64) -> Option<Vec<u8>> {
        let partial = self.units.remove(&unit)?;
        debug_assert!(partial.is_whole(), "what is incomplete is kept");
        debug_assert!(self.bytes >= partial.bytes.len(), "its bytes were counted");
        self.bytes -= partial.bytes.len();
        Some(partial.bytes)
    }

    /// Returns the bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let kept: usize = self.units.values().map(|partial| partial.bytes.len()).sum();
        assert_eq!(self.bytes, kept, "bytes are counted");
        assert!(self.bytes <= MAX_BYTES, "memory is bounded");
        for partial in self.units.values() {
            assert!(!partial.is_whole(), "whole units leave");
            let (begins, ends) = (partial.arrived.keys().skip(1), partial.arrived.values());
            assert!(begins.zip(ends).all(|(begin, end)| end < begin), "ranges do not touch");
            let last = partial.arrived.last_key_value();
            assert!(last.is_none_or(|(_, end)| *end <= partial.bytes.len()), "in the unit");
        }
    }
}

impl Partial {
    /// Adds a fragment. One that lies outside of the announced unit is ignored: its sender's fault.
    fn put(&mut self, begin: usize, part: &[u8]) {
        let end = begin + part.len();
        let Some(place) = self.bytes.get_mut(begin..end) else { return };
        place.copy_from_slice(part);
        let (mut begin, mut end) = (begin, end);
        // Merged with every range that it touches.
        while let Some((&from, &to)) = self.arrived.range(..=end).next_back()
            && to >= begin
        {
            self.arrived.remove(&from);
            debug_assert!(from <= to, "ranges go forward");
            (begin, end) = (begin.min(from), end.max(to));
        }
        debug_assert!(begin <= end && end <= self.bytes.len(), "a range of the unit");
        let next = self.arrived.range(begin..).next();
        debug_assert!(next.is_none_or(|(&from, _)| from > end), "ranges do not touch");
        self.arrived.insert(begin, end);
    }

    fn is_whole(&self) -> bool {
        self.arrived.get(&0).is_some_and(|&end| end == self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit(total: usize) -> Vec<u8> {
        (0..total).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    fn unit_fragment(offset: usize, total: usize) -> UnitFragment {
        UnitFragment { offset: offset as u32, total: total as u32 }
    }

    proptest! {
        /// However units are cut, and in whichever order and how often fragments come: each unit
        /// comes once, as soon as it is complete, unaltered.
        #[test]
        fn units_are_joined_when_they_are_covered(
            totals in prop::collection::vec(1usize..5000, 1..4),
            picks in prop::collection::vec((any::<u16>(), any::<u16>(), 1usize..2000), 1..200),
        ) {
            let mut unit_fragments = UnitFragments::default();
            let mut covered: Vec<Vec<bool>> = totals.iter().map(|&total| vec![false; total]).collect();
            for (which, at, len) in picks {
                let number = usize::from(which) % totals.len();
                let total = totals[number];
                let begin = usize::from(at) % total;
                let end = (begin + len).min(total);
                let done = covered[number].iter().all(|&is| is);
                covered[number][begin..end].fill(true);
                let got = unit_fragments.take(number as u64, unit_fragment(begin, total), &unit(total)[begin..end]);
                if !done {
                    let whole = covered[number].iter().all(|&is| is);
                    prop_assert_eq!(got.is_some(), whole);
                    prop_assert!(got.is_none_or(|got| got == unit(total)));
                } else {
                    // A repeated fragment begins the unit anew: the channel keeps such away.
                    unit_fragments.retain(|kept| kept != number as u64);
                }
            }
        }

        /// Any fragments of a peer: no panic, and memory is bounded.
        #[test]
        fn nonsense_costs_no_more_than_it_may(
            picks in prop::collection::vec((0u64..4, any::<u32>(), any::<u32>(), 0usize..3000), 0..100),
        ) {
            let mut unit_fragments = UnitFragments::default();
            for (number, offset, total, len) in picks {
                let bytes = [&unit_fragment(offset as usize % 4096, total as usize % 400_000).encode()[..], &vec![7; len]].concat();
                if let Some((unit_fragment, part)) = UnitFragment::parse(&bytes) {
                    unit_fragments.take(number, unit_fragment, part);
                }
                prop_assert!(unit_fragments.bytes() <= MAX_BYTES);
                prop_assert_eq!(unit_fragments.bytes(), unit_fragments.units.values().map(|unit| unit.bytes.len()).sum::<usize>());
            }
            unit_fragments.retain(|_| false);
            prop_assert_eq!(unit_fragments.bytes(), 0);
        }
    }

    #[test]
    fn units_beyond_the_bound_wait_for_others() {
        let mut unit_fragments = UnitFragments::default();
        let total = MAX_BYTES / 2;
        for number in 0..3 {
            assert_eq!(unit_fragments.take(number, unit_fragment(0, total), &[1; 100]), None);
        }
        assert_eq!(unit_fragments.bytes(), MAX_BYTES);
        assert!(unit_fragments.take(1, unit_fragment(100, total), &vec![1; total - 100]).is_some());
        assert_eq!(unit_fragments.take(2, unit_fragment(0, total), &[1; 100]), None);
        assert!(unit_fragments.take(2, unit_fragment(100, total), &vec![1; total - 100]).is_some());
    }
}
