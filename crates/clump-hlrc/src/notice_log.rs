//! The log of write notices of one node: intervals of all nodes, in the order of each.

use std::collections::{BTreeMap, VecDeque};

use crate::interval::Interval;
use crate::vector_time::VectorTime;

/// Consecutive intervals of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct WriterLog {
    /// Last interval that has been discarded.
    floor: u32,
    /// Pages of the intervals `floor + 1`, `floor + 2`, and so on.
    intervals: VecDeque<Box<[u32]>>,
    /// Intervals that came before an earlier one did.
    early: BTreeMap<u32, Box<[u32]>>,
}

impl WriterLog {
    fn last(&self) -> u32 {
        self.floor + self.intervals.len() as u32
    }
}

/// Intervals of all nodes, each from the last that was discarded to the last known without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoticeLog {
    writers: Vec<WriterLog>,
    notices: usize,
    known: VectorTime,
}

impl NoticeLog {
    /// Returns an empty log of a job of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        let known = VectorTime::zero(nodes);
        Self { writers: vec![WriterLog::default(); nodes], notices: 0, known }
    }

    /// Returns the intervals that are known without a gap.
    pub fn known(&self) -> &VectorTime {
        &self.known
    }

    /// Returns the notices kept, those that came early among them.
    pub fn notices(&self) -> usize {
        self.notices
    }

    /// Adds an interval. Returns true if more is known without a gap; one that is known already
    /// changes nothing.
    pub fn insert(&mut self, interval: Interval) -> bool {
        let log = &mut self.writers[interval.node as usize];
        let before = log.last();
        if interval.number <= before || log.early.contains_key(&interval.number) {
            return false;
        }
        self.notices += interval.pages.len();
        log.early.insert(interval.number, interval.pages);
        while let Some(pages) = log.early.remove(&(log.last() + 1)) {
            log.intervals.push_back(pages);
        }
        let last = log.last();
        debug_assert!(last >= before, "what is known stays so");
        debug_assert!(log.early.keys().all(|&number| number > last + 1), "early means a gap");
        self.known.raise(interval.node, last);
        last > before
    }

    /// Returns the intervals of `node` behind `after`, up to `until`, that are kept.
    pub fn between(
        &self,
        node: u16,
        after: u32,
        until: u32,
    ) -> impl Iterator<Item = (u32, &[u32])> {
        let log = &self.writers[node as usize];
        debug_assert!(until <= log.last(), "intervals are applied once they are known");
        let skipped = after.saturating_sub(log.floor) as usize;
        let first = log.floor + 1 + skipped as u32;
        let pages = log.intervals.iter().skip(skipped);
        (first..).zip(pages.map(|pages| &pages[..])).take_while(move |(at, _)| *at <= until)
    }

    /// Returns the last interval of `node` that has been discarded.
    pub fn floor(&self, node: u16) -> u32 {
        self.writers[node as usize].floor
    }

    /// Discards the intervals of `node` up to `until`.
    pub fn discard(&mut self, node: u16, until: u32) {
        let log = &mut self.writers[node as usize];
        debug_assert!(until <= log.last(), "only what is known is discarded");
        while log.floor < until {
            let Some(pages) = log.intervals.pop_front() else { break };
            debug_assert!(self.notices >= pages.len(), "notices are counted");
            self.notices -= pages.len();
            log.floor += 1;
        }
        debug_assert!(log.floor >= until, "nothing older is left");
    }

    /// Asserts what holds at any time.
    pub fn check_invariants(&self) {
        let mut kept = 0;
        for (node, log) in self.writers.iter().enumerate() {
            assert_eq!(self.known.get(node as u16), log.last(), "known is the end of each log");
            assert!(log.early.keys().all(|&number| number > log.last() + 1), "early means a gap");
            kept += log.intervals.iter().chain(log.early.values()).map(|p| p.len()).sum::<usize>();
        }
        assert_eq!(kept, self.notices, "notices are counted");
    }
}
