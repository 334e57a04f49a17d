//! Barriers: everything is published, times are merged, and homes move behind those of all ranks.

use crate::barrier_home::{BarrierEnd, BarrierHome};
use crate::message::{Action, NodeMessage, RankWait};
use crate::node::{NodeState, Pending};
use crate::placement::HomeMove;
use crate::vector_time::VectorTime;

impl<P> NodeState<P> {
    /// Returns the number of ranks of the job.
    fn all_ranks(&self) -> u32 {
        debug_assert!(self.config.all_ranks >= u32::from(self.config.ranks), "this node's, too");
        self.config.all_ranks
    }

    /// Returns the number of barriers of all ranks that this node has passed, and the time of the
    /// last, which is the same at all nodes.
    pub fn last_barrier(&self) -> (u32, &VectorTime) {
        (self.epoch, &self.last_barrier)
    }

    /// Returns true if this node has nothing that others lack since the last barrier of all ranks,
    /// and has seen nothing of others since. If that is so at all nodes, and all writes of ranks
    /// are reported to their node, then a barrier by [`NodeState::arrive`] would change nothing.
    pub fn is_unchanged(&self) -> bool {
        let written = self.ranks.iter().any(|rank| !rank.written().is_empty());
        !written && self.unpublished.is_empty() && self.seen == self.last_barrier
    }

    /// Handles a rank that arrives at a barrier of `members` ranks of the job. The last of a node
    /// sends the arrival for all of them if the barrier is one of all ranks.
    pub fn arrive(&mut self, rank: u16, barrier: u64, members: u32) {
        let everybody = self.all_ranks();
        debug_assert!((1..=everybody).contains(&members), "members are ranks");
        self.end_section(rank);
        let here = self.barrier_ranks.entry(barrier).or_default();
        debug_assert!(!here.contains(&rank), "a rank arrives once");
        here.push(rank);
        let arrived = here.len();
        let keeper = self.keeper(barrier);
        if members < everybody {
            self.publish();
            let (count, time, moves) = (1, self.release_time(rank), Vec::new());
            self.send(keeper, NodeMessage::Arrive { barrier, count, members, time, moves });
        } else if arrived == usize::from(self.config.ranks) {
            self.publish();
            let (count, time) = (u32::from(self.config.ranks), self.seen.clone());
            let moves = self.choose_moves();
            self.send(keeper, NodeMessage::Arrive { barrier, count, members, time, moves });
        }
        self.drain_loopback();
    }

    /// Takes arrivals, as the barrier's home. `counts` are ranks that arrived, and members.
    pub(super) fn on_arrive(
        &mut self,
        from: u16,
        barrier: u64,
        counts: (u32, u32),
        time: &VectorTime,
        moves: &[HomeMove],
    ) {
        debug_assert_eq!(self.keeper(barrier), self.config.node, "a barrier has one home");
        let nodes = usize::from(self.config.nodes);
        let home = self.barrier_homes.entry(barrier).or_insert_with(|| BarrierHome::new(nodes));
        let end = home.handle_arrival(from, counts.0, counts.1, time, moves);
        let Some(BarrierEnd { nodes, time, moves }) = end else { return };
        let everybody = counts.1 == self.all_ranks();
        debug_assert!(nodes.contains(&from), "the last is among them");
        for to in nodes {
            let (time, moves) = (time.clone(), moves.clone());
            self.send(to, NodeMessage::Depart { barrier, everybody, time, moves });
        }
    }

    /// Takes the end of a barrier.
    pub(super) fn on_depart(
        &mut self,
        barrier: u64,
        everybody: bool,
        time: VectorTime,
        moves: Vec<HomeMove>,
    ) {
        let ranks = self.barrier_ranks.remove(&barrier).unwrap_or_default();
        debug_assert!(!ranks.is_empty(), "somebody arrived");
        debug_assert!(ranks.len() <= usize::from(self.config.ranks));
        self.wait_for_notices(Pending::Depart { barrier, everybody, ranks, time, moves });
    }

    /// Moves homes and continues ranks, which have applied all notices.
    pub(super) fn depart(
        &mut self,
        (barrier, everybody): (u64, bool),
        ranks: Vec<u16>,
        time: &VectorTime,
        moves: &[HomeMove],
    ) {
        debug_assert!(!everybody || ranks.len() == usize::from(self.config.ranks));
        debug_assert!(everybody || moves.is_empty(), "homes move while all ranks wait");
        debug_assert!(ranks.iter().all(|&r| self.ranks[usize::from(r)].time().covers(time)));
        if everybody {
            self.note_barrier(time);
            (self.handover.barrier, self.handover.ranks) = (barrier, ranks);
            self.move_homes(moves);
            self.end_handover();
        } else {
            self.resume_from(barrier, ranks);
        }
    }

    /// Continues ranks behind a barrier.
    fn resume_from(&mut self, barrier: u64, ranks: Vec<u16>) {
        debug_assert!(ranks.iter().all(|&rank| rank < self.config.ranks), "ranks of this node");
        let wait = RankWait::Barrier(barrier);
        self.actions.extend(ranks.into_iter().map(|rank| Action::Resume { rank, wait }));
    }

    /// Continues the ranks of a barrier once no page moves here, and takes diffs of nodes that have
    /// continued before.
    pub(super) fn end_handover(&mut self) {
        let moving = !self.handover.outgoing.is_empty() || !self.handover.incoming.is_empty();
        if moving || self.handover.ranks.is_empty() {
            return;
        }
        let ranks = std::mem::take(&mut self.handover.ranks);
        debug_assert_eq!(ranks.len(), usize::from(self.config.ranks), "no rank is left behind");
        debug_assert!(self.unpublished.is_empty(), "everything was published before");
        self.resume_from(self.handover.barrier, ranks);
        self.epoch += 1;
        self.retry_pending();
        self.bound_log();
    }
}
