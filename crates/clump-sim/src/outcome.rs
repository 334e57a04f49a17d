//! How a run ended.

use crate::switch::NetCounts;

/// Of a run in which everything was as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Outcome {
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
    pub units_sliced: u64,
    /// Foreign, forged and replayed packets that stacks refused.
    pub packets_refused: u64,
    pub most_memory_bytes: u64,
    pub net: NetCounts,
    /// Of all times at which something happened: two runs of one seed agree in it.
    pub digest: u64,
}

/// Of a run in which something was not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "seed {seed}, {:.6} s, {}: {what}\n{detail}\nagain: cargo run --release -p clump-sim --bin soak -- \
     {task}--seed {seed} --seeds 1 --trace",
    *.at_ns as f64 / 1e9,
    if *.healed { "healed" } else { "faults" }
)]
pub struct Failure {
    /// What of `soak` repeats it: nothing, or a word and a space.
    pub task: &'static str,
    /// Says all of it.
    pub seed: u64,
    /// When it was noticed.
    pub at_ns: u64,
    /// Whether faults had ended.
    pub healed: bool,
    /// What was wrong.
    pub what: String,
    /// What ranks and network were like.
    pub detail: String,
}
