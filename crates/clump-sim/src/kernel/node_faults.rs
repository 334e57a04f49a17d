//! Random faults of a cluster whose sites are nodes of several ranks.

use super::fault::PlannedFault;
use super::plan::{BasePlan, MICROSECOND, MILLISECOND, link_changes};
use super::random::Random;

/// Cluster for which faults are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeFaults<'a> {
    /// Node of each rank, ascending.
    pub(crate) node_of: &'a [u32],
    /// Interfaces of each node.
    pub(crate) interfaces: u32,
    /// True if ranks and nodes may die.
    pub(crate) deaths: bool,
}

impl NodeFaults<'_> {
    fn ranks(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Adds random faults, until `base.heal_at`, to a plan; one in twelve gets none.
    pub(crate) fn add_to(&self, base: &mut BasePlan, random: &mut Random) {
        if random.one_in(12) {
            return; // networks without faults must work too
        }
        let nodes = self.node_of.last().map_or(0, |last| last + 1);
        let (span, ranks) = (base.heal_at, self.ranks());
        debug_assert!(nodes >= 2, "links have two ends");
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                if random.one_in(2) {
                    let link = Box::new(link_changes(random, &base.link));
                    base.faults.push((0, PlannedFault::LinkChange { from, to, both: false, link }));
                }
            }
        }
        let mut ended = 0_u64;
        for _ in 0..random.magnitude(1, 16) {
            let at = random.below(span);
            let until = at + random.below(span / 4 + 1);
            let pause = random.magnitude(MICROSECOND, span / 4 + MILLISECOND);
            let rank = random.below(u64::from(ranks)) as u32;
            let fault = match random.below(10) {
                0..3 => {
                    let from = random.below(u64::from(nodes)) as u32;
                    let to = (from + random.between(1, u64::from(nodes) - 1) as u32) % nodes;
                    let link = Box::new(link_changes(random, &base.link));
                    PlannedFault::LinkChange { from, to, both: false, link }
                }
                3 => {
                    let sites = random.below((1 << nodes) - 2) + 1;
                    base.faults.push((until, PlannedFault::Partition { sites, cut: false }));
                    PlannedFault::Partition { sites, cut: true }
                }
                4..6 => PlannedFault::Compute { rank, span: pause },
                6 => {
                    let actors = ranks + nodes * self.interfaces;
                    let actor = random.below(u64::from(actors)) as u32;
                    PlannedFault::Freeze { actor, span: pause }
                }
                _ => match self.end_of(random, (rank, span), &mut ended) {
                    Some(fault) => fault,
                    None => continue,
                },
            };
            base.faults.push((at, fault));
        }
    }

    /// Returns the end of a rank or a node, unless fewer than two ranks would stay.
    fn end_of(
        &self,
        random: &mut Random,
        (rank, span): (u32, u64),
        ended: &mut u64,
    ) -> Option<PlannedFault> {
        let known_after = random.magnitude(10 * MICROSECOND, span / 3 + MILLISECOND);
        let node = self.node_of[rank as usize];
        let whole = random.one_in(4);
        let of_node = |other: u32| self.node_of[other as usize] == node;
        let gone = |other: &u32| if whole { of_node(*other) } else { *other == rank };
        let going: u64 = (0..self.ranks()).filter(gone).map(|rank| 1 << rank).sum();
        let after = *ended | going;
        debug_assert_ne!(going, 0, "a rank, or those of its node");
        if !self.deaths || *ended & going != 0 || after.count_ones() + 2 > self.ranks() {
            return None;
        }
        *ended = after;
        Some(if whole {
            PlannedFault::LoseNode { node, known_after }
        } else {
            PlannedFault::Kill { rank, known_after }
        })
    }
}
