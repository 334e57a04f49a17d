//! The path as a state machine over time: which packets are carried, and when they arrive.
//!
//! A packet for a node waits in the queue of that node's port, which has the path's rate, and
//! arrives half a round trip after it has left the queue. Senders have no rate of their own, as
//! behind a switch whose ports to the receivers are the bottleneck.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes that a relay holds at most, whatever the path is; more are lost as behind a full queue.
pub const MAX_HELD: u64 = 512 << 20;
/// Share of a round trip by which a packet is late that others are to overtake.
const OVERTAKEN: u64 = 4;
/// Least time by which it is late, ns: some packets at 1 Gbit/s.
const MIN_OVERTAKEN_NS: u64 = 50_000;
/// Share of the round trip by which a packet may come early behind another, and the most: the relay
/// sleeps once for several packets. At 1 Gbit/s and 2 ms one costs it 7 us instead of 17.
const TOGETHER: u64 = 40;
const MAX_TOGETHER_NS: u64 = 50_000;

/// Properties of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathShape {
    /// Time to the other node and back without a queue, ns.
    pub rtt_ns: u64,
    /// Bits of IP packets per second to each node; no limit when absent.
    pub rate: Option<u64>,
    /// Bytes that may wait for each node, where there is a rate.
    pub queue_bytes: u64,
    /// Longest random delay of a packet beyond its time, ns. Packets keep their order.
    pub jitter_ns: u64,
    /// Packets lost, of a million.
    pub loss_ppm: u32,
    /// Packets that come later than some sent after them, of a million.
    pub reorder_ppm: u32,
    /// Length of each pause, and time from the begin of one to the next, ns.
    pub pause: Option<(u64, u64)>,
    /// Longest packet of IP, bytes.
    pub mtu: u32,
}

/// Counts of a relay's packets since its begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathCounts {
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
    /// Packets that others overtook on purpose.
    pub reordered: u64,
    /// Longest time in a queue, ns.
    pub longest_queue_ns: u64,
    /// Longest time by which the relay was late, ns.
    pub latest_ns: u64,
    /// Sum of the times by which it was late, ns.
    pub late_ns: u64,
}

/// A packet on its way; the first is the one that arrives first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_ns: u64,
    sequence: u64,
    to: usize,
    packet: Vec<u8>,
}

/// The queue to one node.
#[derive(Debug, Clone, Copy, Default)]
struct PortState {
    /// Time at which everything in the queue has left it.
    free_ns: u64,
    /// Arrival of the latest packet that keeps its order.
    last_ns: u64,
}

/// Packets on a path. Call [`PathRelay::accept`] for each packet as it is sent, and
/// [`PathRelay::take_due`] at the time of [`PathRelay::next_due_ns`]; times never go back.
#[derive(Debug)]
pub struct PathRelay {
    shape: PathShape,
    ports: Vec<PortState>,
    on_their_way: BinaryHeap<Reverse<Due>>,
    held: u64,
    sequence: u64,
    random: Xoshiro256StarStar,
    counts: PathCounts,
    /// Packets due until then leave with one that is due.
    together_until_ns: u64,
}

impl PathRelay {
    /// Creates a path between so many nodes; the seed decides about losses and delays.
    pub fn new(shape: PathShape, nodes: usize, seed: u64) -> Self {
        Self {
            shape,
            ports: vec![PortState::default(); nodes],
            on_their_way: BinaryHeap::new(),
            held: 0,
            sequence: 0,
            random: Xoshiro256StarStar::seed_from_u64(seed),
            counts: PathCounts::default(),
            together_until_ns: 0,
        }
    }

    /// Takes a packet sent to a node now.
    pub fn accept(&mut self, now_ns: u64, to: usize, packet: &[u8]) {
        let bytes = packet.len() as u64;
        if self.chance(self.shape.loss_ppm) {
            self.counts.lost += 1;
            return;
        }
        let Some(port) = self.ports.get_mut(to) else { return };
        let waits_ns = port.free_ns.saturating_sub(now_ns);
        let waiting = self.shape.rate.map_or(0, |rate| bytes_in(waits_ns, rate));
        // An empty queue takes any packet.
        let full = waiting > 0 && waiting + bytes > self.shape.queue_bytes;
        if full || self.held + bytes > MAX_HELD {
            self.counts.dropped += 1;
            return;
        }
        let took_ns = self.shape.rate.map_or(0, |rate| time_of(bytes, rate));
        port.free_ns = port.free_ns.max(now_ns) + took_ns;
        let mut at_ns = port.free_ns + self.shape.rtt_ns / 2;
        self.counts.longest_queue_ns = self.counts.longest_queue_ns.max(waits_ns);
        at_ns += self.below(self.shape.jitter_ns + 1);
        if self.chance(self.shape.reorder_ppm) {
            self.counts.reordered += 1;
            at_ns += (self.shape.rtt_ns / OVERTAKEN).max(MIN_OVERTAKEN_NS);
        } else if let Some(port) = self.ports.get_mut(to) {
            at_ns = at_ns.max(port.last_ns);
            port.last_ns = at_ns;
        }
        let at_ns = self.after_pause(at_ns);
        debug_assert!(at_ns >= now_ns, "nothing arrives before it is sent");
        self.sequence += 1;
        self.held += bytes;
        let due = Due { at_ns, sequence: self.sequence, to, packet: packet.to_vec() };
        self.on_their_way.push(Reverse(due));
    }

    /// Returns the time of the next arrival.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.on_their_way.peek().map(|Reverse(due)| due.at_ns)
    }

    /// Returns the next packet that has arrived by now, and its node. Packets close behind one that
    /// has arrived come with it, as a network card interrupts once for several.
    pub fn take_due(&mut self, now_ns: u64) -> Option<(usize, Vec<u8>)> {
        let at_ns = self.next_due_ns()?;
        if at_ns <= now_ns {
            self.together_until_ns =
                now_ns.saturating_add((self.shape.rtt_ns / TOGETHER).min(MAX_TOGETHER_NS));
        }
        if at_ns > self.together_until_ns {
            return None;
        }
        let Reverse(due) = self.on_their_way.pop()?;
        let bytes = due.packet.len() as u64;
        debug_assert!(self.held >= bytes, "what is on its way is held");
        self.held -= bytes;
        self.counts.packets += 1;
        self.counts.bytes += bytes;
        let late_ns = now_ns.saturating_sub(due.at_ns);
        self.counts.latest_ns = self.counts.latest_ns.max(late_ns);
        self.counts.late_ns = self.counts.late_ns.saturating_add(late_ns);
        Some((due.to, due.packet))
    }

    /// Returns the counts until now.
    pub fn counts(&self) -> PathCounts {
        self.counts
    }

    fn after_pause(&self, at_ns: u64) -> u64 {
        match self.shape.pause {
            // The first pause begins one period after time 0.
            Some((length, every)) if at_ns >= every && at_ns % every < length => {
                at_ns - at_ns % every + length
            }
            _ => at_ns,
        }
    }

    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    fn below(&mut self, end: u64) -> u64 {
        if end <= 1 {
            return 0;
        }
        let drawn = u128::from(self.random.next_u64()) * u128::from(end);
        u64::try_from(drawn >> 64).unwrap_or(0)
    }
}

/// Returns the ns that a line of `rate` bits per second takes for so many bytes.
pub fn time_of(bytes: u64, rate: u64) -> u64 {
    bytes.saturating_mul(8_000_000_000) / rate.max(1)
}

/// Returns the bytes that a line of `rate` bits per second carries in a time.
pub fn bytes_in(ns: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(rate) / 8_000_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
