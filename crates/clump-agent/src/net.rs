//! What a node of several has beyond its memory: sockets, alarms, the key of the job.

use crate::access::Access;
use crate::frame::Key;
use crate::rank::Refusal;
use crate::spec::{Bound, NodePlan, Table, Where};
use clump_am::NetworkSeat;
use clump_boot::boot::NetOffer;
use clump_boot::{Config, NetDriver};
use clump_os::alarm::Alarm;
use clump_os::{process, topology};
use clump_rma::Interface;
use clump_shm::node::NodeMemory;
use clump_shm::rank::Place;
use clump_wire::Security;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A node's part in the network between nodes, until its ranks have been started.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) key: Key,
    pub(crate) security: Security,
    /// The agent's own socket.
    pub(crate) own: UdpSocket,
    /// That of the node's network interface.
    interface: UdpSocket,
    /// One per rank of the node, in order.
    sockets: Vec<UdpSocket>,
    /// What these are driven by: the ranks', in order, and the interface's.
    pub(crate) access: Access,
    /// Where all of these are.
    pub(crate) bound: Bound,
}

impl Net {
    /// Binds sockets, and gives the node's ranks alarms.
    pub(crate) fn bind(
        plan: &NodePlan,
        memory: &mut NodeMemory,
        key: Key,
        (security, driver): (Security, NetDriver),
    ) -> Result<Self, Refusal> {
        let refused = |e: &dyn std::fmt::Display| {
            let (node, address) = (plan.node, plan.address);
            Refusal::new(format!("node {node} cannot be reached at {address}: {e}"), 126)
        };
        let bind = || -> Result<(UdpSocket, Where), Refusal> {
            let socket = UdpSocket::bind((plan.address, 0)).map_err(|e| refused(&e))?;
            socket.set_nonblocking(true).map_err(|e| refused(&e))?;
            let address = socket.local_addr().map_err(|e| refused(&e))?;
            // An incarnation that is random and not 0: nothing that an earlier job sent fits it.
            let random = process::random().map_err(|e| refused(&e))?;
            Ok((socket, Where { address, epoch: (random >> 32) as u32 | 1 }))
        };
        let (mut sockets, mut ranks, mut alarms) = (Vec::new(), Vec::new(), Vec::new());
        for rank in memory.local_ranks() {
            let (socket, place) = bind()?;
            sockets.push(socket);
            ranks.push(place);
            alarms.push((rank, Alarm::new().map_err(|e| refused(&e))?));
        }
        let alarm = Alarm::new().map_err(|e| refused(&e))?;
        alarms.push((memory.interface_id(plan.node), alarm));
        memory.set_alarms(alarms);
        let (own, agent) = bind()?;
        let (socket, interface) = bind()?;
        let places: Vec<_> = ranks.iter().chain([&interface]).map(|at| at.address).collect();
        let access = Access::open(driver, &places)?;
        let bound = Bound { host: process::host_name(), agent, interface, ranks };
        Ok(Self { key, security, own, interface: socket, sockets, access, bound })
    }

    /// Writes where everybody is into the node's memory.
    pub(crate) fn place_all(memory: &NodeMemory, table: &Table) {
        let place = |at: &Where| Place { address: at.address, epoch: at.epoch };
        for (block, at) in memory.rank_blocks().zip(&table.ranks) {
            block.set_place(place(at));
        }
        for (node, at) in (0..).zip(&table.interfaces) {
            memory.set_interface_place(node, place(at));
        }
    }

    /// Starts the node's network interface. It spins only where a core is left for it.
    pub(crate) fn start_interface(
        &self,
        memory: &NodeMemory,
        config: &Config,
        sharing: usize,
    ) -> Result<Interface, Refusal> {
        let node = memory.node();
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("the network interface of node {node} cannot run: {e}"), 126)
        };
        let direct = self.access.of(self.sockets.len()).iter().map(OwnedFd::try_clone);
        let seat = NetworkSeat {
            socket: self.interface.try_clone().map_err(|e| refused(&e))?.into(),
            direct: direct.collect::<Result<_, _>>().map_err(|e| refused(&e))?,
            key: Key::new(|| *self.key).map_err(|e| refused(&e))?,
            security: self.security,
            polling: (1, 1),
            window: (config.net_window != 0).then_some(config.net_window as usize),
            faults: clump_am::faults(config),
        };
        let alone = sharing + memory.nnodes() as usize <= topology::usable_cores();
        let spin_ns = if alone { memory.patience_ns().0 } else { 0 };
        Interface::start(memory, seat, spin_ns).map_err(|e| refused(&e))
    }

    /// The alarms of the node's ranks, in order, and that of its network interface.
    pub(crate) fn alarms<'a>(&self, memory: &'a NodeMemory) -> Vec<BorrowedFd<'a>> {
        let interface = memory.interface_id(memory.node());
        let all = memory.local_ranks().chain([interface]);
        all.filter_map(|rank| Some(memory.alarm(rank)?.as_fd())).collect()
    }

    /// What `rank` gets.
    pub(crate) fn offer<'a>(
        &'a self,
        rank: u32,
        first: u32,
        alarms: &'a [BorrowedFd<'a>],
    ) -> Option<NetOffer<'a>> {
        let at = (rank - first) as usize;
        let (socket, direct) = (self.sockets.get(at)?.as_fd(), self.access.of(at));
        Some(NetOffer { socket, direct, key: &self.key, security: self.security, first, alarms })
    }
}
