//! What `clump lab logp` found out, as data.

use crate::bare::Shape;
use crate::contrast::Contrast;
use crate::pair::{Link, Placement, Way};
use crate::steps::Breakdown;
use crate::wire::Call;
use clump_loggp::Median;
use clump_loggp::prtt::{Disagreement, PrttEstimate};
use clump_loggp::{Estimate, Measurement};
use serde::Serialize;

/// Everything; serializes to the `--json` output.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The network between the ranks; none when they share memory.
    pub link: Option<Link>,
    /// The bare stream that turned out to be fastest there.
    pub shape: Option<Shape>,
    /// Where the ranks sat, when they share memory.
    pub placement: Option<Placement>,
    /// One-way travel of a cache line between them, nanoseconds.
    pub line_one_way_ns: Option<f64>,
    /// Short request to reply handled, against the bare round trip; nanoseconds.
    pub round_trip_ns: Contrast,
    /// One-way short messages against the bare rate; messages per second.
    pub rate_per_s: Contrast,
    /// Streams of payload against bare ones.
    pub bandwidth: Vec<Bandwidth>,
    /// The bare network through other system calls.
    pub paths: Vec<Path>,
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
    /// What it is held against.
    pub against: &'static str,
    /// Bytes per second.
    pub bytes_per_s: Contrast,
}

/// The bare network through one kind of system call.
#[derive(Debug, Serialize)]
pub struct Path {
    /// Which calls.
    pub call: Call,
    /// Our round trip against that of datagrams of the same size, nanoseconds; streams only: none.
    pub round_trip_ns: Option<Contrast>,
    /// Datagrams of a short message's size, one way, per second.
    pub datagrams_per_s: Median,
}
