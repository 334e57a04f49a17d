//! Pages that were asked for ahead of a rank that reads one behind the other.

use clump_hlrc::Sequence;
use std::collections::HashSet;
use std::ops::Range;

/// Read-ahead of one rank.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    sequence: Sequence,
    /// Pages asked for that have not come.
    under_way: HashSet<u32>,
}

impl ReadAhead {
    /// Takes in a fault of a read. Returns the pages to ask for.
    pub(crate) fn on_fault(&mut self, page: u32) -> Range<u32> {
        self.sequence.on_fault(page)
    }

    /// Notes that a page was asked for.
    pub(crate) fn note(&mut self, page: u32) {
        self.under_way.insert(page);
    }

    /// Returns true if a page was asked for and has not come.
    pub(crate) fn awaits(&self, page: u32) -> bool {
        self.under_way.contains(&page)
    }

    /// Takes in that a page has come.
    pub(crate) fn on_page(&mut self, page: u32) {
        self.under_way.remove(&page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_under_way_is_asked_for_once() {
        let mut ahead = ReadAhead::default();
        ahead.note(5);
        assert!(ahead.awaits(5) && !ahead.awaits(6));
        ahead.on_page(5);
        assert!(!ahead.awaits(5));
    }
}
