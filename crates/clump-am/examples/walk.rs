//! One short message out and in, on one node and between two nodes, for `cargo xtask walk`.
//!
//! Each step of the message is a function of its own, called once after some messages have taken
//! the same path. Prints the name of each.

use clump_am::{Dest, Endpoint, Handler, RankContext, Settings, Tag};
use clump_os::clock;
use clump_os::secret::Secret;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::ProcessAddress;
use clump_transport::{NetworkResources, NetworkTuning};
use clump_wire::Security;
use std::error::Error;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Messages that go ahead, so that nothing is done for the first time.
const AHEAD: u64 = 40;
/// Nanoseconds without messages before the one that counts.
const PAUSE_NS: u64 = 50_000_000;
/// Time for which an acknowledgement waits: longer than the step that takes the message in.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// Polls of which one looks at the network, at least.
const POLLS: u32 = 40;
const SINK: Handler = Handler(1);

#[inline(never)]
fn walk_out_one_node(ep: &Endpoint, dest: Dest) -> bool {
    ep.try_request(dest, SINK, 1_u64).is_ok()
}

#[inline(never)]
fn walk_in_one_node(ep: &Endpoint) -> usize {
    ep.poll().unwrap_or(0)
}

#[inline(never)]
fn walk_out_between_nodes(ep: &Endpoint, dest: Dest) -> bool {
    ep.try_request(dest, SINK, 1_u64).is_ok()
}

#[inline(never)]
fn walk_in_between_nodes(ep: &Endpoint) -> usize {
    ep.poll().unwrap_or(0)
}

/// Called where the acknowledgement of the message is due, and where it comes.
#[inline(never)]
fn walk_acknowledge_between_nodes(ep: &Endpoint) -> usize {
    ep.poll().unwrap_or(0)
}

/// Creates the contexts of two ranks on `nodes` nodes, joined by sockets on loopback.
fn contexts(nodes: u32) -> Result<Vec<Arc<RankContext>>, Box<dyn Error>> {
    let node_of = [0, nodes - 1];
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let mut memories = Vec::new();
    for node in 0..nodes {
        let config = NodeConfig {
            node,
            node_of: &node_of,
            spin_ns: 1000,
            yield_ns: 1000,
            ..NodeConfig::new(2)
        };
        let memory = NodeMemory::create(&config)?;
        for (rank, socket) in (0..).zip(&sockets) {
            let place = ProcessAddress {
                address: socket.local_addr()?,
                others: Default::default(),
                epoch: 100 + rank,
            };
            memory.peer(rank).ok_or("no such rank")?.set_place(place);
        }
        memories.push(memory);
    }
    let context = |(rank, socket): (u32, UdpSocket)| -> Result<_, Box<dyn Error>> {
        let resources = NetworkResources {
            sockets: vec![OwnedFd::from(socket)],
            direct: Vec::new(),
            key: Secret::taking(&mut [7; 32])?,
            security: Security::Crc,
            polling: (4, 16),
            tuning: NetworkTuning { ack_delay: ACK_DELAY, ..NetworkTuning::default() },
        };
        let memory = &memories[node_of[rank as usize] as usize];
        let context = if nodes == 1 {
            RankContext::new(memory, rank, Settings::default())?
        } else {
            RankContext::with_network(memory, rank, Settings::default(), resources)?
        };
        let held = |by| format!("the rank is taken by process {by}");
        context.node().join(rank, std::process::id()).map_err(held)?;
        Ok(Arc::new(context))
    };
    (0..).zip(sockets).map(context).collect()
}

/// Sends messages ahead, then one by `out`, which `take` handles.
fn walk(
    nodes: u32,
    out: fn(&Endpoint, Dest) -> bool,
    take: fn(&Endpoint) -> usize,
) -> Result<(), Box<dyn Error>> {
    let contexts = contexts(nodes)?;
    let here = Endpoint::open(&contexts[0], Tag(1))?;
    let there = Endpoint::open(&contexts[1], Tag(1))?;
    there.set_handler(SINK, |_, _, _| ())?;
    let dest = here.map(&there.name(), Tag(1))?;
    for i in 0..AHEAD {
        here.request(dest, SINK, i)?;
        while there.poll()? == 0 {}
        here.poll()?;
    }
    // A message behind others may wait for company: this one comes after a pause.
    let start = clock::now_ns();
    while clock::now_ns() - start < PAUSE_NS {
        here.poll()?;
        there.poll()?;
    }
    if !out(&here, dest) || take(&there) != 1 {
        return Err("the message did not arrive at once".into());
    }
    if nodes > 1 {
        pause(ACK_DELAY);
        walk_acknowledge_between_nodes(&there);
        // Not every poll looks at the network.
        for _ in 0..POLLS {
            walk_acknowledge_between_nodes(&here);
        }
    }
    Ok(())
}

/// Lets so much time pass.
fn pause(time: Duration) {
    let start = clock::now_ns();
    while u128::from(clock::now_ns() - start) < time.as_nanos() {}
}

const STEPS: [&str; 5] = [
    "walk_out_one_node",
    "walk_in_one_node",
    "walk_out_between_nodes",
    "walk_in_between_nodes",
    "walk_acknowledge_between_nodes",
];

fn main() -> Result<(), Box<dyn Error>> {
    walk(1, walk_out_one_node, walk_in_one_node)?;
    walk(2, walk_out_between_nodes, walk_in_between_nodes)?;
    for step in STEPS {
        println!("{step}");
    }
    Ok(())
}
