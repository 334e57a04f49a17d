//! Outcome of a run.

use crate::kernel::NetCounts;

/// Outcome of a run without violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RunSummary {
    pub seed: u64,
    pub ranks: u32,
    /// Virtual time until the last message was settled.
    pub network_ns: u64,
    pub events: u64,
    pub messages: u64,
    pub handled: u64,
    pub returned: u64,
    pub bytes: u64,
    pub units_resent: u64,
    pub units_fragmented: u64,
    /// Foreign, forged and replayed packets that stacks refused.
    pub packets_refused: u64,
    pub max_memory_bytes: u64,
    pub net: NetCounts,
    /// Digest of the times of all events: two runs of one seed agree in it.
    pub digest: u64,
}

/// Report of a violation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "seed {seed}, {:.6} s, {}: {what}\n{detail}\nagain: cargo run --release -p clump-sim --bin soak -- \
     {task}--seed {seed} --seeds 1 --trace",
    *.at_ns as f64 / 1e9,
    if *.healed { "healed" } else { "faults" }
)]
pub struct RunFailure {
    /// Subcommand of `soak` that repeats it: empty, or words and a space.
    pub task: String,
    /// Seed that determines the run.
    pub seed: u64,
    /// Virtual time at which it was noticed.
    pub at_ns: u64,
    /// True if faults had ended.
    pub healed: bool,
    /// Description of the violation.
    pub what: String,
    /// State of ranks and network.
    pub detail: String,
}

impl RunFailure {
    /// Returns the report of a simulation that could not begin.
    pub(crate) fn at_start(task: String, seed: u64, what: String) -> Self {
        Self { task, seed, at_ns: 0, healed: false, what, detail: String::new() }
    }
}
