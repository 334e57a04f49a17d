//! The traffic of a connection, which shows if it is idle.

use clump_proto::Nanos;

/// The traffic of a connection as it was last counted.
#[derive(Debug, Default)]
pub(super) struct TrafficCount {
    /// Units and records, in both directions.
    pub(super) units: u64,
    /// Time at which that was new.
    pub(super) since: Nanos,
}
