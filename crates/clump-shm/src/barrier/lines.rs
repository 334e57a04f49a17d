//! Lines that the ranks of a node share in barriers: one for each of them, one for each node of the
//! job, and the number of sleepers.

use crate::job::BarrierLine;
use crate::rank::ArrivalLine;
use crate::shared::{Shared, SharedSlice};
use clump_os::sync::{AtomicU32, AtomicU64, Ordering, Site, order};

/// The lines in shared memory, and the only code that reads and writes them.
///
/// - The line of a rank of this node: the last barrier that it arrived at. Written by that rank.
///   Lines are those of this node's ranks from its lowest on, here by their place among them.
/// - The line of another node: the last barrier whose completion that node announced. Written by
///   this node's first rank.
/// - The line of this node: the rounds that its ranks have claimed ([`Lines::claim`]).
#[derive(Debug, Clone)]
pub struct Lines {
    ranks: SharedSlice<ArrivalLine>,
    nodes: SharedSlice<ArrivalLine>,
    sleepers: Shared<BarrierLine>,
}

/// Bits of a node's own line that hold the rounds claimed; the number of the barrier is above.
const ROUND_BITS: u32 = 8;

impl Lines {
    #[cfg_attr(loom, allow(dead_code, reason = "models have no node memory"))]
    pub(crate) fn new(
        ranks: SharedSlice<ArrivalLine>,
        nodes: SharedSlice<ArrivalLine>,
        sleepers: Shared<BarrierLine>,
    ) -> Self {
        debug_assert!(!ranks.is_empty(), "this node has ranks");
        debug_assert!(!nodes.is_empty(), "this node has a line");
        Self { ranks, nodes, sleepers }
    }

    /// Lines of this process alone, for models and tests.
    pub fn private(ranks: usize, nodes: usize) -> Self {
        let line = |_| ArrivalLine { epoch: AtomicU64::new(0) };
        let lines = |n: usize| SharedSlice::private((0..n).map(line).collect());
        let sleepers = Shared::private(BarrierLine { asleep: AtomicU32::new(0) });
        Self { ranks: lines(ranks), nodes: lines(nodes), sleepers }
    }

    /// Returns the number of lines: of ranks of this node, of nodes.
    pub fn size(&self) -> (usize, usize) {
        (self.ranks.len(), self.nodes.len())
    }

    /// Records that `rank` arrives at barrier `epoch`.
    #[inline]
    pub(crate) fn arrive(&self, rank: usize, epoch: u64) {
        debug_assert!(epoch != 0, "barriers are numbered from 1");
        // SYNC 7: pairs with arrived
        let release = order(Site::BarrierArrive, Ordering::Release);
        self.ranks[rank].epoch.store(epoch, release);
    }

    /// Returns the last barrier at which `rank` is recorded to have arrived.
    #[inline]
    pub(crate) fn arrived(&self, rank: usize) -> u64 {
        // SYNC 7: pairs with arrive
        self.ranks[rank].epoch.load(Ordering::Acquire)
    }

    /// Records a message of node `node`: all ranks that it speaks for arrived at `epoch`. Messages
    /// may overtake each other. A rank that arrived at a barrier has arrived at all before it, so
    /// the highest number counts.
    pub(crate) fn record_arrival(&self, node: usize, epoch: u64) {
        // SYNC 9: pairs with last_arrival_of
        let release = order(Site::BarrierArrive, Ordering::Release);
        self.nodes[node].epoch.fetch_max(epoch, release);
    }

    /// Returns the last barrier whose completion `node` announced to this one.
    #[inline]
    pub(crate) fn last_arrival_of(&self, node: usize) -> u64 {
        // SYNC 9: pairs with record_arrival
        self.nodes[node].epoch.load(Ordering::Acquire)
    }

    /// Claims the messages of `round` of barrier `epoch` for node `own`: true for one rank of the
    /// node, false for all others.
    ///
    /// The claiming rank has itself seen what the messages say, so this word publishes nothing: it
    /// only has to change once.
    pub(crate) fn claim(&self, own: usize, epoch: u64, round: usize) -> bool {
        debug_assert!(round + 1 < 1 << ROUND_BITS, "a round does not reach into the epoch");
        debug_assert!(epoch != 0 && epoch < 1 << (u64::BITS - ROUND_BITS), "an epoch stays whole");
        let line = &self.nodes[own].epoch;
        let mine = epoch << ROUND_BITS | (round as u64 + 1);
        let mut found = line.load(Ordering::Relaxed);
        while found < mine {
            match line.compare_exchange(found, mine, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(newer) => found = newer,
            }
        }
        false
    }

    /// Returns true if a rank sleeps in a barrier. To be called after arriving or receiving a
    /// message, and a light fence.
    #[inline]
    pub(crate) fn anyone_asleep(&self) -> bool {
        self.sleepers.asleep.load(Ordering::Relaxed) != 0
    }

    /// Counts a sleeper. To be called before it announces itself to its park, whose fence orders
    /// this too.
    pub(crate) fn announce_sleep(&self) {
        self.sleepers.asleep.fetch_add(1, Ordering::SeqCst);
    }

    /// Withdraws the announcement.
    pub(crate) fn awake(&self) {
        self.sleepers.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_claimed_once_and_in_any_later_barrier_again() {
        let lines = Lines::private(2, 3);
        for epoch in 1..4 {
            for round in 0..2 {
                assert!(lines.claim(1, epoch, round));
                assert!(!lines.claim(1, epoch, round), "somebody else has it");
            }
            assert!(!lines.claim(1, epoch, 0), "an earlier round was claimed before");
        }
    }

    #[test]
    fn what_arrives_late_takes_nothing_back() {
        let lines = Lines::private(2, 2);
        for epoch in [2, 1, 3, 3] {
            lines.record_arrival(1, epoch);
        }
        assert_eq!(lines.last_arrival_of(1), 3);
    }
}
