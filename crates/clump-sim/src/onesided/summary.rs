//! Outcome of a run.

use super::model::ModelCounts;
use crate::kernel::NetCounts;

/// Outcome of a run without violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OneSidedSummary {
    pub seed: u64,
    pub ranks: u32,
    pub nodes: u32,
    pub proxies: u32,
    /// Virtual time until the last rank had finished.
    pub network_ns: u64,
    pub events: u64,
    pub counts: ModelCounts,
    pub net: NetCounts,
    /// Digest of the times of all events: two runs of one seed agree in it.
    pub digest: u64,
}
