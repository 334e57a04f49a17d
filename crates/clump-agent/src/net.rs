//! What a node of several has beyond its memory: sockets, alarms, the key of the job.

use crate::access::Access;
use crate::frame::Key;
use crate::rank::Refusal;
use crate::spec::{Bound, NodePlan, Table, Where};
use clump_am::NetworkSeat;
use clump_boot::boot::{Line, NetOffer};
use clump_boot::{Config, NetDriver};
use clump_ni::Interface;
use clump_os::alarm::Alarm;
use clump_os::{process, topology};
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
    /// One per rank of the node, in order; none where proxies drive the network.
    sockets: Vec<UdpSocket>,
    /// Those of the node's network interfaces.
    interfaces: Vec<UdpSocket>,
    /// What these are driven by: the ranks', in order, and the interfaces'.
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
        let own_line = memory.proxies() == 0;
        let lines = memory.local_ranks().filter(|_| own_line).map(|_| bind());
        let (sockets, ranks): (Vec<_>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let lines = memory.own_interfaces().map(|_| bind());
        let (own_sockets, interfaces): (Vec<_>, Vec<_>) =
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let alarm = |number| Ok((number, Alarm::new().map_err(|e| refused(&e))?));
        let alarms = memory.local_ranks().chain(memory.own_interfaces()).map(alarm);
        memory.set_alarms(alarms.collect::<Result<_, Refusal>>()?);
        let (own, agent) = bind()?;
        let places: Vec<_> = ranks.iter().chain(&interfaces).map(|at| at.address).collect();
        let access = Access::open(driver, &places)?;
        let bound = Bound { host: process::host_name(), agent, interfaces, ranks };
        Ok(Self { key, security, own, sockets, interfaces: own_sockets, access, bound })
    }

    /// Writes where everybody is into the node's memory.
    pub(crate) fn place_all(memory: &NodeMemory, table: &Table) {
        let place = |at: &Where| Place { address: at.address, epoch: at.epoch };
        for (block, at) in memory.rank_blocks().zip(&table.ranks) {
            block.set_place(place(at));
        }
        for (id, at) in memory.all_interfaces().zip(&table.interfaces) {
            if let Some(block) = memory.rank(id) {
                block.set_place(place(at));
            }
        }
    }

    /// Starts the node's network interfaces. They spin only where cores are left for them.
    pub(crate) fn start_interfaces(
        &self,
        memory: &NodeMemory,
        config: &Config,
        sharing: usize,
    ) -> Result<Vec<Interface>, Refusal> {
        let node = memory.node();
        let refused = |e: &dyn std::fmt::Display| {
            Refusal::new(format!("the network interface of node {node} cannot run: {e}"), 126)
        };
        let all = memory.all_interfaces().len();
        let spin = sharing + all <= topology::usable_cores();
        let spin_ns = if spin { memory.patience_ns().0 } else { 0 };
        let start = |(which, socket): (usize, &UdpSocket)| {
            let direct = self.access.of(self.sockets.len() + which).iter().map(OwnedFd::try_clone);
            let seat = NetworkSeat {
                socket: socket.try_clone().map_err(|e| refused(&e))?.into(),
                direct: direct.collect::<Result<_, _>>().map_err(|e| refused(&e))?,
                key: Key::new(|| *self.key).map_err(|e| refused(&e))?,
                security: self.security,
                polling: (1, 1),
                window: (config.net_window != 0).then_some(config.net_window as usize),
                faults: clump_am::faults(config),
            };
            Interface::start(memory, which as u32, seat, spin_ns).map_err(|e| refused(&e))
        };
        self.interfaces.iter().enumerate().map(start).collect()
    }

    /// The alarms of the node's ranks, in order, and those of its network interfaces.
    pub(crate) fn alarms<'a>(&self, memory: &'a NodeMemory) -> Vec<BorrowedFd<'a>> {
        let all = memory.local_ranks().chain(memory.own_interfaces());
        all.filter_map(|rank| Some(memory.alarm(rank)?.as_fd())).collect()
    }

    /// What `rank` gets.
    pub(crate) fn offer<'a>(
        &'a self,
        rank: u32,
        first: u32,
        alarms: &'a [BorrowedFd<'a>],
    ) -> NetOffer<'a> {
        let at = (rank - first) as usize;
        let line = self.sockets.get(at).map(|socket| Line {
            socket: socket.as_fd(),
            direct: self.access.of(at),
            key: &self.key,
            security: self.security,
        });
        let interfaces = self.interfaces.len() as u32;
        NetOffer { line, first, interfaces, alarms }
    }
}
