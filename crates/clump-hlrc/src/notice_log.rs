//! The log of write notices of one node: intervals of all nodes, in the order of each.

use std::collections::{BTreeMap, VecDeque};

use crate::interval::Interval;
use crate::vector_time::VectorTime;

/// Consecutive intervals of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct WriterLog {
    /// Last interval that has been discarded.
    floor: u32,
    /// Intervals `floor + 1`, `floor + 2`, and so on.
    intervals: VecDeque<Interval>,
    /// Intervals that came before an earlier one did.
    early: BTreeMap<u32, Interval>,
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
        let node = interval.node;
        log.early.insert(interval.number, interval);
        while let Some(next) = log.early.remove(&(log.last() + 1)) {
            log.intervals.push_back(next);
        }
        let last = log.last();
        debug_assert!(last >= before, "what is known stays so");
        debug_assert!(log.early.keys().all(|&number| number > last + 1), "early means a gap");
        self.known.raise(node, last);
        last > before
    }

    /// Returns the intervals of `node` behind `after`, up to `until`, that are kept.
    pub fn between(&self, node: u16, after: u32, until: u32) -> impl Iterator<Item = &Interval> {
        let log = &self.writers[node as usize];
        debug_assert!(until <= log.last(), "intervals are applied once they are known");
        let skipped = after.saturating_sub(log.floor) as usize;
        log.intervals.iter().skip(skipped).take_while(move |interval| interval.number <= until)
    }

    /// Returns the intervals that are known without a gap and of nodes that had not passed more
    /// than `epoch` barriers.
    pub fn known_within(&self, epoch: u32) -> VectorTime {
        let mut within = VectorTime::zero(self.writers.len());
        for (node, log) in (0..).zip(&self.writers) {
            let kept = log.intervals.partition_point(|interval| interval.epoch <= epoch);
            within.raise(node, log.floor + kept as u32);
        }
        debug_assert!(self.known.covers(&within), "a part of what is known");
        debug_assert_eq!(within.nodes(), self.known.nodes());
        within
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
            let Some(oldest) = log.intervals.pop_front() else { break };
            debug_assert!(self.notices >= oldest.pages.len(), "notices are counted");
            self.notices -= oldest.pages.len();
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
            let intervals = log.intervals.iter().chain(log.early.values());
            kept += intervals.map(|interval| interval.pages.len()).sum::<usize>();
        }
        assert_eq!(kept, self.notices, "notices are counted");
    }
}
