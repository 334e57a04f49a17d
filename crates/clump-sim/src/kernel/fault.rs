//! Faults that a simulated cluster may suffer: the vocabulary of all worlds.
//!
//! Sites are machines: ranks where each rank has a stack of its own and no node matters, nodes
//! otherwise. Actors are ranks, and behind them the interfaces of nodes.

use super::link::{LinkFaults, Time};

/// A planned change to the cluster: a fault, its consequence, or the end of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it")]
pub enum PlannedFault {
    /// The link between two sites changes; also the reverse link, if `both`.
    LinkChange { from: u32, to: u32, both: bool, link: Box<LinkFaults> },
    /// Sites whose bits are set are cut off from the others, or (`false`) joined with them again.
    Partition { sites: u64, cut: bool },
    /// Cuts one direction between two sites, or (`false`) heals it.
    OneWay { from: u32, to: u32, cut: bool },
    /// The port of a socket gets another rate.
    PortRate { socket: u32, rate: u64 },
    /// From now on no path carries more than this many bytes; also when everything else is healed.
    Narrow { most: usize },
    /// A rank computes: only its backstop serves the stack.
    Compute { rank: u32, span: Time },
    /// A rank, or an interface of a node, is stopped altogether.
    Freeze { actor: u32, span: Time },
    /// A rank dies; after `known_after` the others are notified.
    Kill { rank: u32, known_after: Time },
    /// A node is lost, with its interfaces and its ranks; after `known_after` the others are
    /// notified.
    LoseNode { node: u32, known_after: Time },
    /// A stale stack with the number of a dead rank, but another epoch, sends.
    Restart { rank: u32 },
    /// The others are notified that ranks (a bit each) have left for good.
    Tell { ranks: u64, why: Departure },
    /// A rank closes its endpoints and its stack.
    Close { rank: u32 },
    /// A rank closes one endpoint and opens another in its place.
    Renew { rank: u32, endpoint: u32 },
    /// All faults end; nothing new is begun from now on.
    Heal,
    /// Every message must be handled or returned by now; ranks close.
    Finish,
}

/// Reasons for a rank's absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Closed.
    Closed,
    /// Died.
    Died,
    /// Lost with its node.
    NodeLost,
}
