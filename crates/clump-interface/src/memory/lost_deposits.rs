//! Deposits that found no memory: noted when the bytes are dropped, and taken by the request that
//! comes behind them, which is refused.

use clump_shm::export::SegmentName;

/// Maximal number of ranges; above that, those of a region are merged.
const MOST: usize = 256;

/// Ranges of regions to which deposited bytes were dropped.
#[derive(Debug, Default)]
pub(super) struct LostDeposits {
    /// Region, first byte and end.
    ranges: Vec<(SegmentName, u64, u64)>,
}

impl LostDeposits {
    /// Notes that `bytes` bytes for `offset` of a region were dropped.
    pub(super) fn note(&mut self, name: SegmentName, offset: u64, bytes: u64) {
        let (start, end) = (offset, offset.saturating_add(bytes));
        debug_assert!(bytes != 0, "no bytes need no memory");
        let touches = |&&mut (other, from, to): &&mut (SegmentName, u64, u64)| {
            other == name && from <= end && start <= to
        };
        match self.ranges.iter_mut().find(touches) {
            Some((_, from, to)) => (*from, *to) = ((*from).min(start), (*to).max(end)),
            None => self.ranges.push((name, start, end)),
        }
        if self.ranges.len() > MOST {
            self.join();
        }
        debug_assert!(self.holds(name, start), "what was lost is noted");
    }

    /// Makes one range of those of each region: more is refused than was lost, and never less.
    fn join(&mut self) {
        let mut whole: Vec<(SegmentName, u64, u64)> = Vec::new();
        for (name, from, to) in self.ranges.drain(..) {
            match whole.iter_mut().find(|range| range.0 == name) {
                Some(range) => (range.1, range.2) = (range.1.min(from), range.2.max(to)),
                None => whole.push((name, from, to)),
            }
        }
        debug_assert!(whole.len() <= MOST, "a node has few regions");
        self.ranges = whole;
    }

    /// Returns true if some of those bytes were lost, and forgets it.
    pub(super) fn take(&mut self, name: SegmentName, offset: u64, bytes: u64) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        let (start, end) = (offset, offset.saturating_add(bytes));
        let hit = |&(other, from, to): &(SegmentName, u64, u64)| {
            other == name && from < end && start < to
        };
        let taken: Vec<_> = self.ranges.extract_if(.., |range| hit(range)).collect();
        for &(name, from, to) in &taken {
            let rest = [(name, from, start), (name, end, to)];
            self.ranges.extend(rest.into_iter().filter(|(_, from, to)| from < to));
        }
        debug_assert!(!self.ranges.iter().any(hit), "each loss is reported once");
        !taken.is_empty()
    }

    fn holds(&self, name: SegmentName, at: u64) -> bool {
        self.ranges.iter().any(|&(other, from, to)| other == name && from <= at && at < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_lost_byte_is_told_to_the_request_behind_it(
            steps in prop::collection::vec((any::<bool>(), 0_u8..2, 0_u64..60, 1_u64..9), 1..200),
        ) {
            let mut lost = LostDeposits::default();
            let mut model = [[false; 80]; 2];
            for (notes, region, offset, bytes) in steps {
                let name = SegmentName::of_node(0, region);
                let part = &mut model[usize::from(region)][offset as usize..][..bytes as usize];
                if notes {
                    lost.note(name, offset, bytes);
                    part.fill(true);
                } else {
                    prop_assert_eq!(lost.take(name, offset, bytes), part.contains(&true));
                    part.fill(false);
                }
            }
        }
    }

    #[test]
    fn losses_of_senders_that_are_gone_stay_bounded_and_are_not_forgotten() {
        let mut lost = LostDeposits::default();
        let region = SegmentName::of_node(0, 1);
        (0..100_000).for_each(|at| lost.note(region, at * 10, 5));
        assert!(lost.ranges.len() <= MOST);
        assert!(lost.take(region, 999_990, 1));
        assert!(lost.take(region, 3, 1) && !lost.take(region, 3, 1));
    }
}
