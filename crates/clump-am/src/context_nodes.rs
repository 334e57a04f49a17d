//! The nodes of the job as programs see them: in virtual time those of the machine that need not
//! exist, although all of them are parts of one.

use crate::context::RankContext;
use clump_shm::export::{SegmentName, SegmentOwner};
use clump_shm::virtual_time::Actor;
use std::ops::Range;

impl RankContext {
    /// Returns the number of nodes.
    pub fn nnodes(&self) -> u32 {
        self.actor().map_or_else(|| self.node().nnodes(), Actor::nodes)
    }

    /// Returns the number of this rank's node.
    pub fn node_number(&self) -> u32 {
        self.actor().map_or_else(|| self.node().node(), Actor::node)
    }

    /// Returns the number of a rank's node.
    pub fn node_of(&self, rank: u32) -> u32 {
        let known = self.actor().and_then(|actor| actor.node_of(rank));
        known.unwrap_or_else(|| self.node().node_of(rank))
    }

    /// Returns true if a rank is of this rank's node.
    pub fn is_near(&self, rank: u32) -> bool {
        match self.actor() {
            Some(actor) => actor.node_of(rank) == Some(actor.node()),
            None => self.node().is_local(rank),
        }
    }

    /// Returns the ranks of a node.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        debug_assert!(node < self.nnodes(), "a node of the job");
        match self.actor() {
            Some(actor) => actor.ranks_of(node),
            None => self.node().rank_map().ranks_of(node),
        }
    }

    /// Returns the number of the node that has the memory of that name.
    pub fn home_of(&self, name: SegmentName) -> u32 {
        match (self.actor(), name.owner()) {
            (Some(_), SegmentOwner::Rank(rank)) => self.node_of(rank),
            _ => self.node().home_of(name),
        }
    }
}
