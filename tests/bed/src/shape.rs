//! The shape of a job: ranks, nodes, and the network between them.

use clump_am::Settings;
use clump_transport::{Dispatch, FaultPlan};
use clump_wire::Security;
use std::net::SocketAddr;

/// Ranks and nodes of a job, and the faults of its network.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Ranks.
    pub ranks: usize,
    /// Nodes; ranks are spread as evenly as they go.
    pub nodes: usize,
    /// Proxies of each node; 0: ranks drive stacks of their own.
    pub proxies: u32,
    /// Policy that spreads messages over proxies.
    pub dispatch: Dispatch,
    /// True if the job goes on when a rank dies.
    pub survive: bool,
    /// Protection of packets.
    pub security: Security,
    /// Faults of the network.
    pub faults: Option<FaultPlan>,
    /// A rank, and the address at which ranks of other nodes believe it to be.
    pub detour: Option<(u32, SocketAddr)>,
    /// True if each of several nodes has network interfaces, which also execute one-sided
    /// operations.
    pub interfaces: bool,
    /// Settings of every rank.
    pub settings: Settings,
}

impl Shape {
    /// Creates a shape of so many ranks on so many nodes.
    pub fn of(ranks: usize, nodes: usize) -> Self {
        Self {
            ranks,
            nodes,
            proxies: 0,
            dispatch: Dispatch::Fixed,
            survive: false,
            security: Security::Crc,
            faults: None,
            detour: None,
            interfaces: true,
            settings: Settings::default(),
        }
    }

    /// Creates a shape of ranks that only send messages, on so many nodes: these need no
    /// interfaces.
    pub fn of_messages(ranks: usize, nodes: usize, security: Security) -> Self {
        Self { security, interfaces: false, ..Self::of(ranks, nodes) }
    }

    /// Changes the settings of all ranks.
    pub fn with(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Adds proxies.
    pub fn by_proxies(self, proxies: u32, dispatch: Dispatch) -> Self {
        Self { proxies, dispatch, ..self }
    }

    /// Adds a network that loses, duplicates and delays some packets.
    pub fn troubled(self) -> Self {
        Self { faults: Some(trouble()), ..self }
    }

    /// Lets the job go on when a rank dies.
    pub fn surviving(self) -> Self {
        Self { survive: true, ..self }
    }

    /// Returns the shape without proxies, and with them under each policy of dispatch.
    pub fn every_way(self) -> Vec<Self> {
        let by = |(proxies, dispatch)| self.clone().by_proxies(proxies, dispatch);
        let ways = [
            (1, Dispatch::Fixed),
            (2, Dispatch::Fixed),
            (2, Dispatch::RoundRobin),
            (3, Dispatch::LeastLoaded),
        ];
        [self.clone()].into_iter().chain(ways.map(by)).collect()
    }
}

/// Faults of a network that loses, duplicates and delays some packets.
pub(crate) fn trouble() -> FaultPlan {
    FaultPlan {
        loss: 0.02,
        duplication: 0.05,
        reordering: 0.2,
        jitter_ns: 100_000,
        ..FaultPlan::default()
    }
}
