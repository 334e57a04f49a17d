//! Virtual time of a sweep: its machine, the source of the costs of computation, and what a run in
//! virtual time reports.

use clump_boot::virtual_machine::VirtualMachine;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Virtual time of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualSweep {
    /// The machine at no setting.
    pub machine: VirtualMachine,
    /// Source of the costs of computation: [`RECORDED`], `fixed:NS` or `replay:FOLDER`.
    pub cpu: String,
    /// Runs whose computation is recorded, the least of each part of which is charged.
    #[serde(default = "one")]
    pub learn: u32,
}

fn one() -> u32 {
    1
}

/// Computation that is recorded first, in runs at no setting, and replayed at each setting.
pub const RECORDED: &str = "recorded";

/// A run in virtual time, beside its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualRun {
    /// Computation of all ranks, in virtual ns.
    pub computed_ns: u64,
    /// The part of it that no recording had.
    pub diverged_ns: u64,
    /// Messages that were handled.
    pub messages: u64,
    /// Digest of all sends and receptions with their times: equal for equal runs.
    pub digest: String,
}

/// Virtual time in the outcome of `clump run --json`, as far as a sweep keeps it.
#[derive(Debug, Deserialize)]
struct PrintedTime {
    ns: u64,
    #[serde(flatten)]
    run: VirtualRun,
}

impl VirtualRun {
    /// Returns the virtual time of a job in s, and its run, from the outcome that it has printed
    /// last.
    pub fn of_printed(printed: &str) -> Option<(f64, Self)> {
        let last = printed.lines().rev().find(|line| line.starts_with('{'))?;
        let outcome: Value = serde_json::from_str(last).ok()?;
        let time: PrintedTime =
            serde_json::from_value(outcome.get("virtual_time")?.clone()).ok()?;
        #[expect(clippy::cast_precision_loss, reason = "times of runs are below 2^53 ns")]
        Some((time.ns as f64 / 1e9, time.run))
    }

    /// Returns the share of computation that no recording had, in percent.
    pub fn diverged_percent(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "times of runs are below 2^53 ns")]
        let share = self.diverged_ns as f64 / self.computed_ns.max(1) as f64;
        100.0 * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_is_that_of_the_outcome_that_is_printed_last() {
        let outcome = r#"{"code":0,"virtual_time":{"machine":"m","knobs":"","compute":"fixed:5",
            "ns":2500000000,"computed_ns":400,"diverged_ns":100,"messages":7,"turns":9,
            "digest":"00ff"}}"#;
        let printed = format!("{{\"phases\":[]}}\n{}\n", outcome.replace('\n', ""));
        let (seconds, run) = VirtualRun::of_printed(&printed).unwrap();
        assert_eq!((seconds, run.messages, run.digest.as_str()), (2.5, 7, "00ff"));
        assert!((run.diverged_percent() - 25.0).abs() < 1e-9);
        assert_eq!(VirtualRun::of_printed("{\"code\":0,\"virtual_time\":null}"), None);
        assert_eq!(VirtualRun::of_printed(""), None);
    }
}
