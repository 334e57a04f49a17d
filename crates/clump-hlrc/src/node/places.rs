//! Homes of ranges of pages: rules that are published to all nodes, by every rank or by one.

use crate::message::{Action, NodeMessage, RangeRule, RankWait};
use crate::node::NodeState;
use crate::placement::Placement;

impl From<RangeRule> for Placement {
    fn from(rule: RangeRule) -> Self {
        match rule {
            RangeRule::Block => Self::Block,
            RangeRule::Cyclic => Self::Cyclic,
            RangeRule::FirstWrite => Self::FirstWrite,
            RangeRule::On(node) => Self::On(node),
        }
    }
}

impl<P> NodeState<P> {
    /// Gives unused pages a rule for their homes; all nodes give them the same.
    /// Returns false, and changes nothing, if pages do not exist, have another rule, or homes are
    /// not determined by ranges ([`Placement::Ranges`]).
    pub fn place(&mut self, first: u32, pages: u32, rule: Placement) -> bool {
        let exist = first.checked_add(pages).is_some_and(|end| end <= self.config.pages);
        let known = match rule {
            Placement::On(node) => node < self.config.nodes,
            Placement::Ranges(_) | Placement::Explicit(_) => false,
            Placement::Block | Placement::Cyclic | Placement::FirstWrite => true,
        };
        debug_assert!(self.loopback.is_empty(), "events are complete before the next");
        let placed = match &mut self.config.placement {
            Placement::Ranges(table) if exist && known => table.insert(first, pages, rule),
            _ => false,
        };
        if placed {
            self.change(first..first + pages);
        }
        placed
    }

    /// Returns true if all nodes have the home of `other` because `page` is in use: both have one
    /// rule.
    pub fn lie_together(&self, page: u32, other: u32) -> bool {
        debug_assert!(page < self.config.pages, "the page exists");
        match &self.config.placement {
            Placement::Ranges(table) => table.lie_together(page, other),
            _ => other < self.config.pages,
        }
    }

    /// Gives pages a rule for one rank, which continues once all nodes have stored it. Returns
    /// false, and changes nothing, where [`NodeState::place`] would.
    pub fn place_for(&mut self, rank: u16, first: u32, pages: u32, rule: RangeRule) -> bool {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        let known = match rule {
            RangeRule::On(node) => node < self.config.nodes,
            RangeRule::Block | RangeRule::Cyclic | RangeRule::FirstWrite => true,
        };
        debug_assert!(known, "the node is one of the job's");
        if self.placing.contains_key(&first) || !self.place(first, pages, rule.into()) {
            return false;
        }
        let others = self.config.nodes - 1;
        if others == 0 {
            self.actions.push_back(Action::Resume { rank, wait: RankWait::Place(first) });
            return true;
        }
        self.placing.insert(first, (rank, others));
        let node = self.config.node;
        for to in (0..self.config.nodes).filter(|&to| to != node) {
            self.send(to, NodeMessage::Place { first, pages, rule });
        }
        debug_assert!(self.loopback.is_empty(), "this node has the rule");
        true
    }

    /// Takes a rule of another node. It agrees with the stored rule, or one of both is wrong: then
    /// the stored rule stays.
    pub(super) fn on_place(&mut self, from: u16, first: u32, pages: u32, rule: RangeRule) {
        self.place(first, pages, rule.into());
        debug_assert_ne!(from, self.config.node, "the other node has the rule");
        self.send(from, NodeMessage::Placed { first });
    }

    /// Counts a node that has stored a rule.
    pub(super) fn on_placed(&mut self, first: u32) {
        let Some((rank, missing)) = self.placing.get_mut(&first) else {
            clump_bug::bug!("an answer to a request");
            return;
        };
        debug_assert!(*missing > 0, "a node answers once");
        *missing -= 1;
        if *missing == 0 {
            let rank = *rank;
            self.placing.remove(&first);
            self.actions.push_back(Action::Resume { rank, wait: RankWait::Place(first) });
        }
    }
}
