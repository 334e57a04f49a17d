//! The addresses of a job's stacks, asked for one at a time.

use clump_driver::PeerPaths;
use std::fmt::Debug;
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

/// The stacks that a stack may talk to. It is asked about a peer when that is first sent to, and
/// for every packet of one that has not been talked to: in constant time, and without allocating.
/// The answers never change.
pub trait PeerDirectory: Debug + Send + Sync {
    /// Returns the stack of that number; `None`: there is none, or it is no peer.
    fn find(&self, id: u32) -> Option<PeerAddress>;

    /// Returns the paths to a peer, for a driver that has several; `None`: only its address.
    fn paths(&self, id: u32) -> Option<PeerPaths> {
        let _ = id;
        None
    }
}

/// A few peers, in ascending order.
impl PeerDirectory for Vec<PeerAddress> {
    fn find(&self, id: u32) -> Option<PeerAddress> {
        let at = self.binary_search_by_key(&id, |peer| peer.id).ok()?;
        self.get(at).copied()
    }
}
