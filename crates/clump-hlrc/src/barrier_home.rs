//! Barriers at their homes: arrivals, the merged time, and homes that move.

use crate::placement::HomeMove;
use crate::vector_time::VectorTime;

/// Merged result of a barrier, for every node that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BarrierEnd {
    /// Nodes to notify.
    pub nodes: Vec<u16>,
    /// Time at which all ranks continue.
    pub time: VectorTime,
    /// Homes that move, in the order of pages.
    pub moves: Vec<HomeMove>,
}

/// Arrivals of one turn of a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BarrierHome {
    arrived: u32,
    nodes: Vec<u16>,
    time: VectorTime,
    moves: Vec<HomeMove>,
}

impl BarrierHome {
    /// Returns a barrier without arrivals.
    pub fn new(nodes: usize) -> Self {
        let time = VectorTime::zero(nodes);
        Self { arrived: 0, nodes: Vec::new(), time, moves: Vec::new() }
    }

    /// Handles the arrival of `count` ranks of `node`. Returns the end of the turn with the last of
    /// `members` ranks; the next turn may begin.
    pub fn handle_arrival(
        &mut self,
        node: u16,
        count: u32,
        members: u32,
        time: &VectorTime,
        moves: &[HomeMove],
    ) -> Option<BarrierEnd> {
        debug_assert!(count > 0 && self.arrived + count <= members, "each member arrives once");
        debug_assert!(moves.iter().all(|moved| moved.from == node), "the old home decides");
        self.arrived += count;
        self.time.join(time);
        self.moves.extend_from_slice(moves);
        if !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
        if self.arrived < members {
            return None;
        }
        let mut moves = std::mem::take(&mut self.moves);
        moves.sort_by_key(|moved| moved.page);
        debug_assert!(moves.is_sorted_by(|a, b| a.page < b.page), "a page has one home");
        self.arrived = 0;
        Some(BarrierEnd { nodes: std::mem::take(&mut self.nodes), time: self.time.clone(), moves })
    }
}
