//! Resources of a node in a job of several: sockets, alarms, the key of the job.

use crate::access::DriverAccess;
use crate::frame::Key;
use crate::rank::Refusal;
use crate::spec::{AddressTable, BoundAddress, BoundAddresses, NodePlan};
use clump_boot::boot::{NetworkAttachment, NetworkOffer};
use clump_boot::{Config, NetDriver};
use clump_ni::{NetworkInterface, Services};
use clump_os::alarm::Alarm;
use clump_os::{OsError, process, topology};
use clump_shm::node::NodeMemory;
use clump_shm::rank::ProcessAddress;
use clump_transport::{NetworkResources, NetworkTuning};
use clump_wire::Security;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A node's part in the network between nodes, until its ranks have been started.
#[derive(Debug)]
pub(crate) struct NodeNetwork {
    pub(crate) key: Key,
    pub(crate) security: Security,
    /// The agent's own sockets, one for each address.
    pub(crate) own: Vec<UdpSocket>,
    /// As many sockets for each rank of the node, in order; none where proxies drive the network.
    sockets: Vec<Vec<OwnedFd>>,
    /// Sockets of the node's network interfaces.
    interfaces: Vec<Vec<OwnedFd>>,
    /// Driver descriptors: the ranks', in order, then the interfaces'.
    pub(crate) access: DriverAccess,
    /// Addresses of all of these.
    pub(crate) bound: BoundAddresses,
}

impl NodeNetwork {
    /// Binds sockets, and creates alarms for the node's ranks.
    pub(crate) fn bind(
        plan: &NodePlan,
        memory: &mut NodeMemory,
        key: Key,
        (security, driver): (Security, NetDriver),
    ) -> Result<Self, Refusal> {
        let node = plan.node;
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("node {node} cannot be reached: {e}"), 126)
        };
        let bind = || Self::bind_all(plan);
        let own_line = memory.proxies() == 0;
        let owned = |sockets: Vec<UdpSocket>| sockets.into_iter().map(OwnedFd::from).collect();
        let line = || bind().map(|(sockets, place)| (owned(sockets), place));
        let lines = memory.local_ranks().filter(|_| own_line).map(|_| line());
        let (sockets, ranks): (Vec<Vec<_>>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let lines = memory.own_interfaces().map(|_| line());
        let (own_sockets, interfaces): (Vec<Vec<_>>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let alarm = |number| Ok((number, Alarm::new().map_err(|e| refused(&e))?));
        let alarms = memory.local_ranks().chain(memory.own_interfaces()).map(alarm);
        memory.set_alarms(alarms.collect::<Result<_, Refusal>>()?);
        let (own, agent) = bind()?;
        let all = ranks.iter().chain(&interfaces);
        let places: Vec<Vec<_>> = all.map(|at| place(at).addresses().collect()).collect();
        let lines = if own_line { memory.ranks() } else { 0 } + memory.all_interfaces().len();
        let access = DriverAccess::open(driver, &places, lines * plan.addresses.len())?;
        let bound = BoundAddresses { host: process::host_name(), agent, interfaces, ranks };
        Ok(Self { key, security, own, sockets, interfaces: own_sockets, access, bound })
    }

    /// Binds sockets for one process, at all addresses of the node.
    fn bind_all(plan: &NodePlan) -> Result<(Vec<UdpSocket>, BoundAddress), Refusal> {
        let node = plan.node;
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for &at in &plan.addresses {
            let bound = || {
                let socket = UdpSocket::bind((at, 0))?;
                socket.set_nonblocking(true)?;
                let address = socket.local_addr()?;
                Ok((socket, address))
            };
            let (socket, address) = bound().map_err(|e: std::io::Error| {
                let what = format!("node {node} cannot be reached at {at}");
                Refusal::new(OsError::of(what, &e).to_string(), 126)
            })?;
            sockets.push(socket);
            addresses.push(address);
        }
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("node {node} cannot be reached: {e}"), 126)
        };
        let mut addresses = addresses.into_iter();
        let address = addresses.next().ok_or_else(|| refused(&"it was given no address"))?;
        // A random incarnation other than 0: no packet of an earlier job fits it.
        let random = process::random().map_err(|e| refused(&e))?;
        let others = std::array::from_fn(|_| addresses.next());
        Ok((sockets, BoundAddress { address, others, epoch: (random >> 32) as u32 | 1 }))
    }

    /// Writes the addresses of all processes into the node's memory.
    pub(crate) fn place_all(memory: &NodeMemory, table: &AddressTable) {
        for (block, at) in memory.rank_blocks().zip(&table.ranks) {
            block.set_place(place(at));
        }
        for (id, at) in memory.all_interfaces().zip(&table.interfaces) {
            if let Some(block) = memory.rank(id) {
                block.set_place(place(at));
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
            let seat = NetworkResources {
                sockets: cloned(sockets)?,
                direct: cloned(self.access.of(self.sockets.len() + which))?,
                key: Key::new(|| *self.key).map_err(|e| refused(&e))?,
                security: self.security,
                polling: (1, 1),
                tuning: NetworkTuning::configured(config),
            };
            let services = Services::default();
            NetworkInterface::start(memory, which as u32, services, seat, spin_ns)
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
