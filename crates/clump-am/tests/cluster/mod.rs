//! Ranks as threads of one process, over the same shared memory that processes would use.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

pub mod net;

use clump_am::{RankContext, Settings};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::sync::Arc;

/// Creates a node for `ranks` ranks that yields soon, since tests share two cores.
pub fn node(ranks: usize, survive: bool) -> NodeMemory {
    let config = NodeConfig {
        ranks,
        node: 0,
        node_of: &[],
        proxies: 0,
        job_id: 9,
        survive,
        spin_ns: 300,
        yield_ns: 50_000,
    };
    NodeMemory::create(&config).unwrap()
}

/// Creates the context of a rank.
pub fn context(node: &NodeMemory, rank: u32, settings: Settings) -> Arc<RankContext> {
    let context = RankContext::new(node, rank, settings).unwrap();
    context.block().join(std::process::id()).unwrap();
    Arc::new(context)
}

/// Runs `body` as every rank, each in a thread of its own, and returns their results.
pub fn run<R: Send + 'static>(
    ranks: usize,
    settings: Settings,
    body: impl Fn(Arc<RankContext>) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let node = node(ranks, false);
    let threads: Vec<_> = (0..ranks)
        .map(|rank| {
            let (node, body) = (node.clone(), body.clone());
            std::thread::spawn(move || body(context(&node, rank as u32, settings)))
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}
