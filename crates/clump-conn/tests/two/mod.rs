//! Two jobs in one process: each a rank on a node of its own memory, which share nothing.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{RankContext, Settings};
use clump_conn::{Between, Security};
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_transport::FaultPlan;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Many times the expected duration.
pub const LONG: Duration = Duration::from_secs(20);

/// A job of one rank.
pub fn job(job_id: u64) -> Arc<RankContext> {
    let config = NodeConfig {
        ranks: 1,
        node: 0,
        node_of: &[],
        proxies: 0,
        job_id,
        survive: false,
        spin_ns: 300,
        yield_ns: 50_000,
    };
    let node = NodeMemory::create(&config).unwrap();
    let context = RankContext::new(&node, 0, Settings::default()).unwrap();
    context.block().join(std::process::id()).unwrap();
    Arc::new(context)
}

/// Settings of a network without faults.
pub fn calm() -> Between {
    Between { silence: LONG, security: Security::Aead, faults: None }
}

/// Settings of a network that loses, duplicates and delays some packets.
pub fn troubled(seed: u64) -> Between {
    let plan = FaultPlan {
        loss: 0.05,
        duplication: 0.05,
        reordering: 0.2,
        jitter_ns: 100_000,
        ..FaultPlan::default()
    };
    Between { faults: Some((plan, seed)), ..calm() }
}

/// Any port of this machine's loopback.
pub fn anywhere() -> [SocketAddr; 1] {
    [SocketAddr::from(([127, 0, 0, 1], 0))]
}

/// Runs both jobs, each in a thread of its own.
pub fn both(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(one);
        scope.spawn(other);
    });
}
