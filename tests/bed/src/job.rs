//! A job of threads: memories of its nodes, contexts of its ranks, and their run.

use crate::SPIN_AND_YIELD_NS;
use crate::hang;
use crate::seat::{Seat, Shared};
use crate::shape::Shape;
use clump_am::RankContext;
use clump_interface::{NetworkInterface, Services};
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::ProcessAddress;
use clump_transport::{NetworkResources, NetworkTuning};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::Builder;

/// Time limit of a program: one that takes longer has a call that never returns.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// A job whose ranks have joined, and run no program yet.
#[derive(Debug)]
pub struct Job {
    /// Its ranks, in order.
    pub seats: Vec<Seat>,
    /// The memories of its nodes.
    pub nodes: Vec<NodeMemory>,
    /// Network interfaces of all nodes, which work until they are dropped.
    pub interfaces: Vec<NetworkInterface>,
}

impl Job {
    /// Creates a job; `seed` determines the network's faults.
    pub fn new(shape: &Shape, seed: u64) -> Self {
        let Shape { ranks, nodes, proxies, settings, .. } = *shape;
        let node_of: Vec<u32> = (0..ranks).map(|rank| (rank * nodes / ranks) as u32).collect();
        let each = if nodes > 1 && shape.interfaces { proxies.max(1) } else { 0 };
        // By number: of ranks, then of interfaces.
        let sockets: Vec<UdpSocket> = (0..ranks + nodes * each as usize).map(|_| bound()).collect();
        let memories: Vec<NodeMemory> =
            (0..nodes as u32).map(|node| memory(shape, &node_of, node, &sockets)).collect();
        let socket = |id: u32| sockets[id as usize].try_clone().unwrap();
        let start = |memory: &NodeMemory, which: u32| {
            let id = memory.own_interfaces().start + which;
            let resources = network(shape, socket(id), seed + 1000 + u64::from(id));
            NetworkInterface::start(memory, which, Services::default(), resources, 0).unwrap()
        };
        let start = &start;
        let interfaces =
            memories.iter().flat_map(|memory| (0..each).map(move |which| start(memory, which)));
        let interfaces = interfaces.collect();
        let shared = Arc::new(Shared::new(memories.clone(), ranks));
        let seat = |rank: u32| {
            let node = &memories[node_of[rank as usize] as usize];
            let context = match (nodes, proxies) {
                (1, _) => RankContext::new(node, rank, settings),
                (_, 0) => {
                    let resources = network(shape, socket(rank), seed + u64::from(rank));
                    RankContext::with_network(node, rank, settings, resources)
                }
                _ => RankContext::with_proxies(node, rank, settings, shape.dispatch),
            };
            let context = Arc::new(context.unwrap());
            context.node().join(rank, std::process::id()).unwrap();
            Seat { context, shared: shared.clone() }
        };
        Self { seats: (0..ranks as u32).map(seat).collect(), nodes: memories, interfaces }
    }
}

/// Runs `body` as every rank of a job, within a time limit, and returns their results, in rank
/// order; `seed` determines the network's faults.
pub fn run<R: Send + 'static>(
    shape: &Shape,
    seed: u64,
    body: impl Fn(&Seat) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let Job { seats, interfaces, nodes } = Job::new(shape, seed);
    let (ended, end) = std::sync::mpsc::channel();
    let rank = |seat: Seat| {
        let (body, ended) = (body.clone(), ended.clone());
        let named = Builder::new().name(format!("rank {}", seat.context.rank()));
        let started = named.spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&seat)));
            if result.is_ok() {
                seat.context.close_network();
                seat.finalize();
            }
            let _ = ended.send(());
            result
        });
        started.unwrap()
    };
    let threads: Vec<_> = seats.into_iter().map(rank).collect();
    for _ in 0..shape.ranks {
        let in_time = end.recv_timeout(LIMIT).is_ok();
        let stuck = || hang::report(&nodes);
        assert!(in_time, "a call blocks for ever (seed {seed}, {shape:?})\n{}", stuck());
    }
    let results = threads.into_iter().map(|thread| match thread.join().unwrap() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    });
    let results = results.collect();
    drop((interfaces, nodes));
    results
}

/// Runs `body` with the context of every rank of a job, as [`run`] does.
pub fn each_rank<R: Send + 'static>(
    shape: &Shape,
    body: impl Fn(Arc<RankContext>) -> R + Clone + Send + 'static,
) -> Vec<R> {
    run(shape, 1, move |seat| body(seat.context.clone()))
}

fn bound() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn network(shape: &Shape, socket: UdpSocket, seed: u64) -> NetworkResources {
    NetworkResources {
        sockets: vec![OwnedFd::from(socket)],
        direct: Vec::new(),
        key: Secret::taking(&mut [7; 32]).unwrap(),
        security: shape.security,
        polling: (4, 16),
        tuning: NetworkTuning {
            faults: shape.faults.clone().map(|plan| (plan, seed)),
            ..Default::default()
        },
    }
}

/// Creates the memory of a node.
fn memory(shape: &Shape, node_of: &[u32], node: u32, sockets: &[UdpSocket]) -> NodeMemory {
    let Shape { ranks, nodes, proxies, survive, detour, .. } = *shape;
    let (spin_ns, yield_ns) = SPIN_AND_YIELD_NS;
    let config = NodeConfig {
        node,
        node_of,
        proxies,
        job_id: 77,
        survive,
        spin_ns,
        yield_ns,
        ..NodeConfig::new(ranks)
    };
    let mut memory = NodeMemory::create(&config).unwrap();
    if nodes > 1 {
        let awake = memory.local_ranks().chain(memory.own_interfaces());
        memory.set_alarms(awake.map(|number| (number, Alarm::new().unwrap())).collect());
        for (socket, id) in sockets.iter().zip(0..) {
            let detour = detour.filter(|(to, _)| *to == id && !memory.is_local(id));
            let address =
                detour.map_or_else(|| socket.local_addr().unwrap(), |(_, address)| address);
            let place = ProcessAddress { address, others: Default::default(), epoch: 100 + id };
            memory.peer(id).unwrap().set_place(place);
        }
    }
    memory
}
