//! Runs on made records: their sizes, the check of their results, and the report that all
//! applications have.

use crate::gensort::sum_of;
use crate::report::SortReport;
use crate::valsort::{ValsortArgs, Verdict, validate};
use anyhow::Result;
use clump_app_frame::{AppReport, InputSize, Lap};
use clump_os::console;
use std::path::Path;

/// Input and memory of a size.
#[derive(Debug, Clone, Copy)]
pub struct SizedRun {
    /// Records, of 100 bytes each.
    pub records: u64,
    /// Memory of all ranks together, in bytes: less than the records take.
    pub memory: u64,
}

impl SizedRun {
    /// Returns those of `size`.
    pub fn of(size: InputSize) -> Self {
        let records = size.of(200_000, 10_000_000, 32_000_000);
        Self { records, memory: size.of(4 << 20, 256 << 20, 256 << 20) }
    }
}

/// The result of a check, and the time it took.
#[derive(Debug)]
pub struct CheckedRun {
    verdict: Verdict,
    seconds: f64,
}

/// Checks the sorted output by valsort's rules, against the number and the sum of the size's
/// records, which are made again. Prints what does not hold on standard error.
///
/// # Errors
/// Fails if the output cannot be read.
pub fn check(output: &Path, size: InputSize) -> Result<CheckedRun> {
    let lap = Lap::begin();
    let records = SizedRun::of(size).records;
    let verdict = validate(&ValsortArgs {
        outputs: vec![output.into()],
        input: Vec::new(),
        checksum: Some(sum_of(records)?.hex()),
        records: Some(records),
        json: false,
    })?;
    for fault in &verdict.faults {
        console::err(&format!("clump: the sorted output is wrong: {fault}"));
    }
    Ok(CheckedRun { verdict, seconds: lap.seconds() })
}

impl CheckedRun {
    /// Composes the report of the run on `nodes` nodes.
    pub fn report(&self, sorted: &SortReport, size: InputSize, nodes: usize) -> AppReport {
        let mut report = AppReport::of("sort", size, (sorted.nranks, nodes));
        report.choice("passes", if sorted.two_pass { "two" } else { "one" });
        for (name, count) in [
            ("records", sorted.records),
            ("bytes", sorted.bytes),
            ("runs of the rank with most", sorted.max_runs as u64),
            ("memory cap", sorted.memory_cap),
            ("memory measured", sorted.memory_peak),
            ("memory in buffers", sorted.budget_peak),
            ("faults", self.verdict.faults.len() as u64),
        ] {
            report.count(name, count);
        }
        for (name, seconds) in [
            ("make records", sorted.stream_s),
            ("open, check, sample", sorted.sample_s),
            ("read, send, sort runs", sorted.pass_one_s),
            ("merge and write", sorted.pass_two_s),
            ("name the files", sorted.publish_s),
            ("check", self.seconds),
        ] {
            report.phase(name, seconds);
        }
        let sorting = (sorted.total_s - sorted.stream_s).max(1e-9);
        report.figure("MB sorted a second", sorted.bytes as f64 / 1e6 / sorting);
        report.figure("largest share of the mean", sorted.imbalance);
        if let Some(disk) = &sorted.disk {
            report.figure("rate, of the bare disk's", disk.ratio);
        }
        report.verify(self.verdict.valid && sorted.verified);
        report
    }
}
