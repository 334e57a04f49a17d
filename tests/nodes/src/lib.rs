//! Jobs of threads: each rank a thread, each node a memory of its own with its network interfaces,
//! joined by UDP sockets on loopback. For tests of communication between nodes; no process is
//! started.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "helpers of a test may give up")]

use clump_am::{RankContext, Settings};
use clump_ni::NetworkInterface;
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_os::sync::{AtomicUsize, Ordering};
use clump_rma::{Rma, Segment, SegmentName, Target};
use clump_shm::job::Death;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::{ProcessAddress, RankState};
use clump_transport::{Dispatch, FaultPlan, NetworkResources, NetworkTuning};
use clump_wire::Security;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Time limit of a program: one that takes longer has a call that never returns.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Ranks and nodes of a job, and the faults of its network.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Ranks.
    pub ranks: usize,
    /// Nodes; ranks are spread as evenly as they go.
    pub nodes: usize,
    /// Proxies of each node; 0: ranks drive stacks of their own.
    pub proxies: u32,
    /// Policy that spreads messages over proxies.
    pub dispatch: Dispatch,
    /// True if the job goes on when a rank dies.
    pub survive: bool,
    /// Faults of the network.
    pub faults: Option<FaultPlan>,
}

impl Shape {
    /// Creates a shape of so many ranks on so many nodes.
    pub fn of(ranks: usize, nodes: usize) -> Self {
        let (proxies, dispatch) = (0, Dispatch::Fixed);
        Self { ranks, nodes, proxies, dispatch, survive: false, faults: None }
    }

    /// Adds proxies.
    pub fn by_proxies(self, proxies: u32, dispatch: Dispatch) -> Self {
        Self { proxies, dispatch, ..self }
    }

    /// Adds a network that loses, duplicates and delays some packets.
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

    /// Lets the job go on when a rank dies.
    pub fn surviving(self) -> Self {
        Self { survive: true, ..self }
    }

    /// Returns the shape without proxies, and with them under each policy of dispatch.
    pub fn every_way(self) -> Vec<Self> {
        let by = |(proxies, dispatch)| self.clone().by_proxies(proxies, dispatch);
        let ways = [
            (1, Dispatch::Fixed),
            (2, Dispatch::Fixed),
            (2, Dispatch::RoundRobin),
            (3, Dispatch::LeastLoaded),
        ];
        [self.clone()].into_iter().chain(ways.map(by)).collect()
    }
}

/// State that all ranks share besides clump, to synchronize without it.
#[derive(Debug)]
pub struct Shared {
    nodes: Vec<NodeMemory>,
    arrived: AtomicUsize,
    names: Mutex<Vec<Vec<SegmentName>>>,
    ranks: usize,
}

/// One rank of a job.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The rank's context.
    pub context: Arc<RankContext>,
    shared: Arc<Shared>,
}

impl Seat {
    /// Returns the rank.
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    /// Returns the rank's node.
    pub fn node(&self) -> u32 {
        self.context.node().node()
    }

    /// Returns the number of ranks of the job.
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

    /// Gathers the names of segments from all ranks; all ranks must call it in the same order.
    pub fn exchange(&self, name: SegmentName) -> Vec<SegmentName> {
        self.meet();
        self.shared.names.lock().unwrap()[self.rank()].push(name);
        self.meet();
        let all = self.shared.names.lock().unwrap();
        all.iter().map(|names| *names.last().unwrap()).collect()
    }

    /// Exports so many bytes on every rank.
    pub fn allocate(&self, rma: &Rma, bytes: u64) -> (Segment, Vec<Target>) {
        let mine = rma.export(bytes).unwrap();
        let names = self.exchange(mine.name());
        (mine, names.into_iter().map(|name| rma.target(name).unwrap()).collect())
    }

    /// Declares a rank dead on all nodes.
    pub fn declare_dead(&self, death: Death) {
        self.shared.nodes.iter().for_each(|node| node.declare_dead(death));
    }

    /// Finalizes the rank on all nodes.
    pub fn finalize(&self) {
        let rank = self.context.rank();
        let barrier = self.context.node().last_barrier(rank);
        for node in &self.shared.nodes {
            let block = node.rank(rank).unwrap();
            if node.is_local(rank) {
                block.finalize();
            } else {
                node.mirror_last_barrier(rank, barrier);
                block.mirror_state(RankState::Finalized);
            }
        }
    }
}

/// Runs `body` as every rank of a job, within a time limit, and returns their results, in rank
/// order; `seed` determines the network's faults.
pub fn run<R: Send + 'static>(
    shape: &Shape,
    seed: u64,
    body: impl Fn(&Seat) -> R + Clone + Send + 'static,
) -> Vec<R> {
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
        let in_time = end.recv_timeout(LIMIT).is_ok();
        assert!(in_time, "a call blocks for ever (seed {seed}, {shape:?})");
    }
    let results = threads.into_iter().map(|thread| match thread.join().unwrap() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    let results = results.collect();
    drop(interfaces);
    results
}

fn bound() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn network_seat(shape: &Shape, socket: UdpSocket, seed: u64) -> NetworkResources {
    NetworkResources {
        sockets: vec![OwnedFd::from(socket)],
        direct: Vec::new(),
        key: Secret::taking(&mut [7; 32]).unwrap(),
        security: Security::Crc,
        polling: (4, 16),
        tuning: NetworkTuning {
            faults: shape.faults.clone().map(|plan| (plan, seed)),
            ..Default::default()
        },
    }
}

/// Creates the memory of a node. Tests share few cores: ranks yield soon.
fn memory(shape: &Shape, node_of: &[u32], node: u32, sockets: &[UdpSocket]) -> NodeMemory {
    let Shape { ranks, nodes, proxies, survive, .. } = *shape;
    let (spin_ns, yield_ns) = (300, 50_000);
    let config =
        NodeConfig { ranks, node, node_of, proxies, job_id: 77, survive, spin_ns, yield_ns };
    let mut memory = NodeMemory::create(&config).unwrap();
    if nodes > 1 {
        let awake = memory.local_ranks().chain(memory.own_interfaces());
        memory.set_alarms(awake.map(|number| (number, Alarm::new().unwrap())).collect());
        for (socket, id) in sockets.iter().zip(0..) {
            let (address, others) = (socket.local_addr().unwrap(), Default::default());
            let place = ProcessAddress { address, others, epoch: 100 + id };
            memory.rank(id).unwrap().set_place(place);
        }
    }
    memory
}

fn seats(shape: &Shape, seed: u64) -> (Vec<Seat>, Vec<NetworkInterface>) {
    let Shape { ranks, nodes, proxies, .. } = *shape;
    let node_of: Vec<u32> = (0..ranks).map(|rank| (rank * nodes / ranks) as u32).collect();
    let each = if nodes > 1 { proxies.max(1) } else { 0 };
    // By number: of ranks, then of interfaces.
    let sockets: Vec<UdpSocket> = (0..ranks + nodes * each as usize).map(|_| bound()).collect();
    let memories: Vec<NodeMemory> =
        (0..nodes as u32).map(|node| memory(shape, &node_of, node, &sockets)).collect();
    let socket = |id: u32| sockets[id as usize].try_clone().unwrap();
    let start = |memory: &NodeMemory, which: u32| {
        let id = memory.own_interfaces().start + which;
        let seat = network_seat(shape, socket(id), seed + 1000 + u64::from(id));
        NetworkInterface::start(memory, which, seat, 0).unwrap()
    };
    let start = &start;
    let interfaces =
        memories.iter().flat_map(|memory| (0..each).map(move |which| start(memory, which)));
    let interfaces = interfaces.collect();
    let shared = Arc::new(Shared {
        nodes: memories.clone(),
        arrived: AtomicUsize::new(0),
        names: Mutex::new(vec![Vec::new(); ranks]),
        ranks,
    });
    let seat = |rank: u32| {
        let node = &memories[node_of[rank as usize] as usize];
        let settings = Settings::default();
        let context = match (nodes, proxies) {
            (1, _) => RankContext::new(node, rank, settings),
            (_, 0) => {
                let seat = network_seat(shape, socket(rank), seed + u64::from(rank));
                RankContext::with_network(node, rank, settings, seat)
            }
            _ => RankContext::with_proxies(node, rank, settings, shape.dispatch),
        };
        let context = Arc::new(context.unwrap());
        context.block().join(std::process::id()).unwrap();
        Seat { context, shared: shared.clone() }
    };
    ((0..ranks as u32).map(seat).collect(), interfaces)
}
