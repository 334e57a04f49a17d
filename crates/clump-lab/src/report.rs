//! What `clump lab logp` found out, as data.

use crate::contrast::Contrast;
use crate::pair::{Placement, Way};
use crate::steps::Breakdown;
use clump_loggp::prtt::{Disagreement, PrttEstimate};
use clump_loggp::{Estimate, Measurement};
use serde::Serialize;

/// Everything; serializes to the `--json` output.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where the ranks sat.
    pub placement: Placement,
    /// One-way travel of a cache line between them, nanoseconds.
    pub line_one_way_ns: f64,
    /// Short request to reply handled, against the two-line ping-pong; nanoseconds.
    pub round_trip_ns: Contrast,
    /// One-way short messages against the bare ring; messages per second.
    pub rate_per_s: Contrast,
    /// Streams of payload against this machine's memcpy.
    pub bandwidth: Vec<Bandwidth>,
    /// The LogP table.
    pub estimate: Estimate,
    /// The second method.
    pub trains: PrttEstimate,
    /// Where both methods measure the same and how far they are apart.
    pub disagreement: Vec<Disagreement>,
    /// What a send and a receive consist of.
    pub breakdown: Breakdown,
    /// The tables behind the estimate, the signature among them.
    pub measurement: Measurement,
    /// Processes that wanted to run beside this one (load average of the last minute), where that is
    /// more than the machine has processors for: the figures then say little.
    pub crowd: Option<f64>,
    /// How long it all took, seconds.
    pub elapsed_s: f64,
}

/// One size and way.
#[derive(Debug, Serialize)]
pub struct Bandwidth {
    /// Payload of a message.
    pub bytes: usize,
    /// How it goes.
    pub way: Way,
    /// What it is held against: `two copies` through reused buffers, or `one copy`.
    pub against: &'static str,
    /// Bytes per second.
    pub bytes_per_s: Contrast,
}
