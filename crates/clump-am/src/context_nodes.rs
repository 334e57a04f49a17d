//! The nodes of the job as programs see them: in virtual time those of the machine that need not
//! exist, although all of them are parts of one.

use crate::context::RankContext;
use clump_os::virtual_thread;
use clump_shm::export::{SegmentName, SegmentOwner};
use clump_shm::virtual_time::Actor;
use std::ops::Range;

/// Returns the clock of a rank, where time is virtual and this thread is the one that has it.
pub fn own_actor(context: &RankContext) -> Option<&'static Actor> {
    context.actor().filter(|_| virtual_thread::is_virtual())
}

impl RankContext {
    /// Returns the number of nodes.
    pub fn nnodes(&self) -> u32 {
        self.actor().map_or_else(|| self.node().nnodes(), |actor| actor.nodes())
    }

    /// Returns the number of this rank's node.
    pub fn node_number(&self) -> u32 {
        let node = self.actor().map_or_else(|| self.node().node(), |actor| actor.node());
        debug_assert!(node < self.nnodes(), "a node of the job");
        node
    }

    /// Returns the number of a rank's node.
    pub fn node_of(&self, rank: u32) -> u32 {
        let known = self.actor().and_then(|actor| actor.node_of(rank));
        let node = known.unwrap_or_else(|| self.node().node_of(rank));
        debug_assert!(known.is_none() || node < self.nnodes(), "a virtual node");
        node
    }

    /// Returns true if a rank is of this rank's node.
    pub fn is_near(&self, rank: u32) -> bool {
        let near = match self.actor() {
            Some(actor) => actor.node_of(rank) == Some(actor.node()),
            None => self.node().is_local(rank),
        };
        debug_assert!(near || rank != self.rank(), "a rank is near itself");
        near
    }

    /// Returns the ranks of a node.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        debug_assert!(node < self.nnodes(), "a node of the job");
        let ranks = match self.actor() {
            Some(actor) => actor.ranks_of(node),
            None => self.node().rank_map().ranks_of(node),
        };
        debug_assert!(ranks.start < ranks.end, "each node has a rank");
        ranks
    }

    /// Returns the number of the node that has the memory of that name.
    pub fn home_of(&self, name: SegmentName) -> u32 {
        let home = match (self.actor(), name.owner()) {
            (Some(_), SegmentOwner::Rank(rank)) => self.node_of(rank),
            _ => self.node().home_of(name),
        };
        debug_assert!(self.actor().is_none() || home < self.nnodes(), "a virtual node");
        home
    }
}
