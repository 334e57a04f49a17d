//! Fields of a plan's file.

use super::link::{LinkText, plain_port};
use super::path::PathText;
use super::span::{Chance, Span};
use crate::kernel::{LinkFaults, PlannedFault, Port, Time};
use crate::network::Network;
use crate::proxies::Setting;
use serde::Deserialize;

/// A plan as its file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PlanText {
    /// Purpose of the plan.
    pub(super) about: String,
    pub(super) world: WorldText,
    #[serde(default)]
    pub(super) transport: TransportText,
    pub(super) seeds: Option<SeedRange>,
    /// Seeds that once found something.
    #[serde(default)]
    pub(super) seed: Vec<KnownSeed>,
    #[serde(default)]
    pub(super) cluster: ClusterText,
    pub(super) link: Option<LinkText>,
    #[serde(default)]
    pub(super) port: PortText,
    #[serde(default)]
    faults: FaultSource,
    #[serde(default)]
    pub(super) fault: Vec<FaultText>,
    /// The experiment with proxies.
    pub(super) setting: Option<Setting>,
    /// Networks of a bench.
    #[serde(default)]
    pub(super) network: Vec<NetworkText>,
    /// Paths to try.
    #[serde(default)]
    pub(super) path: Vec<PathText>,
}

/// World of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WorldText {
    Messages,
    OneSided,
    Proxies,
    Throughput,
    Paths,
}

/// Transport of one-sided operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TransportText {
    /// Drawn from the seed.
    #[default]
    Drawn,
    Direct,
    Proxies,
    /// Each seed is run with each.
    Both,
}

/// Origin of faults, where none are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultSource {
    /// The seed draws them.
    #[default]
    Drawn,
    None,
}

/// Seeds that follow each other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeedRange {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// A seed that once failed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownSeed {
    pub(super) number: u64,
    /// Finding of the seed.
    #[serde(rename = "found")]
    _found: String,
}

/// Size and pace of a cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClusterText {
    pub(super) ranks: Option<u32>,
    pub(super) nodes: Option<u32>,
    pub(super) node_for_each_rank: bool,
    pub(super) duration: Option<Span>,
    pub(super) turn: Option<Span>,
    pub(super) think: Option<Span>,
    pub(super) hold: Option<Span>,
    pub(super) wanted_lock: Option<u32>,
    pub(super) same_clocks: bool,
    pub(super) grid: Option<bool>,
}

/// Properties of all ports.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PortText {
    rate: Option<u64>,
    queue_bytes: Option<u64>,
    mark_bytes: Option<u64>,
    socket_bytes: Option<usize>,
    card_bytes: Option<u64>,
    refuse: Option<Chance>,
    mtu: Option<usize>,
}

impl PortText {
    /// Changes a port to what is given.
    pub(super) fn over(&self, port: &mut Port) {
        port.rate = self.rate.unwrap_or(port.rate);
        port.queue_bytes = self.queue_bytes.unwrap_or(port.queue_bytes);
        port.mark_bytes = self.mark_bytes.or(port.mark_bytes);
        port.socket_bytes = self.socket_bytes.unwrap_or(port.socket_bytes);
        port.card_bytes = self.card_bytes.unwrap_or(port.card_bytes);
        port.refuse = self.refuse.map_or(port.refuse, |chance| chance.0);
        port.mtu = self.mtu.unwrap_or(port.mtu);
    }
}

/// A network of a bench.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NetworkText {
    name: String,
    rate: u64,
    delay: Span,
    mtu: usize,
    queue_bytes: u64,
}

impl NetworkText {
    pub(super) fn network(&self) -> Network {
        Network {
            name: self.name.clone(),
            link: LinkFaults::clean(self.delay.0, self.mtu),
            port: plain_port(self.rate, self.mtu, self.queue_bytes),
        }
    }
}

/// A fault at its time.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[serde(deny_unknown_fields)]
pub(super) enum FaultText {
    LinkChange {
        at: Span,
        from: u32,
        to: u32,
        #[serde(default)]
        both: bool,
        link: LinkText,
    },
    Partition {
        at: Span,
        until: Span,
        sites: Vec<u32>,
    },
    OneWay {
        at: Span,
        until: Span,
        from: u32,
        to: u32,
    },
    Narrow {
        at: Span,
        bytes: usize,
    },
    Compute {
        at: Span,
        rank: u32,
        span: Span,
    },
    Freeze {
        at: Span,
        actor: u32,
        span: Span,
    },
    Kill {
        at: Span,
        rank: u32,
        known_after: Span,
    },
    LoseNode {
        at: Span,
        node: u32,
        known_after: Span,
    },
    Restart {
        at: Span,
        rank: u32,
    },
    Close {
        at: Span,
        rank: u32,
    },
    Renew {
        at: Span,
        rank: u32,
        endpoint: u32,
    },
}

impl FaultText {
    /// Returns the changes that it stands for, on a network of links like `base`.
    pub(super) fn planned(&self, base: &LinkFaults) -> Vec<(Time, PlannedFault)> {
        use PlannedFault as P;
        let one = |at: Span, fault| vec![(at.0, fault)];
        match *self {
            Self::LinkChange { at, from, to, both, ref link } => {
                one(at, P::LinkChange { from, to, both, link: Box::new(link.over(base)) })
            }
            Self::Partition { at, until, ref sites } => {
                let sites = sites.iter().filter(|site| **site < 64).fold(0, |set, s| set | 1 << s);
                let part = |cut| P::Partition { sites, cut };
                vec![(at.0, part(true)), (until.0, part(false))]
            }
            Self::OneWay { at, until, from, to } => {
                let part = |cut| P::OneWay { from, to, cut };
                vec![(at.0, part(true)), (until.0, part(false))]
            }
            Self::Narrow { at, bytes } => one(at, P::Narrow { most: bytes }),
            Self::Compute { at, rank, span } => one(at, P::Compute { rank, span: span.0 }),
            Self::Freeze { at, actor, span } => one(at, P::Freeze { actor, span: span.0 }),
            Self::Kill { at, rank, known_after } => {
                one(at, P::Kill { rank, known_after: known_after.0 })
            }
            Self::LoseNode { at, node, known_after } => {
                one(at, P::LoseNode { node, known_after: known_after.0 })
            }
            Self::Restart { at, rank } => one(at, P::Restart { rank }),
            Self::Close { at, rank } => one(at, P::Close { rank }),
            Self::Renew { at, rank, endpoint } => one(at, P::Renew { rank, endpoint }),
        }
    }

    /// Returns the sites of a partition.
    fn sites(&self) -> &[u32] {
        match self {
            Self::Partition { sites, .. } => sites,
            _ => &[],
        }
    }
}

impl PlanText {
    /// Returns true if the file decides about faults, not the seed.
    pub(super) fn has_own_faults(&self) -> bool {
        self.faults == FaultSource::None || !self.fault.is_empty()
    }

    /// Checks that the fields fit together, whatever the seed.
    pub(super) fn check(&self) -> Result<(), String> {
        let cluster = matches!(self.world, WorldText::Messages | WorldText::OneSided);
        let is = |given: bool, fits: bool, what: &str| {
            let wrong = given && !fits;
            if wrong { Err(format!("`{what}` does not fit this world")) } else { Ok(()) }
        };
        is(self.transport != TransportText::Drawn, self.world == WorldText::OneSided, "transport")?;
        is(self.setting.is_some(), self.world == WorldText::Proxies, "setting")?;
        is(!self.network.is_empty(), self.world == WorldText::Throughput, "network")?;
        is(!self.path.is_empty(), self.world == WorldText::Paths, "path")?;
        is(self.link.is_some(), cluster, "link")?;
        is(self.has_own_faults(), cluster, "fault")?;
        let wide = self.cluster.ranks.into_iter().chain(self.cluster.nodes).find(|n| *n > 32);
        if let Some(count) = wide {
            return Err(format!("{count} ranks or nodes are more than 32"));
        }
        if self.cluster.ranks.is_some_and(|n| n < 2) || self.cluster.nodes.is_some_and(|n| n < 2) {
            return Err("a cluster has two ranks and nodes or more".to_owned());
        }
        if self.fault.iter().any(|fault| fault.sites().iter().any(|&site| site > 31)) {
            return Err("sites are numbered from 0 to 31".to_owned());
        }
        if self.seeds.is_none() && self.seed.is_empty() {
            return Err("it names no seeds: `seeds = { first = 1, count = 20 }`".to_owned());
        }
        Ok(())
    }
}
