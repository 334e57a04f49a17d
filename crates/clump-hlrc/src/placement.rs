//! Homes of pages: the first ones, and the rule by which they move.

use std::collections::BTreeMap;

/// Rule by which a page gets its first home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Consecutive pages share a home, as many for each node.
    Block,
    /// Page by page, each node in turn.
    Cyclic,
    /// The node that first writes a page becomes its home.
    FirstWrite,
    /// Homes are listed, one a page.
    Explicit(Box<[u16]>),
    /// All pages have one home.
    On(u16),
    /// Ranges of pages have rules of their own; pages outside of all go node by node.
    Ranges(PlacementTable),
}

/// Rules of ranges of pages, which do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlacementTable {
    /// By first page: the number of pages, and their rule.
    ranges: BTreeMap<u32, (u32, Placement)>,
}

impl PlacementTable {
    /// Adds a range. Returns false, and changes nothing, if it is empty or overlaps another that is
    /// not the same.
    pub fn insert(&mut self, first: u32, pages: u32, rule: Placement) -> bool {
        let Some(end) = first.checked_add(pages).filter(|_| pages > 0) else { return false };
        if let Some((start, (len, known))) = self.ranges.range(..end).next_back()
            && start + len > first
        {
            return (*start, *len) == (first, pages) && *known == rule;
        }
        debug_assert!(!matches!(rule, Placement::Ranges(_)), "ranges are not nested");
        self.ranges.insert(first, (pages, rule));
        debug_assert!(self.range_of(end - 1).is_some(), "the last page has its rule");
        true
    }

    /// Returns true if both pages are in one range.
    pub fn lie_together(&self, page: u32, other: u32) -> bool {
        let range = self.range_of(page).map(|(first, ..)| first);
        range.is_some() && self.range_of(other).map(|(first, ..)| first) == range
    }

    /// Returns the first home of `page`, of a heap of `pages` pages; none if that is not known
    /// before it is written.
    pub fn home_of(&self, page: u32, pages: u32, nodes: u16) -> Option<u16> {
        debug_assert!(page < pages, "the page exists");
        match self.range_of(page) {
            Some((first, pages, rule)) => rule.home_of(page - first, pages, nodes),
            None => Placement::Cyclic.home_of(page, pages, nodes),
        }
    }

    /// Returns the first page, the number of pages and the rule of the range of `page`.
    fn range_of(&self, page: u32) -> Option<(u32, u32, &Placement)> {
        let (&first, (pages, rule)) = self.ranges.range(..=page).next_back()?;
        debug_assert!(first <= page, "ranges begin at their first page");
        (page - first < *pages).then_some((first, *pages, rule))
    }
}

impl Placement {
    /// Returns the first home of `page`, or none if that is not known before it is written.
    pub fn home_of(&self, page: u32, pages: u32, nodes: u16) -> Option<u16> {
        debug_assert!(page < pages, "the page exists");
        debug_assert!(nodes > 0, "there is a node");
        match self {
            Self::Block => Some((page / pages.div_ceil(u32::from(nodes))) as u16),
            Self::Cyclic => Some((page % u32::from(nodes)) as u16),
            Self::FirstWrite => None,
            Self::Explicit(homes) => {
                debug_assert_eq!(homes.len(), pages as usize, "every page has a home");
                Some(homes[page as usize])
            }
            Self::On(node) => {
                debug_assert!(*node < nodes, "the node is one of the job's");
                Some(*node)
            }
            Self::Ranges(table) => table.home_of(page, pages, nodes),
        }
    }
}

/// Home that a page moves to, from a barrier on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HomeMove {
    /// Page that moves.
    pub page: u32,
    /// Node that is its home so far.
    pub from: u16,
    /// Node that becomes its home.
    pub to: u16,
}

/// Writers of one page as its home sees them, from barrier to barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriterTally {
    /// Sole writer since the last barrier; several if `shared`.
    writer: Option<u16>,
    shared: bool,
    /// Sole writer of the last periods with a write, and their number.
    streak: Option<(u16, u8)>,
}

impl WriterTally {
    /// Counts a write of `node`.
    pub fn note(&mut self, node: u16) {
        self.shared |= self.writer.is_some_and(|writer| writer != node);
        self.writer = Some(node);
    }

    /// Ends a period at a barrier. Returns the node that was the sole writer of `periods`
    /// consecutive periods with a write.
    pub fn end_period(&mut self, periods: u8) -> Option<u16> {
        debug_assert!(periods > 0, "one period at least");
        debug_assert!(!self.shared || self.writer.is_some(), "several are more than none");
        let writer = self.writer.take()?;
        let shared = std::mem::take(&mut self.shared);
        let before = match self.streak {
            Some((node, count)) if node == writer => count,
            _ => 0,
        };
        self.streak = (!shared).then_some((writer, before.saturating_add(1)));
        self.streak.filter(|&(_, count)| count >= periods).map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_rules_of_their_own_and_others_go_node_by_node() {
        let mut table = PlacementTable::default();
        assert!(table.insert(10, 4, Placement::Block));
        assert!(table.insert(14, 3, Placement::On(2)));
        assert!(table.insert(20, 2, Placement::FirstWrite));
        let placement = Placement::Ranges(table);
        let home = |page| placement.home_of(page, 100, 4);
        assert_eq!((10..17).map(home).collect::<Vec<_>>(), [0, 1, 2, 3, 2, 2, 2].map(Some));
        assert_eq!((home(20), home(21)), (None, None));
        assert_eq!((home(9), home(17), home(22)), (Some(1), Some(1), Some(2)));
    }

    #[test]
    fn ranges_do_not_overlap_unless_they_are_the_same() {
        let mut table = PlacementTable::default();
        assert!(table.insert(10, 4, Placement::Block));
        assert!(table.insert(10, 4, Placement::Block), "once more");
        assert!(!table.insert(10, 4, Placement::Cyclic));
        assert!(!table.insert(9, 2, Placement::Block));
        assert!(!table.insert(13, 1, Placement::Block));
        assert!(!table.insert(0, 100, Placement::Block));
        assert!(
            !table.insert(0, 0, Placement::Block) && !table.insert(u32::MAX, 2, Placement::Block)
        );
        assert!(table.insert(9, 1, Placement::Block) && table.insert(14, 1, Placement::Block));
    }
}
