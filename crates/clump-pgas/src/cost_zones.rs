//! Cost zones: shares of work that are consecutive in one order of all objects, and about equal in
//! cost (Singh 1993).

use std::ops::Range;

/// Division of the sum of all costs into a zone for each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostZones {
    all: u64,
    ranks: usize,
}

impl CostZones {
    /// Divides `all` costs among `ranks` ranks.
    pub fn new(all: u64, ranks: usize) -> Self {
        debug_assert!(ranks > 0, "somebody works");
        Self { all, ranks: ranks.max(1) }
    }

    /// Returns the costs at which objects of a rank begin, all objects before them summed up. Zones
    /// follow one another, the last ends with all costs.
    pub fn zone(&self, rank: usize) -> Range<u64> {
        let bound = |rank: usize| {
            let share = u128::from(self.all) * rank.min(self.ranks) as u128;
            (share / self.ranks as u128) as u64
        };
        let zone = bound(rank)..bound(rank.saturating_add(1));
        debug_assert!(zone.start <= zone.end && zone.end <= self.all, "a part of all costs");
        zone
    }

    /// Returns the rank of an object, given the costs of all objects before it; the last rank's are
    /// those that begin with or behind the end.
    pub fn owner(&self, before: u64) -> usize {
        let share = u128::from(before) * self.ranks as u128 / u128::from(self.all.max(1));
        let near = usize::try_from(share).unwrap_or(usize::MAX).min(self.ranks - 1);
        debug_assert!(self.zone(near).start <= before, "no later zone");
        // Bounds are rounded down, so the next zone may begin here already.
        let last = self.ranks - 1;
        (near..=last).find(|&rank| before < self.zone(rank).end).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::CostZones;
    use proptest::prelude::{any, proptest};

    #[test]
    fn zones_of_equal_costs_are_equal() {
        let zones = CostZones::new(100, 4);
        assert_eq!([0, 1, 2, 3].map(|rank| zones.zone(rank)), [0..25, 25..50, 50..75, 75..100]);
        assert_eq!([0, 24, 25, 99, 100].map(|before| zones.owner(before)), [0, 0, 1, 3, 3]);
        assert_eq!(CostZones::new(0, 3).owner(0), 2);
        assert_eq!(CostZones::new(2, 4).owner(0), 1, "zone 0 has no costs");
    }

    proptest! {
        #[test]
        fn every_cost_is_in_the_zone_of_its_owner(all in 1..u64::MAX, ranks in 1..2000_usize,
                                                  at in any::<u64>()) {
            let (zones, at) = (CostZones::new(all, ranks), at % all);
            let owner = zones.owner(at);
            assert!(zones.zone(owner).contains(&at), "{at} of {all}: {owner} of {ranks}");
            assert_eq!((zones.zone(0).start, zones.zone(ranks - 1).end), (0, all));
        }
    }
}
