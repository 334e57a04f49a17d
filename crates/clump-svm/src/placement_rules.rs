//! Rules of allocations, by which pages have their homes, as a rank knows them.

use clump_hlrc::PlacementTable;
use std::sync::{PoisonError, RwLock};

/// Rules of allocations, by which pages have their homes; one for all threads of a rank.
#[derive(Debug)]
pub(crate) struct PlacementRules {
    pub(crate) table: RwLock<PlacementTable>,
    pub(crate) pages: u32,
    pub(crate) nodes: u16,
}

impl PlacementRules {
    /// Returns the home of a page; none where the first use decides.
    pub(crate) fn home(&self, page: u32) -> Option<u16> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(page < self.pages, "the page exists");
        let home = table.home_of(page, self.pages, self.nodes);
        debug_assert!(home.is_none_or(|home| home < self.nodes), "a node of the job");
        home
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_hlrc::Placement;

    #[test]
    fn pages_have_homes_by_the_rule_of_their_allocation() {
        let mut table = PlacementTable::default();
        assert!(table.insert(2, 4, Placement::On(1)) && table.insert(6, 2, Placement::FirstWrite));
        let rules = PlacementRules { table: RwLock::new(table), pages: 10, nodes: 2 };
        assert_eq!([2, 5].map(|page| rules.home(page)), [Some(1), Some(1)]);
        assert_eq!(rules.home(6), None, "the first use decides");
        assert_eq!([8, 9].map(|page| rules.home(page)), [Some(0), Some(1)], "of no allocation");
    }
}
