//! Configuration of a stack.

use clump_wire::Security;
use std::net::SocketAddr;

/// Another stack of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number: a rank's, or a network interface's, which are numbered after the ranks.
    pub id: u32,
    /// The address that its packets are sent to.
    pub address: SocketAddr,
    /// Its incarnation.
    pub epoch: u32,
}

/// Configuration of a stack.
#[derive(Debug, Clone)]
pub struct StackConfig {
    /// Number of this stack.
    pub me: u32,
    /// Its incarnation.
    pub epoch: u32,
    /// Protection of packets.
    pub security: Security,
    /// Configuration of each channel.
    pub channel: clump_proto::Config,
    /// Bytes of requests from one endpoint that another may have unconsumed.
    pub credit_bytes: u64,
    /// Every stack that this one may talk to.
    pub peers: Vec<PeerAddress>,
}
