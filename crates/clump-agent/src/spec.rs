//! The description of a job that the launcher sends to the agents.

use clump_boot::NetDriver;
use clump_control::OnDeath;
use clump_os::printable::printable;
use clump_shm::rank::FurtherAddresses;
use clump_wire::Security;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

/// Binding of ranks to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Any CPU of the launcher's, from the start.
    None,
    /// A core for each rank, if there are enough, from joining the job until it has threads.
    Spread,
    /// A core for each rank, which it keeps, in the order in which cores share least.
    Cores,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Program of every rank.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Ranks, on all nodes.
    pub ranks: u32,
    /// Nodes: parts of this machine that communicate as machines do.
    pub nodes: u32,
    /// Protection of packets between nodes.
    #[serde(with = "by_name")]
    pub security: Security,
    /// Driver that carries packets between nodes, if the user chose one; else the configuration
    /// does.
    pub driver: Option<NetDriver>,
    /// Proxies of each node that drive the network for its ranks; 0: ranks do it themselves.
    /// `None`: as the settings say.
    pub proxies: Option<u32>,
    /// True if every node has a network namespace of its own.
    pub netns: bool,
    /// Virtual cables between any two of these.
    pub cables: u32,
    /// Addresses of this machine at which its nodes are reached, if they are not in namespaces of
    /// their own; none: loopback.
    pub addresses: Vec<IpAddr>,
    /// Working directory; the agent's own when absent.
    pub directory: Option<OsString>,
    /// Binding of ranks to CPUs.
    pub bind: Bind,
    /// Policy for the other ranks when one dies.
    pub on_death: OnDeath,
    /// Time that ranks may run after others have ended cleanly, in ms; no limit when absent.
    pub linger_ms: Option<u64>,
    /// True if rank 0 inherits the launcher's standard input.
    pub input: bool,
    /// True if rank 0 writes errors straight to the launcher's error stream, so that it can draw
    /// on a terminal.
    pub direct_errors: bool,
    /// True if a summary will be printed, so that ranks measure for it.
    pub stats: bool,
    /// True if the launcher's error stream is a terminal.
    pub terminal: bool,
}

impl JobSpec {
    /// Creates a job of `ranks` times `program`, everything else at its default.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, ranks: u32) -> Self {
        Self {
            program: program.into(),
            args,
            ranks,
            nodes: 1,
            security: Security::Aead,
            driver: None,
            proxies: None,
            netns: false,
            cables: 1,
            addresses: Vec::new(),
            directory: None,
            bind: Bind::Spread,
            on_death: OnDeath::End,
            linger_ms: None,
            input: false,
            direct_errors: false,
            stats: false,
            terminal: false,
        }
    }

    /// Returns the ranks of `node`: consecutive numbers, shared out as evenly as possible.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        let (each, more) = (self.ranks / self.nodes.max(1), self.ranks % self.nodes.max(1));
        let first = node * each + node.min(more);
        first..first + each + u32::from(node < more)
    }

    /// Returns the node of every rank; empty when there is one node.
    pub fn node_of(&self) -> Vec<u32> {
        let nodes = if self.nodes > 1 { 0..self.nodes } else { 0..0 };
        nodes.flat_map(|node| self.ranks_of(node).map(move |_| node)).collect()
    }

    /// Returns the program's name without its folders, for reports: safe to print.
    pub fn program_name(&self) -> String {
        let path = std::path::Path::new(&self.program);
        printable(path.file_name().unwrap_or(&self.program)).to_string()
    }
}

/// Data that one agent needs beyond the job itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its node.
    pub node: u32,
    /// Random identity of the job.
    pub job_id: u64,
    /// Ranks that share this machine's processors, those of other virtual nodes included.
    pub sharing: Range<u32>,
    /// Nodes that do, this one included.
    pub sharing_nodes: u32,
    /// Addresses at which other nodes reach this node, each by a path of its own. The first of one
    /// node leads to the first of the other, and so on.
    pub addresses: Vec<IpAddr>,
    /// Time without a sign of a node after which it counts as lost.
    pub node_timeout_ms: u64,
    /// The namespaces to enter, if the node has some of its own.
    pub namespaces: Option<Namespaces>,
}

/// Namespaces as descriptors of another process of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// That process.
    pub holder: u32,
    /// The user namespace, if there is one.
    pub user: Option<i32>,
    /// The network namespace.
    pub net: i32,
}

impl NodePlan {
    /// Returns the plan for a node of this machine.
    pub fn virtual_node(spec: &JobSpec, node: u32, job_id: u64, node_timeout_ms: u64) -> Self {
        let mut addresses = spec.addresses.clone();
        if addresses.is_empty() {
            addresses.push(Ipv4Addr::LOCALHOST.into());
        }
        Self {
            node,
            job_id,
            sharing: 0..spec.ranks,
            sharing_nodes: spec.nodes,
            addresses,
            node_timeout_ms,
            namespaces: None,
        }
    }
}

/// Addresses of a node's processes, once their sockets are bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundAddresses {
    /// The name of the machine.
    pub host: String,
    /// The agent.
    pub agent: BoundAddress,
    /// The node's network interfaces.
    pub interfaces: Vec<BoundAddress>,
    /// The node's ranks, in order; none where proxies drive the network for them.
    pub ranks: Vec<BoundAddress>,
}

/// Address of a process for other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundAddress {
    /// Its socket; the first, if it has several.
    pub address: SocketAddr,
    /// Its other sockets.
    pub others: FurtherAddresses,
    /// Its incarnation.
    pub epoch: u32,
}

/// Addresses of all processes of the job: with these, ranks can be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressTable {
    /// The agents, by node.
    pub agents: Vec<BoundAddress>,
    /// The network interfaces, those of one node after those of the other.
    pub interfaces: Vec<BoundAddress>,
    /// The ranks; none where proxies drive the network for them.
    pub ranks: Vec<BoundAddress>,
}

mod by_name {
    use clump_wire::Security;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(security: &Security, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(security.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Security, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_shared_out_evenly_in_blocks() {
        let mut spec = JobSpec::new("prog", Vec::new(), 7);
        assert!(spec.node_of().is_empty());
        assert_eq!(spec.ranks_of(0), 0..7);
        spec.nodes = 3;
        assert_eq!(spec.node_of(), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!([0, 1, 2].map(|node| spec.ranks_of(node)), [0..3, 3..5, 5..7]);
        spec.nodes = 7;
        assert_eq!(spec.node_of(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
