//! Jobs inside one process, for tests: each rank a thread, each node a memory of its own with its
//! network interfaces, joined by UDP sockets on loopback. No process is started.
//!
//! Layer 6: above what it starts. A development dependency of any crate, also of those below it
//! (`cargo xtask tidy` permits that arrow, and no other).
//!
//! Types to know: [`Shape`] (ranks, nodes and network of a job), [`Seat`] (a rank of it), [`run`],
//! [`Sampler`] (random numbers of a seed).
//! Single ranks and nodes, without a job around them: [`node`], [`context`], [`lone`]. Two jobs
//! that share nothing: [`pair`].
//!
//! # Invariants
//! 1. Whatever a program does, [`run`] returns or panics within a minute.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "helpers of a test may give up")]

pub mod hang;
mod job;
pub mod pair;
mod seat;
mod shape;

pub use clump_test_tier::Sampler;
pub use job::{Job, each_rank, run};
pub use seat::Seat;
pub use shape::Shape;

use clump_am::{RankContext, Settings};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::sync::Arc;

/// Times for which a rank spins and yields, in ns: tests share few cores, so ranks yield soon.
const SPIN_AND_YIELD_NS: (u64, u64) = (300, 50_000);

/// Creates a node for all ranks of a job.
pub fn node(ranks: usize, survive: bool) -> NodeMemory {
    node_of_job(77, ranks, survive)
}

/// Creates the context of a rank of a node, and joins it.
pub fn context(node: &NodeMemory, rank: u32, settings: Settings) -> Arc<RankContext> {
    let context = RankContext::new(node, rank, settings).unwrap();
    node.join(rank, std::process::id()).unwrap();
    Arc::new(context)
}

/// Creates a job of one rank.
pub fn lone(job_id: u64) -> Arc<RankContext> {
    context(&node_of_job(job_id, 1, false), 0, Settings::default())
}

fn node_of_job(job_id: u64, ranks: usize, survive: bool) -> NodeMemory {
    let (spin_ns, yield_ns) = SPIN_AND_YIELD_NS;
    let config = NodeConfig { job_id, survive, spin_ns, yield_ns, ..NodeConfig::new(ranks) };
    NodeMemory::create(&config).unwrap()
}
