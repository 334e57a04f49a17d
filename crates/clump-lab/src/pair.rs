//! Two ranks as the measurements see them: one issues, the other answers.
//!
//! The measurements are written against [`Pair`], so that they run on a live job ([`live`]) and on
//! a machine with known parameters and a virtual clock ([`fake`]), where the results can be
//! checked. They are the same for every path of the messages; only the baseline of a figure
//! differs, and depends on [`PairNetwork`].

#[cfg(test)]
pub mod fake;
pub mod live;
pub mod meeting;
pub mod ring;

use crate::wire::WireWorkload;
use anyhow::Result;
use clump_loggp::Median;
use clump_wire::Security;
use serde::Serialize;

/// The two kinds of bulk messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BulkPath {
    /// Copied into a buffer of the receiver, and out of it by its handler: two copies.
    Medium,
    /// Deposited in the receiver's segment: one copy.
    Long,
}

impl BulkPath {
    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            BulkPath::Medium => "medium",
            BulkPath::Long => "long",
        }
    }
}

/// The path whose messages are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Between two ranks of a node, through shared memory.
    Shm,
    /// Between two ranks of different nodes, over the network.
    Net,
}

/// The network between the two ranks of a pair.
#[derive(Debug, Clone, Serialize)]
pub struct PairNetwork {
    /// Protection of packets.
    #[serde(serialize_with = "as_text")]
    pub security: Security,
    /// Bytes of the packet of a short request with one word, nothing else in it.
    pub packet_bytes: usize,
    /// Largest datagram that the path carries unfragmented.
    pub datagram_bytes: usize,
    /// Address of the issuing side's node.
    pub address: std::net::IpAddr,
}

fn as_text<S: serde::Serializer>(security: &Security, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(security.name())
}

impl PairNetwork {
    /// Describes the network with these properties.
    pub fn new(security: Security, datagram_bytes: usize, address: std::net::IpAddr) -> Self {
        use clump_wire::frame::{FrameHead, FrameKind, Route, frame_bytes};
        let route = Route::default();
        let head = FrameHead {
            kind: FrameKind::Short,
            reply: false,
            handler: 1,
            route,
            order: None,
            fragment: None,
        };
        let body = frame_bytes(&head, false, 1, 0);
        let packet_bytes = clump_wire::HEADER_BYTES + body + security.trailer_bytes();
        Self { security, packet_bytes, datagram_bytes, address }
    }
}

/// The issuing side of a pair. All its times are in ticks of [`Pair::now`].
pub trait Pair {
    /// Reads the clock, the cheapest of the machine.
    fn now(&mut self) -> u64;
    /// Returns the nanoseconds per tick.
    fn ns_per_tick(&self) -> f64;
    /// Computes for a time that grows with `loops`, without polling for messages.
    fn delay(&mut self, loops: u32);
    /// Sends one short request that the other side answers. Polls once after sending, as every
    /// request of Active Messages II does (paper 000, 4.3).
    fn request(&mut self) -> Result<()>;
    /// Sends one short request that is not answered; polls once, too.
    fn post(&mut self) -> Result<()>;
    /// Sends one message with `bytes` of payload that is not answered; at most [`Pair::largest`].
    fn bulk(&mut self, way: BulkPath, bytes: usize) -> Result<()>;
    /// Writes a payload of `bytes`, and sends it as a long message into the next of
    /// [`ring::ring_places`] of the other side's segment, once the other side has read what was
    /// there. It reads and sums every byte.
    fn ring(&mut self, bytes: usize) -> Result<()>;
    /// Returns the maximum payload of one message.
    fn largest(&self, way: BulkPath) -> usize;
    /// Polls once for messages.
    fn poll(&mut self) -> Result<()>;
    /// Returns the number of requests that are not answered yet.
    fn outstanding(&self) -> u64;
    /// Returns when everything posted and sent in bulk has been handled by the other side.
    fn await_handled(&mut self) -> Result<()>;
    /// Returns the number of requests that fit between the two before a sender has to wait.
    fn window(&self) -> u32;
    /// Returns the network between the two; `None`: they share memory.
    fn link(&self) -> Option<&PairNetwork>;
    /// Runs `rounds` rounds of the raw exchange that bounds any message through shared memory: one
    /// side writes a line that the other watches, and the other way round. Returns ticks.
    fn flag_rounds(&mut self, rounds: u32) -> Result<u64>;
    /// Runs a workload of the bare network, where there is one. Returns nanoseconds.
    fn wire_game(&mut self, workload: WireWorkload) -> Result<f64>;

    /// Polls until all requests are answered.
    fn drain(&mut self) -> Result<()> {
        while self.outstanding() > 0 {
            self.poll()?;
        }
        Ok(())
    }

    /// Converts ticks to nanoseconds.
    fn ns(&self, ticks: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "spans of a measurement are far below 2^53")]
        let ticks = ticks as f64;
        ticks * self.ns_per_tick()
    }

    /// Returns the cost of reading the clock twice, in nanoseconds; every measured span contains
    /// it.
    fn clock_cost_ns(&mut self) -> f64 {
        let samples: Vec<f64> = (0..101)
            .map(|_| {
                let start = self.now();
                let end = self.now();
                self.ns(end.wrapping_sub(start))
            })
            .collect();
        Median::of(samples).map_or(0.0, |m| m.value)
    }
}

/// Placement of the two ranks, judged by the time that a cache line travels between them, and by
/// the speed at which both compute. Hyper-threads of a core share its first cache and its units:
/// lines take 20 to 25 ns, and each thread is slower while the other one computes. Cores that share
/// a cache exchange lines in 40 to 60 ns, others in more than 90.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Below 60 ns one way, and slower together: two threads of one core.
    Siblings,
    /// Below 60 ns, and as fast together as alone: two cores that share a cache.
    NearCores,
    /// Above 90 ns: two cores.
    SeparateCores,
    /// In between, or moving from one to the other during the measurement.
    Unclear,
}

/// Speed beside another rank that computes, over that alone, from which on cores are not shared.
const OWN_CORE: f64 = 0.85;

impl Placement {
    /// Judges a one-way time in ns, and the speed of a rank beside another that computes over its
    /// speed alone.
    pub fn of(one_way_ns: f64, speed_beside: f64) -> Self {
        match one_way_ns {
            t if t < 60.0 && speed_beside < OWN_CORE => Placement::Siblings,
            t if t < 60.0 => Placement::NearCores,
            t if t > 90.0 => Placement::SeparateCores,
            _ => Placement::Unclear,
        }
    }

    /// Returns true if lines travel quickly.
    pub const fn is_near(self) -> bool {
        matches!(self, Placement::Siblings | Placement::NearCores)
    }

    /// Returns the placement as a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Placement::Siblings => {
                "ranks on hyper-threads of a core (a line travels in < 60 ns, both compute slower)"
            }
            Placement::NearCores => "ranks on cores that share a cache (a line travels in < 60 ns)",
            Placement::SeparateCores => {
                "the ranks sit on separate cores (a line travels in over 90 ns)"
            }
            Placement::Unclear => "where the ranks sit is unclear (a line travels in 60 to 90 ns)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Placement;

    #[test]
    fn near_cores_are_no_hyper_threads() {
        assert_eq!(Placement::of(45.0, 0.99), Placement::NearCores);
        assert_eq!(Placement::of(22.0, 0.6), Placement::Siblings);
        assert_eq!(Placement::of(240.0, 0.6), Placement::SeparateCores);
        assert_eq!(Placement::of(75.0, 1.0), Placement::Unclear);
        assert!(Placement::NearCores.is_near() && !Placement::SeparateCores.is_near());
    }
}
