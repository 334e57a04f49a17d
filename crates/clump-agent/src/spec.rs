//! The description of a job that the launcher sends to the agents.

use crate::sharing::Sharing;
use crate::virtual_time::VirtualTime;
use clump_boot::NetDriver;
use clump_control::OnDeath;
use clump_loggp::KnobTable;
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
    /// The copy of the program's file on this machine, if it was copied for the job.
    pub staged: Option<OsString>,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Ranks, on all nodes.
    pub ranks: u32,
    /// Nodes: the machines that have ranks, or parts of this machine that communicate as machines
    /// do.
    pub nodes: u32,
    /// The machines of the nodes, in order; none: all nodes are parts of this machine.
    pub machines: Vec<Machine>,
    /// The way to start agents on them.
    pub remote: RemoteStart,
    /// Variables that ranks get, whatever the environment of their agent.
    pub variables: Vec<(OsString, OsString)>,
    /// Settings by name: those that options of the command chose; agents get all of the launcher's
    /// that are not at their defaults.
    pub settings: Vec<(String, String)>,
    /// Protection of packets between nodes.
    #[serde(with = "by_name")]
    pub security: Security,
    /// Driver that carries packets between nodes, if the user chose one; else the configuration
    /// does.
    pub driver: Option<NetDriver>,
    /// Proxies of each node that drive the network for its ranks; 0: ranks do it themselves.
    /// `None`: as the settings say.
    pub proxies: Option<u32>,
    /// Knobs of the laboratory, which let the network seem slower; `None`: as the settings say.
    pub knobs: Option<KnobTable>,
    /// The machine whose time is that of the job, and where its ranks are; `None`: this machine's
    /// time.
    #[serde(default)]
    pub virtual_time: Option<VirtualTime>,
    /// True if every node has a network namespace of its own.
    pub netns: bool,
    /// Virtual cables between any two of these.
    pub cables: u32,
    /// Addresses of this machine at which its nodes are reached, if they are not in namespaces of
    /// their own; none: loopback.
    pub addresses: Vec<IpAddr>,
    /// The engine that has started the ranks, which agents then adopt instead of starting any.
    pub engine: Option<EngineStart>,
    /// Working directory; the agent's own when absent.
    pub directory: Option<OsString>,
    /// Binding of ranks to CPUs.
    pub bind: Bind,
    /// Policy for the other ranks when one dies.
    pub on_death: OnDeath,
    /// Time that ranks may run after others have ended cleanly, in ms; no limit when absent.
    pub linger_ms: Option<u64>,
    /// Time after which the job is ended, in ms; no limit when absent.
    #[serde(default)]
    pub time_limit_ms: Option<u64>,
    /// True if rank 0 reads the launcher's standard input.
    pub input: bool,
    /// True if that is a terminal, which the launcher reads for it: ranks are in process groups of
    /// their own, which the kernel stops when they read a terminal.
    pub keyboard: bool,
    /// True if rank 0 writes errors straight to the launcher's error stream, so that it can draw
    /// on a terminal.
    pub direct_errors: bool,
    /// True if a summary will be printed, so that ranks measure for it.
    pub stats: bool,
    /// True if the launcher's error stream is a terminal.
    pub terminal: bool,
    /// True if each node says by which addresses it reaches the others.
    pub verbose: bool,
    /// Address at which agents answer collectors of metrics; each further node of this machine has
    /// the next port.
    pub metrics: Option<SocketAddr>,
}

impl JobSpec {
    /// Creates a job of `ranks` times `program`, everything else at its default.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, ranks: u32) -> Self {
        Self {
            program: program.into(),
            staged: None,
            args,
            ranks,
            nodes: 1,
            machines: Vec::new(),
            remote: RemoteStart::default(),
            variables: Vec::new(),
            settings: Vec::new(),
            security: Security::Aead,
            driver: None,
            proxies: None,
            knobs: None,
            virtual_time: None,
            netns: false,
            cables: 1,
            addresses: Vec::new(),
            engine: None,
            directory: None,
            bind: Bind::Spread,
            on_death: OnDeath::End,
            linger_ms: None,
            time_limit_ms: None,
            input: false,
            keyboard: false,
            direct_errors: false,
            stats: false,
            terminal: false,
            verbose: false,
            metrics: None,
        }
    }

    /// Returns the ranks of `node`: consecutive numbers, as many as its machine has, else shared
    /// out as evenly as possible.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        if let Some(machine) = self.machines.get(node as usize) {
            let before = self.machines.iter().take(node as usize).map(|one| one.ranks);
            let first: u32 = before.sum();
            return first..first + machine.ranks;
        }
        let (each, more) = (self.ranks / self.nodes.max(1), self.ranks % self.nodes.max(1));
        let first = node * each + node.min(more);
        first..first + each + u32::from(node < more)
    }

    /// Returns the node of every rank; empty when there is one node.
    pub fn node_of(&self) -> Vec<u32> {
        let nodes = if self.nodes > 1 { 0..self.nodes } else { 0..0 };
        nodes.flat_map(|node| self.ranks_of(node).map(move |_| node)).collect()
    }

    /// Returns the node of each rank, the virtual one where time is virtual.
    pub(crate) fn modelled_node_of(&self) -> Vec<u32> {
        let virtual_nodes = self.virtual_time.as_ref().map(|time| time.nodes);
        debug_assert!(virtual_nodes.is_none() || self.nodes == 1, "one machine has all of them");
        let spread = Self { nodes: virtual_nodes.unwrap_or(self.nodes), ..self.clone() };
        let of = |node| spread.ranks_of(node).map(move |_| node);
        let node_of: Vec<u32> = (0..spread.nodes).flat_map(of).collect();
        debug_assert_eq!(node_of.len(), self.ranks as usize, "each rank has one");
        node_of
    }

    /// Returns the program's name without its folders, for reports: safe to print.
    pub fn program_name(&self) -> String {
        let path = std::path::Path::new(&self.program);
        printable(path.file_name().unwrap_or(&self.program)).to_string()
    }

    /// Returns the program's name and its arguments, for reports: safe to print.
    pub fn command_line(&self) -> String {
        let words = self.args.iter().map(|word| printable(word).to_string());
        std::iter::once(self.program_name()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// An engine that has started the ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineStart {
    /// Its name in texts.
    pub name: String,
    /// The names under which the agents listen, by node.
    pub listeners: Vec<String>,
}

impl EngineStart {
    /// Returns the name under which the agent of `node` listens.
    pub(crate) fn listener_of(&self, node: u32) -> &str {
        self.listeners.get(node as usize).map_or("", String::as_str)
    }
}

/// A machine of a job, as its user names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name, for the program that reaches it, and for reports.
    pub name: String,
    /// Its ranks.
    pub ranks: u32,
}

/// The way to start agents on other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteStart {
    /// The program that runs a command on a machine, and its options: the machine's name and the
    /// command follow.
    pub shell: Vec<OsString>,
    /// Path of clump on the machines; that of this program when absent.
    pub clump: Option<OsString>,
    /// True if clump and the program are copied to each machine, into a folder that goes with the
    /// job.
    pub stage: bool,
    /// Names of interfaces, and networks (CIDR), whose addresses are used; none: all.
    pub interfaces: Vec<String>,
    /// Ports that sockets are bound to, first and last; any when absent.
    pub ports: Option<(u16, u16)>,
}

impl RemoteStart {
    /// Returns the command that runs a command on a machine of Slurm's allocation `job`: a step of
    /// its own beside others, which ends with that command.
    pub fn by_slurm(job: u32) -> Vec<OsString> {
        let job = job.to_string();
        // The agent is for all processors of its machine, whatever the user's step is bound to.
        let words = ["srun", "--jobid", &job, "--nodes=1", "--ntasks=1", "--ntasks-per-node=1"];
        let words = [&words[..], &["--cpu-bind=none", "--overlap", "--mpi=none"]].concat();
        let more = ["--unbuffered", "--quiet", "--kill-on-bad-exit=1", "--nodelist"];
        words.iter().chain(&more).map(OsString::from).collect()
    }
}

impl Default for RemoteStart {
    fn default() -> Self {
        Self {
            shell: vec!["ssh".into()],
            clump: None,
            stage: false,
            interfaces: Vec::new(),
            ports: None,
        }
    }
}

/// Data that one agent needs beyond the job itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its node.
    pub node: u32,
    /// Random identity of the job.
    pub job_id: u64,
    /// The name of its machine in reports; the machine's own when absent.
    pub machine: Option<String>,
    /// Nodes that share this machine's processors.
    pub sharing: Sharing,
    /// Nodes on other kernels than this one's, so that their clocks say other times.
    pub other_clocks: Vec<u32>,
    /// Addresses at which other nodes reach this node, each by a path of its own. The first of one
    /// node leads to the first of the other, and so on. None: the agent finds them.
    pub addresses: Vec<IpAddr>,
    /// Time without a sign of a node after which it counts as lost.
    pub node_timeout_ms: u64,
    /// True if the launcher is on another machine: then input of rank 0 comes as frames, and both
    /// ends of the stream give signs of life.
    pub elsewhere: bool,
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
    /// Returns the plan for a node, as if all shared this machine.
    pub fn new(spec: &JobSpec, node: u32, job_id: u64, node_timeout_ms: u64) -> Self {
        let mut addresses = spec.addresses.clone();
        let machine = spec.machines.get(node as usize).map(|machine| machine.name.clone());
        if addresses.is_empty() && machine.is_none() {
            addresses.push(Ipv4Addr::LOCALHOST.into());
        }
        Self {
            node,
            job_id,
            machine,
            sharing: Sharing {
                ranks: spec.ranks,
                before: spec.ranks_of(node).start,
                nodes: spec.nodes.max(1),
            },
            other_clocks: Vec::new(),
            addresses,
            node_timeout_ms,
            elsewhere: false,
            namespaces: None,
        }
    }
}

/// An agent as others may reach it, before it is known by which address they do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOffer {
    /// The name of its machine.
    pub host: String,
    /// The build id of the program there; empty where it has none.
    pub program: String,
    /// Its sockets, one for each address of its node.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of its machine beyond those, more than an offer holds.
    pub left_out: u32,
    /// Its incarnation.
    pub epoch: u32,
}

/// Addresses of a node's processes, once their sockets are bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundAddresses {
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

impl BoundAddress {
    /// Creates it; no address: none.
    pub(crate) fn of(addresses: impl IntoIterator<Item = SocketAddr>, epoch: u32) -> Option<Self> {
        let mut addresses = addresses.into_iter();
        let address = addresses.next()?;
        Some(Self { address, others: std::array::from_fn(|_| addresses.next()), epoch })
    }

    /// Returns its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        [Some(self.address)].into_iter().chain(self.others).flatten()
    }
}

/// Addresses of all processes of the job: with these, ranks can be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressTable {
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

    #[test]
    fn machines_have_the_ranks_that_their_user_says() {
        let mut spec = JobSpec::new("prog", Vec::new(), 6);
        let machine = |(name, ranks): (&str, u32)| Machine { name: name.into(), ranks };
        (spec.nodes, spec.machines) = (3, [("a", 3), ("b", 1), ("c", 2)].map(machine).into());
        assert_eq!([0, 1, 2].map(|node| spec.ranks_of(node)), [0..3, 3..4, 4..6]);
    }
}
