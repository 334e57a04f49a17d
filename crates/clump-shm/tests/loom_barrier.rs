//! Barriers in every interleaving: writes before the barrier are seen after it, no rank sleeps on,
//! and each message between nodes is sent by one rank.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::model;

use clump_os::fence::FenceKind;
use clump_os::sync::{AtomicU64, Ordering, Site};
use clump_shm::barrier::{BarrierMessage, BarrierProgress, Lines, Listener};
use clump_shm::park::Park;
use clump_shm::rank_map::RankMap;
use loom::sync::Arc;
use loom::thread;
use model::{holds, notices};

const KIND: FenceKind = FenceKind::Asymmetric;

/// The memory of node 0 of one or two nodes, and the data that the model writes beside it.
#[derive(Clone)]
struct Node {
    lines: Lines,
    parks: Arc<Vec<Park>>,
    /// Word that each rank writes before it arrives; the last stands for a rank of the other node.
    data: Arc<Vec<AtomicU64>>,
    /// Messages for rank 0 that wait in its socket.
    socket: Arc<AtomicU64>,
    /// Messages to the other node.
    told: Arc<AtomicU64>,
    ranks: usize,
    nodes: usize,
}

impl Node {
    fn new(ranks: usize, nodes: usize) -> Self {
        let all = ranks + nodes - 1;
        Self {
            lines: Lines::private(ranks, nodes),
            parks: Arc::new((0..ranks).map(|_| Park::default()).collect()),
            data: Arc::new((0..all).map(|_| AtomicU64::new(0)).collect()),
            socket: Arc::new(AtomicU64::new(0)),
            told: Arc::new(AtomicU64::new(0)),
            ranks,
            nodes,
        }
    }

    /// Returns the map of the job: of each other node there is one rank.
    fn map(&self) -> RankMap {
        let behind = (0..self.nodes as u32).map(|node| self.ranks as u32 + node);
        RankMap::from_first(std::iter::once(0).chain(behind).collect()).unwrap()
    }

    fn wake_sleepers(&self) {
        for park in self.parks.iter() {
            park.wake_if_asleep(KIND, None);
        }
    }

    /// Sends the other node's message of barrier 1: it gets into the socket, which wakes rank 0.
    fn message(&self) {
        self.data[self.ranks].store(1, Ordering::Relaxed);
        self.socket.store(1, Ordering::Release);
        self.parks[0].wake_if_asleep(KIND, None);
    }

    /// Polls the endpoint of rank 0.
    fn poll(&self, me: usize) -> bool {
        if me != 0 || self.nodes == 1 || self.socket.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.socket.store(0, Ordering::Relaxed);
        let listener = Listener::new(&self.lines, &self.map(), 0);
        if listener.handle_message(self.ranks as u32, 1, KIND).unwrap() {
            self.wake_sleepers();
        }
        true
    }
}

/// Returns true if rank `me` may go on; sends the messages that it claimed.
fn done(node: &Node, attendance: &mut BarrierProgress) -> bool {
    loop {
        if attendance.complete() {
            return true;
        }
        let Some(tell) = attendance.poll_message() else { return false };
        assert_eq!(tell, BarrierMessage { rank: node.ranks as u32, epoch: 1 });
        assert_eq!(node.told.fetch_add(1, Ordering::Relaxed), 0, "told twice");
        attendance.on_message_sent();
    }
}

/// Takes rank `me` through one barrier; it sleeps as soon as there is nothing to do if `sleepy`.
fn pass(node: &Node, me: usize, sleepy: bool) {
    let mut attendance = BarrierProgress::new(&node.lines, &node.map(), me as u32).unwrap();
    node.data[me].store(1, Ordering::Relaxed);
    if attendance.arrive(KIND) {
        node.wake_sleepers();
    }
    while !done(node, &mut attendance) {
        if node.poll(me) {
            continue;
        }
        if !sleepy {
            thread::yield_now();
            continue;
        }
        // As a waiting rank does: announce, check everything once more, sleep.
        attendance.announce_sleep();
        let announced = node.parks[me].announce(KIND);
        if done(node, &mut attendance) || node.poll(me) {
            node.parks[me].withdraw(announced);
        } else {
            node.parks[me].sleep(announced, None);
        }
        attendance.awake();
    }
    for (rank, data) in node.data.iter().enumerate() {
        assert_eq!(data.load(Ordering::Relaxed), 1, "left without what rank {rank} wrote");
    }
}

/// Runs a model in which `sleepy` is true for the ranks that sleep.
fn meet(sleepy: &'static [bool], nodes: usize) {
    let node = Node::new(sleepy.len(), nodes);
    let mut threads: Vec<_> = (1..sleepy.len())
        .map(|me| {
            let node = node.clone();
            thread::spawn(move || pass(&node, me, sleepy[me]))
        })
        .collect();
    if nodes > 1 {
        let node = node.clone();
        threads.push(thread::spawn(move || node.message()));
    }
    pass(&node, 0, sleepy[0]);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(node.told.load(Ordering::Relaxed), nodes as u64 - 1, "messages sent");
    assert!(node.parks.iter().all(|park| !park.anyone_asleep()));
}

fn two_awake() {
    meet(&[false, false], 1);
}

fn one_asleep() {
    meet(&[true, false], 1);
}

fn two_asleep() {
    meet(&[true, true], 1);
}

fn three_asleep() {
    meet(&[true, true, true], 1);
}

fn alone_on_a_node() {
    meet(&[true], 2);
}

fn two_nodes_asleep() {
    meet(&[true, true], 2);
}

#[test]
fn what_was_written_before_is_seen_behind() {
    holds(3, two_awake);
    notices(Site::BarrierArrive, 3, two_awake);
}

#[test]
fn the_last_to_arrive_wakes() {
    holds(3, one_asleep);
    holds(3, two_asleep);
}

#[test]
fn one_of_the_last_to_arrive_wakes() {
    holds(2, three_asleep);
}

#[test]
fn arriving_must_fence() {
    notices(Site::ParkFence, 3, one_asleep);
    notices(Site::ParkFence, 2, three_asleep);
}

#[test]
fn a_node_is_told_once_and_heard_by_all() {
    holds(3, alone_on_a_node);
    holds(2, two_nodes_asleep);
    notices(Site::BarrierArrive, 3, two_nodes_asleep);
}

#[test]
fn hearing_must_fence() {
    notices(Site::ParkFence, 3, two_nodes_asleep);
}
