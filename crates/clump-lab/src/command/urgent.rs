//! `clump lab urgent`: options and jobs.

use crate::compare::process;
use crate::launch::{self, JobShape};
use crate::urgent::live::{self, UrgentWorkload};
use crate::urgent::{OperationRow, UrgentJob, UrgentReport};
use anyhow::{Context, Result};
use clap::ValueEnum;
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_wire::Security;

/// Parameter that puts control ahead of data, with and without.
const CONTROL_FIRST: [&str; 2] = ["net.control-first=false", "net.control-first=true"];

/// Options of `clump lab urgent`.
#[derive(Debug, Clone, clap::Args)]
pub struct UrgentArgs {
    /// Protection of packets between nodes: aead or crc
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Put each node into a network namespace of its own, joined by veth, instead of using loopback
    #[arg(long)]
    pub netns: bool,
    /// Turns of every job with control ahead and without; figures are medians over them
    #[arg(long, default_value = "7", value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Workload of the ranks of a job.
    #[arg(long, hide = true, value_enum)]
    pub workload: Option<UrgentWorkload>,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, or if it measured nothing.
pub fn run(args: &UrgentArgs) -> Result<u8> {
    if let Some(workload) = args.workload {
        if let Some(said) = live::play(workload)? {
            console::out(&format!("{}\n", serde_json::to_string(&said)?))?;
        }
        return Ok(0);
    }
    let watch = LineWatch::begin();
    let mut rows = Vec::new();
    for (workload, what) in [
        (UrgentWorkload::Trips, "round trip of 8 bytes"),
        (UrgentWorkload::Locks, "lock taken and given back"),
    ] {
        let turn = |round: usize| -> Result<(UrgentJob, UrgentJob)> {
            if round.is_multiple_of(2) {
                let with = job(args, workload, true)?;
                return Ok((with, job(args, workload, false)?));
            }
            let without = job(args, workload, false)?;
            Ok((job(args, workload, true)?, without))
        };
        let turns = (0..args.rounds).map(turn).collect::<Result<Vec<_>>>()?;
        rows.push(OperationRow::of(what, &turns)?);
    }
    let report = UrgentReport { security: args.security.name(), rows };
    crate::render::show(&report.report()?.watched(watch), args.json)?;
    Ok(0)
}

/// Runs a job for the output of its rank 0.
fn job(args: &UrgentArgs, workload: UrgentWorkload, ahead: bool) -> Result<UrgentJob> {
    let shape = JobShape { ranks: 2, nodes: 2, security: args.security, netns: args.netns };
    let value = workload.to_possible_value().context("every workload has a name")?;
    let mut command = launch::job_with(shape, 0, &["--lab", CONTROL_FIRST[usize::from(ahead)]])?;
    command.args(words(value.get_name()));
    let what = || format!("a job of `{}`", value.get_name());
    let text = process::run(&mut command).with_context(what)?;
    serde_json::from_str(&text).with_context(what)
}

/// Returns the command line of the ranks.
fn words(workload: &str) -> [&str; 4] {
    ["lab", "urgent", "--workload", workload]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};

    #[test]
    fn ranks_know_the_command_line_that_starts_them() {
        for workload in UrgentWorkload::value_variants() {
            let value = workload.to_possible_value().unwrap();
            let Command::Urgent(args) = parse(&words(value.get_name())) else {
                panic!("another command")
            };
            assert_eq!(args.workload, Some(*workload));
        }
    }

    #[test]
    fn the_parameter_exists() {
        for (text, ahead) in CONTROL_FIRST.into_iter().zip([false, true]) {
            let lab = clump_boot::Lab::default().read("--lab", text).unwrap();
            assert_eq!(lab.net_control_first, ahead);
        }
    }
}
