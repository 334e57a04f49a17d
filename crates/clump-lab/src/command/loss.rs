//! `clump lab loss`: options and jobs.

use crate::compare::process;
use crate::launch::{self, JobShape};
use crate::loss::live::{self, LossWorkload};
use crate::loss::{
    Goodput, IncastFigures, LOSSES, LossReport, RoundTripFigures, SENDERS, StreamFigures,
    TRIP_LOSS, Tail,
};
use anyhow::{Context, Result};
use clap::ValueEnum;
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use serde::de::DeserializeOwned;

/// Variable that makes ranks lose packets.
const VARIABLE: &str = "CLUMP_NET_FAULTS";

/// Options of `clump lab loss`.
#[derive(Debug, Clone, clap::Args)]
pub struct LossArgs {
    /// Protection of packets between nodes: aead or crc
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Put each node into a network namespace of its own, joined by veth, instead of using loopback
    #[arg(long)]
    pub netns: bool,
    /// Turns of every job with loss and without; figures are medians over them
    #[arg(long, default_value = "5", value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// Chooses the packets that are lost
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Workload of the ranks of a job.
    #[arg(long, hide = true, value_enum)]
    pub workload: Option<LossWorkload>,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, or if it lost nothing.
pub fn run(args: &LossArgs) -> Result<u8> {
    if let Some(workload) = args.workload {
        if let Some(said) = live::play(workload, args.security)? {
            console::out(&format!("{said}\n"))?;
        }
        return Ok(0);
    }
    let watch = LineWatch::begin();
    let mut goodput = Vec::new();
    for loss in LOSSES {
        let turn = |round: usize| -> Result<(StreamFigures, StreamFigures)> {
            let seed = args.seed.wrapping_add(round as u64);
            Ok((
                job(args, LossWorkload::Stream, loss.0, seed)?,
                job(args, LossWorkload::Stream, 0, seed)?,
            ))
        };
        let turns = (0..args.rounds).map(turn).collect::<Result<Vec<_>>>()?;
        goodput.push(Goodput::of(loss, &turns)?);
    }
    let lossless: RoundTripFigures = job(args, LossWorkload::Trips, 0, args.seed)?;
    let lossy: RoundTripFigures = job(args, LossWorkload::Trips, TRIP_LOSS, args.seed)?;
    let tail = Tail::of(&lossy, &lossless)?;
    let incast: IncastFigures = job(args, LossWorkload::Incast, 0, args.seed)?;
    let report = LossReport { security: args.security.name(), goodput, tail, incast };
    crate::render::show(&report.report()?.watched(watch), args.json)?;
    Ok(0)
}

/// Runs a job for the output of its rank 0.
fn job<T: DeserializeOwned>(
    args: &LossArgs,
    workload: LossWorkload,
    loss_ppm: u32,
    seed: u64,
) -> Result<T> {
    let ranks = if workload == LossWorkload::Incast { 1 + SENDERS } else { 2 };
    let shape = JobShape { ranks, nodes: ranks, security: args.security, netns: args.netns };
    let value = workload.to_possible_value().context("every workload has a name")?;
    let mut command = launch::job(shape, 0)?;
    command.args(words(value.get_name(), args.security));
    command.env(VARIABLE, faults(loss_ppm, seed));
    let what = || format!("a job with {loss_ppm} packets lost of a million ({})", value.get_name());
    let text = process::run(&mut command).with_context(what)?;
    serde_json::from_str(&text).with_context(what)
}

/// Returns the setting by which so many packets of a million are lost, chosen by a seed.
fn faults(loss_ppm: u32, seed: u64) -> String {
    format!("loss={loss_ppm}ppm,seed={seed}")
}

/// Returns the command line of the ranks.
fn words(workload: &str, security: Security) -> [&str; 6] {
    ["lab", "loss", "--workload", workload, "--security", security.name()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};

    #[test]
    fn ranks_know_the_command_line_that_starts_them() {
        for workload in LossWorkload::value_variants() {
            let value = workload.to_possible_value().unwrap();
            let Command::Loss(args) = parse(&words(value.get_name(), Security::Crc)) else {
                panic!("another command")
            };
            assert_eq!((args.workload, args.security), (Some(*workload), Security::Crc));
        }
    }

    /// The name is one of the table of settings; another one would be ignored silently.
    #[test]
    fn the_setting_exists() {
        assert!(clump_boot::config::TEXT_KEYS.iter().any(|key| key.variable == VARIABLE));
        let read = clump_boot::NetFaults::default().read(VARIABLE, &faults(10_000, 7)).unwrap();
        assert_eq!((read.loss_ppm, read.seed), (10_000, 7));
    }
}
