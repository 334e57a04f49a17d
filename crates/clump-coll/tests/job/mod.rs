//! Jobs of threads: each rank a thread, each node a memory of its own, sockets on loopback between them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use clump_am::{FaultPlan, NetworkSeat, RankContext, Settings};
use clump_coll::Team;
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_shm::job::Death;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::{Place, RankState};
use clump_wire::Security;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Ranks and nodes of a job, and what its network does wrong.
#[derive(Debug, Clone)]
pub struct Shape {
    pub ranks: usize,
    /// Ranks are spread as evenly as they go.
    pub nodes: usize,
    pub survive: bool,
    pub faults: Option<FaultPlan>,
}

impl Shape {
    pub fn of(ranks: usize, nodes: usize) -> Self {
        Self { ranks, nodes, survive: false, faults: None }
    }

    /// The same over a network that loses, doubles and delays a part of what it carries.
    pub fn troubled(self) -> Self {
        let faults = FaultPlan {
            loss: 0.02,
            duplication: 0.05,
            reordering: 0.2,
            jitter_ns: 100_000,
            ..FaultPlan::default()
        };
        Self { faults: Some(faults), ..self }
    }

    fn node_of(&self) -> Vec<u32> {
        (0..self.ranks).map(|rank| (rank * self.nodes / self.ranks) as u32).collect()
    }
}

/// The memories of all nodes of a job: what their agents and the launcher keep alike.
#[derive(Debug, Clone)]
pub struct Nodes(Vec<NodeMemory>);

impl Nodes {
    /// A rank died, and all nodes know.
    pub fn declare_dead(&self, death: Death) {
        self.0.iter().for_each(|node| node.declare_dead(death));
    }

    /// A rank finalizes, and all nodes know.
    pub fn finalize(&self, rank: u32) {
        for node in &self.0 {
            let block = node.rank(rank).unwrap();
            if node.is_local(rank) {
                block.finalize();
            } else {
                block.mirror_state(RankState::Finalized);
            }
        }
    }
}

/// One rank of a job.
pub struct Seat {
    pub context: Arc<RankContext>,
    pub nodes: Nodes,
}

/// Runs `body` as every rank of a job and gives what they return, in rank order.
pub fn run<R: Send + 'static>(
    shape: &Shape,
    body: impl Fn(Team, &Seat) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let seats = seats(shape);
    let rank = |seat: Seat| {
        let body = body.clone();
        std::thread::spawn(move || {
            let result = body(Team::form(&seat.context).unwrap(), &seat);
            seat.context.close_network();
            seat.nodes.finalize(seat.context.rank());
            result
        })
    };
    let threads: Vec<_> = seats.into_iter().map(rank).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn seats(shape: &Shape) -> Vec<Seat> {
    let Shape { ranks, nodes, survive, .. } = *shape;
    let sockets: Vec<UdpSocket> =
        (0..ranks).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let node_of = shape.node_of();
    let memory = |node: u32| {
        // Tests share few cores: yield soon.
        let config = NodeConfig {
            ranks,
            node,
            node_of: &node_of,
            job_id: 77,
            survive,
            spin_ns: 300,
            yield_ns: 50_000,
        };
        let mut memory = NodeMemory::create(&config).unwrap();
        if nodes > 1 {
            let local = memory.local_ranks();
            memory.set_alarms(local.map(|rank| (rank, Alarm::new().unwrap())).collect());
            for (socket, rank) in sockets.iter().zip(0..) {
                let place = Place { address: socket.local_addr().unwrap(), epoch: 100 + rank };
                memory.rank(rank).unwrap().set_place(place);
            }
        }
        memory
    };
    let memories = Nodes((0..nodes as u32).map(memory).collect());
    let seat = |(rank, socket): (u32, UdpSocket)| {
        let node = &memories.0[node_of[rank as usize] as usize];
        let settings = Settings::default();
        let seat = NetworkSeat {
            socket: OwnedFd::from(socket),
            direct: Vec::new(),
            key: Secret::taking(&mut [7; 32]).unwrap(),
            security: Security::Crc,
            polling: (4, 16),
            window: None,
            faults: shape.faults.clone().map(|plan| (plan, 1 + u64::from(rank))),
        };
        let context = match nodes {
            1 => RankContext::new(node, rank, settings),
            _ => RankContext::with_network(node, rank, settings, seat),
        };
        let context = Arc::new(context.unwrap());
        context.block().join(std::process::id()).unwrap();
        Seat { context, nodes: memories.clone() }
    };
    (0..).zip(sockets).map(seat).collect()
}
