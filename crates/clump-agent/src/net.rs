//! Resources of a node in a job of several: sockets, alarms, the key of the job.

use crate::access::DriverAccess;
use crate::frame::Key;
use crate::reach::UsableAddresses;
use crate::refusal::Refusal;
use crate::spec::{AddressTable, AgentOffer, BoundAddress, BoundAddresses, NodePlan};
use clump_boot::boot::{NetworkAttachment, NetworkOffer};
use clump_boot::{Config, NetDriver};
use clump_interface::NetworkInterface;
use clump_os::alarm::Alarm;
use clump_os::{OsError, process, topology};
use clump_shm::node::NodeMemory;
use clump_shm::rank::ProcessAddress;
use clump_transport::{NetworkResources, NetworkTuning};
use clump_wire::Security;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Ports that a user allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    /// Number of them that a node needs at each of its addresses.
    pub(crate) needed: usize,
}

/// The agent's own sockets and what its node's will need, before it is known which addresses reach
/// other nodes.
#[derive(Debug)]
pub(crate) struct AgentSockets {
    pub(crate) key: Key,
    pub(crate) security: Security,
    /// The driver that the user wants.
    driver: NetDriver,
    ports: Option<PortRange>,
    /// One for each address that others may reach.
    pub(crate) sockets: Vec<UdpSocket>,
    /// These addresses, each with the number of its interface.
    pub(crate) addresses: Vec<(IpAddr, usize)>,
    pub(crate) offer: AgentOffer,
}

impl AgentSockets {
    /// Binds a socket at each address.
    ///
    /// # Errors
    /// Fails if an address is none of this machine.
    pub(crate) fn bind(
        plan: &NodePlan,
        UsableAddresses { offered: addresses, left_out }: UsableAddresses,
        ports: Option<PortRange>,
        program: String,
        key: Key,
        (security, driver): (Security, NetDriver),
    ) -> Result<Self, Refusal> {
        let all: Vec<IpAddr> = addresses.iter().map(|(address, _)| *address).collect();
        let (sockets, bound) = bind_all(plan.node, &all, ports)?;
        let epoch = incarnation(plan.node)?;
        let host = plan.machine.clone().unwrap_or_else(process::host_name);
        let offer = AgentOffer { host, program, addresses: bound, left_out, epoch };
        Ok(Self { key, security, driver, ports, sockets, addresses, offer })
    }
}

/// A node's part in the network between nodes, until its ranks have been started.
#[derive(Debug)]
pub(crate) struct NodeNetwork {
    key: Key,
    security: Security,
    /// Sockets for each rank of the node, in order, one for each address; none where proxies drive
    /// the network.
    sockets: Vec<Vec<OwnedFd>>,
    /// Sockets of the node's network interfaces.
    interfaces: Vec<Vec<OwnedFd>>,
    /// Driver descriptors: the ranks', in order, then the interfaces'.
    pub(crate) access: DriverAccess,
    /// Addresses of all of these.
    pub(crate) bound: BoundAddresses,
}

impl NodeNetwork {
    /// Binds the sockets of the node's ranks and interfaces, and makes its alarms. Without proxies
    /// ranks have sockets of their own.
    pub(crate) fn bind(
        node: u32,
        addresses: &[IpAddr],
        memory: &mut NodeMemory,
        agent: AgentSockets,
    ) -> Result<Self, Refusal> {
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("node {node} cannot be reached: {e}"), 126)
        };
        let own_line = memory.proxies() == 0;
        let line = || {
            let (sockets, bound) = bind_all(node, addresses, agent.ports)?;
            let bound = BoundAddress::of(bound, incarnation(node)?)
                .ok_or_else(|| refused(&"it was given no address"))?;
            Ok((sockets.into_iter().map(OwnedFd::from).collect(), bound))
        };
        let lines = memory.local_ranks().filter(|_| own_line).map(|_| line());
        let (sockets, ranks): (Vec<Vec<_>>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let lines = memory.own_interfaces().map(|_| line());
        let (own_sockets, interfaces): (Vec<Vec<_>>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let alarm = |number| Ok((number, Alarm::new().map_err(|e| refused(&e))?));
        let alarms = memory.local_ranks().chain(memory.own_interfaces()).map(alarm);
        memory.set_alarms(alarms.collect::<Result<_, Refusal>>()?);
        let all = ranks.iter().chain(&interfaces);
        let places: Vec<Vec<_>> = all.map(|at: &BoundAddress| at.addresses().collect()).collect();
        let lines = if own_line { memory.ranks() } else { 0 } + memory.all_interfaces().len();
        let AgentSockets { key, security, driver, .. } = agent;
        let access = DriverAccess::open(driver, &places, lines * addresses.len())?;
        let bound = BoundAddresses { interfaces, ranks };
        Ok(Self { key, security, sockets, interfaces: own_sockets, access, bound })
    }

    /// Writes the addresses of all processes into the node's memory.
    pub(crate) fn place_all(memory: &NodeMemory, table: &AddressTable) {
        let ranks = (0..memory.interface_id(0)).zip(&table.ranks);
        let interfaces = memory.all_interfaces().zip(&table.interfaces);
        for (id, at) in ranks.chain(interfaces) {
            if let Some(peer) = memory.peer(id) {
                peer.set_place(place(at));
            }
        }
    }

    /// Starts the node's network interfaces. They spin only if the machine has cores for all ranks
    /// and interfaces `sharing` it.
    pub(crate) fn start_interfaces(
        &self,
        memory: &NodeMemory,
        config: &Config,
        sharing: usize,
    ) -> Result<Vec<NetworkInterface>, Refusal> {
        let node = memory.node();
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("the network interface of node {node} cannot run: {e}"), 126)
        };
        let not_cloned = |e: std::io::Error| refused(&OsError::of("handing it a socket", &e));
        let spin = sharing <= topology::usable_cores();
        let spin_ns = if spin { memory.spin_policy_ns().0 } else { 0 };
        let cloned = |all: &[OwnedFd]| {
            let clones = all.iter().map(OwnedFd::try_clone);
            clones.collect::<Result<_, _>>().map_err(not_cloned)
        };
        let start = |(which, sockets): (usize, &Vec<OwnedFd>)| {
            let resources = NetworkResources {
                sockets: cloned(sockets)?,
                direct: cloned(self.access.of(self.sockets.len() + which))?,
                key: Key::new(|| *self.key).map_err(|e| refused(&e))?,
                security: self.security,
                polling: (1, 1),
                tuning: NetworkTuning::configured(config),
            };
            let services = clump_svm::services(memory);
            NetworkInterface::start(memory, which as u32, services, resources, spin_ns)
                .map_err(|e| refused(&e))
        };
        self.interfaces.iter().enumerate().map(start).collect()
    }

    /// Returns the alarms of the node's ranks, in order, and those of its network interfaces.
    pub(crate) fn alarms<'a>(&self, memory: &'a NodeMemory) -> Vec<BorrowedFd<'a>> {
        let all = memory.local_ranks().chain(memory.own_interfaces());
        all.filter_map(|rank| Some(memory.alarm(rank)?.as_fd())).collect()
    }

    /// Returns the network resources that `rank` receives.
    pub(crate) fn offer<'a>(
        &'a self,
        rank: u32,
        first: u32,
        alarms: &'a [BorrowedFd<'a>],
    ) -> NetworkOffer<'a> {
        let at = (rank - first) as usize;
        let line = self.sockets.get(at).map(|sockets| NetworkAttachment {
            sockets,
            direct: self.access.of(at),
            key: &self.key,
            security: self.security,
        });
        let interfaces = self.interfaces.len() as u32;
        NetworkOffer { line, first, interfaces, alarms }
    }
}

fn place(at: &BoundAddress) -> ProcessAddress {
    ProcessAddress { address: at.address, others: at.others, epoch: at.epoch }
}

/// Binds sockets for one process of a node, one at each address.
fn bind_all(
    node: u32,
    addresses: &[IpAddr],
    ports: Option<PortRange>,
) -> Result<(Vec<UdpSocket>, Vec<SocketAddr>), Refusal> {
    let one = |&at: &IpAddr| {
        let bound = || {
            let socket = bind_to(at, ports)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        };
        bound().map_err(|e: std::io::Error| {
            let range = |it: PortRange| format!(" by a port of {}-{} (--port)", it.first, it.last);
            let what = ports.map_or(String::new(), range);
            let what = format!("node {node} cannot be reached at {at}{what}");
            let need = |it: PortRange| {
                format!(
                    "\n  next:   allow more ports: this node needs {} at each of its addresses (one for \
                     its agent, each rank and each proxy), and other nodes of its machine as many each",
                    it.needed
                )
            };
            let used_up = e.kind() == std::io::ErrorKind::AddrInUse;
            let need = ports.filter(|_| used_up).map_or(String::new(), need);
            Refusal::new(format!("{}{need}", OsError::of(what, &e)), 126)
        })
    };
    let all: Vec<_> = addresses.iter().map(one).collect::<Result<_, _>>()?;
    Ok(all.into_iter().unzip())
}

/// Binds a socket at `at` to the first of these ports that is free.
fn bind_to(at: IpAddr, ports: Option<PortRange>) -> std::io::Result<UdpSocket> {
    let (first, last) = ports.map_or((0, 0), |it| (it.first, it.last));
    let mut last_error = std::io::ErrorKind::AddrInUse.into();
    for port in first..=last {
        match UdpSocket::bind((at, port)) {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => last_error = e,
            bound => return bound,
        }
    }
    Err(last_error)
}

/// Returns a random incarnation other than 0: no packet of an earlier job fits it.
fn incarnation(node: u32) -> Result<u32, Refusal> {
    let refused = |e| Refusal::new(format!("node {node} cannot be reached: {e}"), 126);
    Ok((process::random().map_err(refused)? >> 32) as u32 | 1)
}
