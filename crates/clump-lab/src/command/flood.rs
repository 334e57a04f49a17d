//! `clump lab flood`: options, and the job.

use crate::compare::process;
use crate::flood::{FloodReport, FloodedJob, live, price};
use crate::launch::{self, JobShape};
use anyhow::{Context, Result};
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_wire::Security;

/// Options of `clump lab flood`.
#[derive(Debug, Clone, clap::Args)]
pub struct FloodArgs {
    /// Protection of packets between nodes: aead or crc
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Packets of the attacker, per second
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if the job cannot be run, or if the attack did not take place as planned.
pub fn run(args: &FloodArgs) -> Result<u8> {
    if launch::is_rank() {
        if let Some(said) = live::play(args.security, args.rate)? {
            console::out(&format!("{said}\n"))?;
        }
        return Ok(0);
    }
    let watch = LineWatch::begin();
    let prices = price::measure(args.security)?;
    let shape = JobShape { ranks: 2, nodes: 2, security: args.security, netns: false };
    let mut command = launch::job(shape, 0)?;
    command.args(["lab", "flood", "--security", args.security.name()]);
    command.args(["--rate", &args.rate.to_string()]);
    let what = "a job that is attacked";
    let text = process::run(&mut command).context(what)?;
    let said: FloodedJob = serde_json::from_str(&text).context(what)?;
    let report = FloodReport::of(args.security.name(), args.rate, &said, prices)?;
    crate::render::show(&report.report()?.watched(watch), args.json)?;
    Ok(0)
}
