//! The part of a plan that all worlds share, and its draw from a seed.

use super::fault::PlannedFault;
use super::link::{LinkFaults, Time};
use super::random::Random;
use super::switch::Port;
use clump_net::seal::{JobKey, KeyError};
use clump_proto::{Config, Congestion};
use clump_wire::Security;

/// A microsecond of virtual time.
pub const MICROSECOND: Time = 1_000;
/// A millisecond of virtual time.
pub const MILLISECOND: Time = 1_000_000;
/// A second of virtual time.
pub const SECOND: Time = 1_000_000_000;

/// Lengths of datagrams: Ethernet, jumbo frames, loopback.
pub(crate) const DATAGRAMS: [usize; 3] = [1472, 8972, 65507];

/// Network, clocks and faults of a simulated cluster.
#[derive(Debug, Clone)]
pub struct BasePlan {
    /// Seed from which the plan follows.
    pub seed: u64,
    /// Protection of packets.
    pub security: Security,
    /// Configuration of every channel.
    pub channel: Config,
    /// Port between each socket and its links.
    pub port: Port,
    /// Initial properties of all links.
    pub link: LinkFaults,
    /// Minimum cost of a turn.
    pub turn: Time,
    /// Start of virtual time for each socket: clocks differ between machines.
    pub clocks: Vec<Time>,
    /// Faults in order, with their times from 0.
    pub faults: Vec<(Time, PlannedFault)>,
    /// Time at which faults end.
    pub heal_at: Time,
}

impl BasePlan {
    /// Ends a plan: adds the end of faults, and puts them in order.
    pub(crate) fn close(&mut self) {
        self.faults.push((self.heal_at, PlannedFault::Heal));
        self.faults.sort_by_key(|(at, _)| *at);
    }
}

/// Draws the configuration of channels.
pub(crate) fn channel(random: &mut Random) -> Config {
    let mut config = Config::default();
    if random.one_in(8) {
        config.congestion = Congestion::Static(random.magnitude(4 << 10, 512 << 10) as usize);
    }
    if random.one_in(8) {
        config.keepalive = Some(random.magnitude(100 * MILLISECOND, 5 * SECOND));
    }
    if random.one_in(4) {
        config.ack_packets = random.between(2, 32) as u32;
        config.ack_delay = random.magnitude(MICROSECOND, MILLISECOND);
    }
    config
}

/// Draws the ports of a network for a run of `span`.
pub(crate) fn port(random: &mut Random, datagram: usize, span: Time) -> Port {
    // Limits a run to some megabytes.
    let max_rate = (40_000_000_000_000_000 / span.max(1)).clamp(200_000, 2_000_000_000);
    let rate = random.magnitude(max_rate / 50, max_rate).max(100_000);
    let queue_bytes = random.magnitude(4 * datagram as u64, 2 << 20).max(3 * datagram as u64);
    Port {
        rate,
        queue_bytes,
        mark_bytes: random.one_in(3).then_some(queue_bytes / 4),
        socket_bytes: random.magnitude(256 << 10, 4 << 20) as usize,
        card_bytes: random.magnitude(4 * datagram as u64, 1 << 20),
        refuse: if random.one_in(6) { random.magnitude(100, 100_000) as u32 } else { 0 },
        mtu: datagram,
    }
}

/// Returns a link like `base` with random faults.
pub(crate) fn link_changes(random: &mut Random, base: &LinkFaults) -> LinkFaults {
    let mut link = base.clone();
    if random.one_in(2) {
        link.loss = random.magnitude(500, 300_000) as u32;
    }
    if random.one_in(4) {
        link.burst = random.magnitude(100, 20_000) as u32;
        link.burst_length = random.magnitude(2, 100) as u32;
    }
    if random.one_in(3) {
        link.duplicate = random.magnitude(1_000, 300_000) as u32;
    }
    if random.one_in(3) {
        link.reorder = random.magnitude(1_000, 300_000) as u32;
        link.held = random.magnitude(link.delay.max(MICROSECOND), 20 * link.delay.max(MICROSECOND));
    }
    if random.one_in(3) {
        link.corrupt = random.magnitude(500, 200_000) as u32;
    }
    if random.one_in(3) {
        link.stale = random.magnitude(1_000, 50_000) as u32;
    }
    if random.one_in(4) {
        link.jitter = random.magnitude(MICROSECOND, 10 * link.delay.max(MICROSECOND));
    }
    link
}

/// Returns the key of a job.
pub(crate) fn key_of(seed: u64) -> Result<JobKey, KeyError> {
    let mut random = Random::new(seed ^ 0x6b65_7900);
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.word().to_le_bytes());
    }
    JobKey::new(&mut bytes)
}
