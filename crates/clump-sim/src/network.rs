//! Networks and paths to measure on.

use crate::kernel::{LinkFaults, OVERHEAD, Port, Time};

/// Bytes of a datagram that are no payload: headers of packets and messages.
const HEADERS: u64 = 80;

/// Network to measure on.
#[derive(Debug, Clone)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// Faults of links.
    pub link: LinkFaults,
    /// Properties of ports.
    pub port: Port,
}

/// A path with what disturbs it, and the streams on it.
#[derive(Debug, Clone)]
pub struct PathPlan {
    /// Name of the path.
    pub name: String,
    /// Link between any two stations.
    pub link: LinkFaults,
    /// Port of each station.
    pub port: Port,
    /// Seed of everything random.
    pub seed: u64,
    /// Round trip of the path, by which the counted time is measured.
    pub round_trip: Time,
    /// Senders to the one receiver.
    pub senders: u32,
    /// Delays of the senders in turn; none: that of the link.
    pub unequal: Vec<Time>,
    /// True if messages are long, else medium.
    pub is_long: bool,
    /// True if short messages go beside long ones of the first sender.
    pub pings: bool,
    /// Times in which stations do nothing.
    pub pauses: Option<Pauses>,
    /// Changes in order.
    pub changes: Vec<PathChange>,
    /// True if a TCP sender shares the receiver's port.
    pub beside_cubic: bool,
    /// Least time to count.
    pub counted: Time,
}

/// Random times in which a station does nothing, as when its process does not run.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// Mean time between two.
    pub every: Time,
    /// Shortest pause.
    pub least: Time,
    /// Longest pause.
    pub most: Time,
}

/// A change of a path.
#[derive(Debug, Clone, Copy)]
pub struct PathChange {
    /// Time of the change.
    pub at: Time,
    /// Rate of the receiver's port from then on, bytes per second.
    pub rate: Option<u64>,
    /// Delay of each link from then on.
    pub delay: Option<Time>,
}

/// Returns the part of a link's bytes that is payload, in full datagrams.
pub(crate) fn payload_share(mtu: usize) -> f64 {
    let datagram = mtu as u64;
    (datagram - HEADERS) as f64 / (datagram + OVERHEAD) as f64
}
