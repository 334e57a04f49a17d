//! Jobs of threads: each rank a thread, each node a memory of its own with its network interface, joined
//! by UDP sockets on loopback.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{FaultPlan, NetworkSeat, RankContext, Settings};
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_os::sync::{AtomicUsize, Ordering};
use clump_rma::Interface;
use clump_shm::job::Death;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::{Place, RankState};
use clump_wire::Security;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A program that takes longer has a call that never returns.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Ranks and nodes of a job, and what its network does wrong.
#[derive(Debug, Clone)]
pub struct Shape {
    pub ranks: usize,
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

    pub fn surviving(self) -> Self {
        Self { survive: true, ..self }
    }
}

/// What all ranks share besides clump, to agree by without it.
pub struct Shared {
    nodes: Vec<NodeMemory>,
    arrived: AtomicUsize,
    ranks: usize,
}

/// One rank of a job.
#[derive(Clone)]
pub struct Seat {
    pub context: Arc<RankContext>,
    pub shared: Arc<Shared>,
}

impl Seat {
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    pub fn ranks(&self) -> usize {
        self.shared.ranks
    }

    /// Returns when all ranks have called it as often as this one.
    pub fn meet(&self) {
        let before = self.shared.arrived.fetch_add(1, Ordering::SeqCst);
        let full = (before / self.shared.ranks + 1) * self.shared.ranks;
        while self.shared.arrived.load(Ordering::SeqCst) < full {
            std::thread::yield_now();
        }
    }

    /// Ranks of other threads of this process know it as one of theirs.
    pub fn node(&self) -> u32 {
        self.context.node().node()
    }

    /// A rank died, and all nodes know.
    pub fn declare_dead(&self, death: Death) {
        self.shared.nodes.iter().for_each(|node| node.declare_dead(death));
    }

    /// This rank ends without a word.
    pub fn finalize(&self) {
        let rank = self.context.rank();
        for node in &self.shared.nodes {
            let block = node.rank(rank).unwrap();
            if node.is_local(rank) {
                block.finalize();
            } else {
                block.mirror_state(RankState::Finalized);
            }
        }
    }
}

/// Runs `body` as every rank of a job, in time; `seed` decides what the network does wrong.
pub fn run(shape: &Shape, seed: u64, body: impl Fn(&Seat) + Clone + Send + 'static) {
    let (seats, interfaces) = seats(shape, seed);
    let (ended, end) = std::sync::mpsc::channel();
    let rank = |seat: Seat| {
        let (body, ended) = (body.clone(), ended.clone());
        std::thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&seat)));
            if result.is_ok() {
                seat.context.close_network();
                seat.finalize();
            }
            let _ = ended.send(());
            result
        })
    };
    let threads: Vec<_> = seats.into_iter().map(rank).collect();
    for _ in 0..shape.ranks {
        assert!(end.recv_timeout(LIMIT).is_ok(), "a call blocks for ever (seed {seed})");
    }
    for thread in threads {
        if let Err(panic) = thread.join().unwrap() {
            std::panic::resume_unwind(panic);
        }
    }
    drop(interfaces);
}

fn bound() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn network_seat(shape: &Shape, socket: UdpSocket, seed: u64) -> NetworkSeat {
    NetworkSeat {
        socket: OwnedFd::from(socket),
        direct: Vec::new(),
        key: Secret::taking(&mut [7; 32]).unwrap(),
        security: Security::Crc,
        polling: (4, 16),
        window: None,
        faults: shape.faults.clone().map(|plan| (plan, seed)),
    }
}

fn seats(shape: &Shape, seed: u64) -> (Vec<Seat>, Vec<Interface>) {
    let Shape { ranks, nodes, survive, .. } = *shape;
    let sockets: Vec<UdpSocket> = (0..ranks).map(|_| bound()).collect();
    let own: Vec<UdpSocket> = (0..nodes).map(|_| bound()).collect();
    let node_of: Vec<u32> = (0..ranks).map(|rank| (rank * nodes / ranks) as u32).collect();
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
        if nodes == 1 {
            return memory;
        }
        let awake = memory.local_ranks().chain([memory.interface_id(node)]);
        memory.set_alarms(awake.map(|number| (number, Alarm::new().unwrap())).collect());
        for (socket, rank) in sockets.iter().zip(0..) {
            let place = Place { address: socket.local_addr().unwrap(), epoch: 100 + rank };
            memory.rank(rank).unwrap().set_place(place);
        }
        for (socket, node) in own.iter().zip(0..) {
            let place = Place { address: socket.local_addr().unwrap(), epoch: 900 + node };
            memory.set_interface_place(node, place);
        }
        memory
    };
    let memories: Vec<NodeMemory> = (0..nodes as u32).map(memory).collect();
    let start = |(socket, memory): (UdpSocket, &NodeMemory)| {
        let seat = network_seat(shape, socket, seed + 1000 + u64::from(memory.node()));
        Interface::start(memory, seat, 0).unwrap()
    };
    let interfaces = match nodes {
        1 => Vec::new(),
        _ => own.into_iter().zip(&memories).map(start).collect(),
    };
    let shared = Arc::new(Shared { nodes: memories.clone(), arrived: AtomicUsize::new(0), ranks });
    let seat = |(rank, socket): (u32, UdpSocket)| {
        let node = &memories[node_of[rank as usize] as usize];
        let settings = Settings::default();
        let context = match nodes {
            1 => RankContext::new(node, rank, settings),
            _ => {
                let seat = network_seat(shape, socket, seed + u64::from(rank));
                RankContext::with_network(node, rank, settings, seat)
            }
        };
        let context = Arc::new(context.unwrap());
        context.block().join(std::process::id()).unwrap();
        Seat { context, shared: shared.clone() }
    };
    ((0..).zip(sockets).map(seat).collect(), interfaces)
}
