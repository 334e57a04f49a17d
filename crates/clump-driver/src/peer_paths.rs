//! The paths to a peer.

use std::net::SocketAddr;

/// The addresses of a peer, one for each path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPaths {
    /// Its addresses: the `i`-th is reached by path `i`. The first is its name.
    pub addresses: Vec<SocketAddr>,
    /// The path to be used while all work, modulo their number. Both sides should choose the same.
    pub preferred: usize,
}
