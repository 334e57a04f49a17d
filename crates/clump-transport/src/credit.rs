//! Flow control between endpoints of different nodes: the bytes of requests that may be unconsumed.

use crate::requesters::SharedPool;
use clump_proto::CreditPool;
use clump_shm::node::NodeMemory;
use std::sync::{Arc, Mutex};

/// Bytes of requests between two endpoints that may be unconsumed, when few ranks share the memory.
const MAX_CREDIT: u64 = 1 << 20;
const MIN_CREDIT: u64 = 64 << 10;
/// Bytes beyond that which the ranks of a node let those leave unconsumed whose paths hold more: as
/// much as four paths of 10 Gb/s and 50 ms hold.
const GRANTABLE: u64 = 384 << 20;
/// Most of that for one rank.
const MAX_GRANTABLE: u64 = 96 << 20;
/// Bytes of requests that all endpoints of all peers together may leave unconsumed at one endpoint.
const ALL_CREDIT: u64 = 64 << 20;

/// Returns how many bytes of requests one endpoint may leave unconsumed at another of another node.
pub fn credit_bytes(node: &NodeMemory) -> u64 {
    credit_of(node.ranks())
}

/// Creates the pool out of which one of so many ranks of a node grants more.
pub fn pool_of(local_ranks: usize) -> SharedPool {
    debug_assert!(local_ranks > 0, "it is a rank of the node");
    let bytes = (GRANTABLE / local_ranks.max(1) as u64).min(MAX_GRANTABLE);
    Arc::new(Mutex::new(CreditPool::new(bytes)))
}

/// Returns that number of bytes for a job of so many ranks.
pub fn credit_of(ranks: usize) -> u64 {
    debug_assert!(ranks > 0, "a job has ranks");
    (ALL_CREDIT / ranks as u64).clamp(MIN_CREDIT, MAX_CREDIT)
}
