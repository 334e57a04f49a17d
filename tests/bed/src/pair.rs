//! Two jobs in one process that share nothing: settings of the network between them, and threads
//! for both.

use clump_conn::{Between, Security};
use clump_transport::FaultPlan;
use std::net::SocketAddr;
use std::time::Duration;

/// Many times the expected duration of anything.
pub const LONG: Duration = Duration::from_secs(20);

/// Returns settings of a network without faults.
pub fn calm() -> Between {
    Between { silence: LONG, security: Security::Aead, faults: None }
}

/// Returns settings of a network that loses, duplicates and delays some packets.
pub fn troubled(seed: u64) -> Between {
    let plan = FaultPlan { loss: 0.05, ..crate::shape::trouble() };
    Between { faults: Some((plan, seed)), ..calm() }
}

/// Returns any port of this machine's loopback.
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
