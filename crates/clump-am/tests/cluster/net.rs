//! Ranks as threads of one process, on nodes of their own memory, joined by UDP sockets on
//! loopback.

use clump_am::{RankContext, Settings};
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::ProcessAddress;
use clump_transport::{FaultPlan, NetworkResources, NetworkTuning};
use clump_wire::Security;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Properties of the network between the nodes of a test.
#[derive(Debug, Clone)]
pub struct Between {
    /// Number of nodes; ranks are spread evenly.
    pub nodes: usize,
    pub security: Security,
    pub faults: Option<(FaultPlan, u64)>,
    /// A rank, and the address at which ranks of other nodes believe it to be: a proxy between them
    /// listens there.
    pub detour: Option<(u32, SocketAddr)>,
}

impl Between {
    pub fn nodes(nodes: usize, security: Security) -> Self {
        Self { nodes, security, faults: None, detour: None }
    }
}

/// Creates the contexts of all ranks, in rank order, and the memories of the nodes.
pub fn contexts(
    ranks: usize,
    settings: Settings,
    between: &Between,
    survive: bool,
) -> (Vec<Arc<RankContext>>, Vec<NodeMemory>) {
    let node_of: Vec<u32> = (0..ranks).map(|r| (r * between.nodes / ranks) as u32).collect();
    let bound = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let sockets: Vec<UdpSocket> = (0..ranks).map(|_| bound()).collect();
    let nodes: Vec<NodeMemory> = (0..between.nodes as u32)
        .map(|node| {
            let config = NodeConfig {
                ranks,
                node,
                node_of: &node_of,
                proxies: 0,
                job_id: 9,
                survive,
                spin_ns: 300,
                yield_ns: 50_000,
            };
            let mut memory = NodeMemory::create(&config).unwrap();
            let local = memory.local_ranks();
            memory.set_alarms(local.map(|rank| (rank, Alarm::new().unwrap())).collect());
            for (rank, socket) in sockets.iter().enumerate() {
                let detour = between.detour.filter(|(to, _)| *to == rank as u32);
                let detour = detour.filter(|_| node_of[rank] != node).map(|(_, address)| address);
                let address = detour.unwrap_or_else(|| socket.local_addr().unwrap());
                let (others, epoch) = (Default::default(), 100 + rank as u32);
                let place = ProcessAddress { address, others, epoch };
                memory.rank(rank as u32).unwrap().set_place(place);
            }
            memory
        })
        .collect();
    let contexts = sockets.into_iter().zip(0..).map(|(socket, rank)| {
        let seat = NetworkResources {
            sockets: vec![OwnedFd::from(socket)],
            direct: Vec::new(),
            key: Secret::taking(&mut [7; 32]).unwrap(),
            security: between.security,
            polling: (4, 16),
            tuning: NetworkTuning { faults: between.faults.clone(), ..Default::default() },
        };
        let node = &nodes[node_of[rank as usize] as usize];
        let context = RankContext::with_network(node, rank, settings, seat).unwrap();
        context.block().join(std::process::id()).unwrap();
        Arc::new(context)
    });
    (contexts.collect(), nodes.clone())
}

/// Runs `body` as every rank, each in a thread of its own, and returns their results.
pub fn run<R: Send + 'static>(
    ranks: usize,
    settings: Settings,
    between: &Between,
    body: impl Fn(Arc<RankContext>) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let (contexts, _nodes) = contexts(ranks, settings, between, false);
    let threads: Vec<_> = contexts
        .into_iter()
        .map(|context| {
            let body = body.clone();
            std::thread::spawn(move || {
                let result = body(context.clone());
                context.close_network();
                result
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}
