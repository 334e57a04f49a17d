//! Results of `clump lab logp`, as data.

use crate::bare::StreamShape;
use crate::contrast::Contrast;
use crate::pair::{BulkPath, PairNetwork, Placement};
use crate::steps::Breakdown;
use crate::wire::Call;
use clump_loggp::Median;
use clump_loggp::prtt::PrttEstimate;
use clump_loggp::{Estimate, Measurement, MethodRow};
use serde::Serialize;

/// All results; serializes to the `--json` output.
#[derive(Debug, Serialize)]
pub struct LogpReport {
    /// The network between the ranks; none when they share memory.
    pub link: Option<PairNetwork>,
    /// The bare stream that was fastest there.
    pub shape: Option<StreamShape>,
    /// Placement of the ranks, when they share memory.
    pub placement: Option<Placement>,
    /// One-way travel of a cache line between them, nanoseconds.
    pub line_one_way_ns: Option<f64>,
    /// From short request to handled reply, against the bare round trip; nanoseconds.
    pub round_trip_ns: Contrast,
    /// One-way short messages against the bare rate; messages per second.
    pub rate_per_s: Contrast,
    /// Streams of payload against bare ones.
    pub bandwidth: Vec<Bandwidth>,
    /// The bare network through other system calls.
    pub paths: Vec<BarePath>,
    /// The LogP table.
    pub estimate: Estimate,
    /// The second method.
    pub trains: PrttEstimate,
    /// Parameters by each of three methods.
    pub methods: Vec<MethodRow>,
    /// Steps of a send and a receive.
    pub breakdown: Breakdown,
    /// The tables behind the estimate, the signature among them.
    pub measurement: Measurement,
    /// Number of processes that wanted to run beside this one (load average of the last minute),
    /// where that is more than the machine has processors for: the figures then say little.
    pub crowd: Option<f64>,
    /// Share of its time that the rank that did so longer waited for a processor, in percent; none
    /// where the kernel does not tell.
    pub queued_percent: Option<f64>,
    /// Duration of the whole run, seconds.
    pub elapsed_s: f64,
}

/// One size and kind.
#[derive(Debug, Serialize)]
pub struct Bandwidth {
    /// Payload of a message.
    pub bytes: usize,
    /// Kind of message.
    pub way: BulkPath,
    /// Its baseline.
    pub against: &'static str,
    /// Bytes per second.
    pub bytes_per_s: Contrast,
}

/// The bare network through one kind of system call.
#[derive(Debug, Serialize)]
pub struct BarePath {
    /// Kind of call.
    pub call: Call,
    /// Clump's round trip against that of datagrams of the same size, nanoseconds; `None` for
    /// streams only.
    pub round_trip_ns: Option<Contrast>,
    /// Datagrams of a short message's size, one way, per second.
    pub datagrams_per_s: Median,
}
