//! Ends of ranks that agents of other nodes are to mirror, gathered so that few commands tell them.
//!
//! A command goes to every agent, so each costs the launcher time for every node. The first end
//! after a quiet time is sent at once, further ones at most once in [`SPACING_NS`] for each node:
//! that leaves the launcher half its time, and an agent as few commands as the time is short.

use crate::event::FinalizedRanks;
use std::collections::BTreeMap;

/// Time from one command to the next, for each node: about twice what it takes to send one.
pub(crate) const SPACING_NS: u64 = 10_000;

/// Ends to be mirrored.
#[derive(Debug)]
pub(crate) struct MirrorBatch {
    /// True for ranks whose end has been sent, or waits to be.
    known: Vec<bool>,
    /// Last barrier of the ranks that wait.
    waiting: BTreeMap<u32, u64>,
    spacing_ns: u64,
    /// Time before which nothing more is sent.
    next_ns: u64,
}

impl MirrorBatch {
    /// Creates the batch of a job of so many ranks on so many nodes.
    pub(crate) fn new(ranks: u32, nodes: usize) -> Self {
        let spacing_ns = SPACING_NS.saturating_mul(nodes as u64);
        let known = vec![false; ranks as usize];
        Self { known, waiting: BTreeMap::new(), spacing_ns, next_ns: 0 }
    }

    /// Records that a rank finalized after this barrier. One that is known has no effect.
    pub(crate) fn handle_finalized(&mut self, rank: u32, barrier: u64) {
        if self.known.get_mut(rank as usize).is_some_and(|known| !std::mem::replace(known, true)) {
            self.waiting.insert(rank, barrier);
        }
        debug_assert!(self.waiting.len() <= self.known.len(), "ranks of the job wait");
    }

    /// Returns the time for the next command, if there is something to tell.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.next_ns)
    }

    /// Returns what to tell if it is due.
    pub(crate) fn poll_due(&mut self, now_ns: u64) -> Option<Vec<FinalizedRanks>> {
        let due = self.next_deadline_ns().is_some_and(|at| at <= now_ns);
        if !due {
            return None;
        }
        debug_assert!(self.next_ns <= now_ns, "the last command is long enough ago");
        self.next_ns = now_ns.saturating_add(self.spacing_ns);
        self.poll_all()
    }

    /// Returns all that there is to tell: a command follows that must not overtake it.
    pub(crate) fn poll_all(&mut self) -> Option<Vec<FinalizedRanks>> {
        let mut all: Vec<FinalizedRanks> = Vec::new();
        for (rank, barrier) in std::mem::take(&mut self.waiting) {
            match all.last_mut() {
                Some(last) if (last.ranks.end, last.barrier) == (rank, barrier) => {
                    last.ranks.end += 1;
                }
                _ => all.push(FinalizedRanks { ranks: rank..rank + 1, barrier }),
            }
        }
        debug_assert!(all.windows(2).all(|pair| pair[0].ranks.end <= pair[1].ranks.start));
        (!all.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_is_told_at_once_and_further_ones_together_and_once() {
        let mut batch = MirrorBatch::new(8, 100);
        batch.handle_finalized(3, 7);
        assert_eq!(batch.poll_due(50), Some(vec![FinalizedRanks { ranks: 3..4, barrier: 7 }]));
        for rank in [6, 1, 3, 2, 0, 9] {
            batch.handle_finalized(rank, if rank == 2 { 6 } else { 7 });
        }
        let at = batch.next_deadline_ns().unwrap();
        assert_eq!(at, 50 + 100 * SPACING_NS);
        assert_eq!(batch.poll_due(at - 1), None);
        let of = |ranks, barrier| FinalizedRanks { ranks, barrier };
        assert_eq!(batch.poll_due(at), Some(vec![of(0..2, 7), of(2..3, 6), of(6..7, 7)]));
        assert_eq!((batch.poll_all(), batch.next_deadline_ns()), (None, None));
    }
}
