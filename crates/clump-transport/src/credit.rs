//! Flow control between endpoints of different nodes: the bytes of requests that may be unconsumed.

use clump_shm::node::NodeMemory;

/// Bytes of requests between two endpoints that may be unconsumed, when few ranks share the memory.
const MAX_CREDIT: u64 = 1 << 20;
const MIN_CREDIT: u64 = 64 << 10;
/// Bytes beyond that which an endpoint lets those leave unconsumed whose paths hold more.
pub(crate) const GRANTABLE: u64 = 96 << 20;
/// Bytes of requests that all endpoints of all peers together may leave unconsumed at one endpoint.
const ALL_CREDIT: u64 = 64 << 20;

/// Returns how many bytes of requests one endpoint may leave unconsumed at another of another node.
pub fn credit_bytes(node: &NodeMemory) -> u64 {
    credit_of(node.ranks())
}

/// Returns that number of bytes for a node with so many ranks.
pub fn credit_of(ranks: usize) -> u64 {
    debug_assert!(ranks > 0, "a job has ranks");
    (ALL_CREDIT / ranks as u64).clamp(MIN_CREDIT, MAX_CREDIT)
}
