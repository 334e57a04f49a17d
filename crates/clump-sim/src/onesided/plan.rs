//! The plan that a seed makes for a cluster whose ranks use each other's memory.

use crate::kernel::{
    BasePlan, LinkFaults, MICROSECOND, MILLISECOND, NodeFaults, Random, SECOND, Time, channel, port,
};
use clump_wire::Security;

/// Transport of ranks' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkMode {
    /// Each rank drives a stack of its own.
    Direct,
    /// The proxies of its node carry its messages.
    Proxies,
}

impl NetworkMode {
    /// Returns the subcommand and options of `soak` that run it.
    pub(super) fn task(self) -> &'static str {
        match self {
            Self::Direct => "one-sided --ni direct ",
            Self::Proxies => "one-sided --ni proxy ",
        }
    }
}

/// A simulated cluster: ranks, network, programs and faults.
#[derive(Debug, Clone)]
pub struct OneSidedPlan {
    /// Network, clocks and faults; a socket for each rank, and behind them for each interface.
    pub base: BasePlan,
    /// Node of each rank, ascending.
    pub node_of: Vec<u32>,
    /// Proxies of each node; 0: ranks drive stacks of their own.
    pub proxies: u32,
    /// Time for which a proxy that finds nothing keeps polling before it sleeps.
    pub spin: Time,
    /// Mean time between two operations of a rank.
    pub think: Time,
    /// Longest time for which a lock is held.
    pub hold: Time,
    /// The rank whose lock most requests are for, if there is one.
    pub wanted: Option<u32>,
    /// True if additions that ranks collect travel over the grid of nodes.
    pub uses_grid: bool,
    /// True if proxies combine the additions that ranks of their node collect.
    pub combines: bool,
}

/// Size of a cluster where the seed is not to choose it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OneSidedSize {
    /// Nodes.
    pub nodes: Option<u32>,
    /// Ranks; at least one for each node.
    pub ranks: Option<u32>,
    /// True if each rank has a node of its own; overrides `nodes`.
    pub node_for_each_rank: bool,
    /// Time at which faults end.
    pub span: Option<Time>,
}

impl OneSidedPlan {
    /// Creates the plan of a seed, which also chooses the transport.
    pub fn new(seed: u64) -> Self {
        let by_proxies = Random::new(!seed).one_in(2);
        Self::by(if by_proxies { NetworkMode::Proxies } else { NetworkMode::Direct }, seed)
    }

    /// Creates the plan of a seed with the given transport.
    pub fn by(way: NetworkMode, seed: u64) -> Self {
        Self::sized(way, seed, &OneSidedSize::default())
    }

    /// Creates the plan of a seed with the given transport, of the size that is given.
    pub fn sized(way: NetworkMode, seed: u64, size: &OneSidedSize) -> Self {
        let mut random = Random::new(seed ^ 0x7072_6f78);
        let (proxies, spin) = match way {
            NetworkMode::Direct => (0, 0),
            NetworkMode::Proxies => {
                (if random.one_in(4) { 2 } else { 1 }, random.below(40 * MICROSECOND))
            }
        };
        let mut random = Random::new(seed ^ 0x6f6e_6573_6964_6564);
        let drawn = random.between(2, 4);
        let nodes = size.nodes.map_or(drawn, u64::from);
        let drawn = random.between(drawn, 8);
        let ranks = size.ranks.map_or(drawn, u64::from).max(nodes) as usize;
        let nodes = if size.node_for_each_rank { ranks } else { nodes as usize };
        let node_of = (0..ranks).map(|rank| (rank * nodes / ranks) as u32).collect();
        let datagram = *random.pick(&[1472, 1472, 8972, 65507]);
        let drawn = random.magnitude(5 * MILLISECOND, 2 * SECOND);
        let span = size.span.unwrap_or(drawn);
        let delay = random.magnitude(MICROSECOND, 1 + span / 1000).min(2 * MILLISECOND);
        let mut link = LinkFaults::clean(delay, datagram);
        if random.one_in(4) {
            link.jitter = random.magnitude(MICROSECOND, 4 * delay);
        }
        let mut port = port(&mut random, datagram, span);
        port.rate = port.rate.max(20_000_000);
        let actors = ranks + nodes * proxies.max(1) as usize;
        let security = if random.one_in(6) { Security::Aead } else { Security::Crc };
        let channel = channel(&mut random);
        let turn = random.magnitude(300, 5 * MICROSECOND);
        let think = span / random.between(30, 200);
        let hold = random.magnitude(MICROSECOND, 1 + span / 20);
        let clocks = (0..actors).map(|_| random.below(1 << 40)).collect();
        let faults = Vec::new();
        let base =
            BasePlan { seed, security, channel, port, link, turn, clocks, faults, heal_at: span };
        let mut ways = Random::new(seed ^ 0x6772_6964);
        let (uses_grid, combines) = (ways.one_in(2), proxies > 0 && ways.one_in(2));
        let mut plan =
            Self { base, node_of, proxies, spin, think, hold, wanted: None, uses_grid, combines };
        let mut wants = Random::new(seed ^ 0x7761_6e74_6564);
        plan.wanted = wants.one_in(3).then(|| wants.below(ranks as u64) as u32);
        if way == NetworkMode::Proxies {
            plan.share_clocks();
        }
        let (node_of, interfaces) = (plan.node_of.clone(), plan.interfaces());
        NodeFaults { node_of: &node_of, interfaces, deaths: true }
            .add_to(&mut plan.base, &mut random);
        plan.base.close();
        plan
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.node_of.last().map_or(0, |last| last + 1)
    }

    /// Interfaces of a node.
    pub fn interfaces(&self) -> u32 {
        self.proxies.max(1)
    }

    /// Returns the transport.
    pub fn network_mode(&self) -> NetworkMode {
        if self.proxies == 0 { NetworkMode::Direct } else { NetworkMode::Proxies }
    }

    /// Gives ranks and proxies of a node one clock: messages carry its time.
    fn share_clocks(&mut self) {
        let (ranks, each) = (self.node_of.len(), self.interfaces() as usize);
        let (of_ranks, of_interfaces) = self.base.clocks.split_at_mut(ranks);
        for own in of_interfaces.chunks_mut(each) {
            own.fill(own[0]);
        }
        for (clock, &node) in of_ranks.iter_mut().zip(&self.node_of) {
            *clock = of_interfaces[node as usize * each];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::PlannedFault;

    #[test]
    fn every_kind_of_fault_is_planned_and_two_ranks_stay() {
        let plans: Vec<_> = (0..300).map(OneSidedPlan::new).collect();
        let has = |test: fn(&PlannedFault) -> bool| {
            plans.iter().flat_map(|plan| &plan.base.faults).any(|(_, fault)| test(fault))
        };
        assert!(has(|f| matches!(f, PlannedFault::LinkChange { link, .. } if link.loss > 0)));
        assert!(has(|f| matches!(f, PlannedFault::LinkChange { link, .. } if link.duplicate > 0)));
        assert!(has(|f| matches!(f, PlannedFault::LinkChange { link, .. } if link.reorder > 0)));
        assert!(has(|f| matches!(f, PlannedFault::LinkChange { link, .. } if link.corrupt > 0)));
        assert!(has(|f| matches!(f, PlannedFault::Partition { .. })));
        assert!(has(|f| matches!(f, PlannedFault::Compute { .. })));
        assert!(has(|f| matches!(f, PlannedFault::Freeze { .. })));
        assert!(has(|f| matches!(f, PlannedFault::Kill { .. })));
        assert!(has(|f| matches!(f, PlannedFault::LoseNode { .. })));
        for plan in &plans {
            let mut gone = 0_u64;
            for (_, fault) in &plan.base.faults {
                match *fault {
                    PlannedFault::Kill { rank, .. } => gone |= 1 << rank,
                    PlannedFault::LoseNode { node, .. } => {
                        for rank in (0..plan.ranks()).filter(|&r| plan.node_of[r as usize] == node)
                        {
                            gone |= 1 << rank;
                        }
                    }
                    _ => {}
                }
            }
            assert!(gone.count_ones() + 2 <= plan.ranks(), "seed {}", plan.base.seed);
        }
    }
}
