//! Many seeds, one after another, until there were enough of them and enough simulated network-hours.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use clump_os::clock;
use clump_sim::{Failure, Outcome, Plan, SECOND};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates clusters in virtual time until there were enough seeds and enough network-hours.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
    /// Run at least so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// Simulate at least so many hours of network time with traffic in it.
    #[arg(long, visible_alias = "hours")]
    network_hours: Option<f64>,
    /// The first seed; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Say every step of every plan on standard error.
    #[arg(long)]
    trace: bool,
    /// Also write the summary to this file, as JSON.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    /// Append failing seeds to this file.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Stop after so many failures.
    #[arg(long, default_value_t = 5)]
    failures: usize,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print what loss and crowding cost: goodput, round trips, eight senders to one.
    Throughput,
}

/// What all runs came to.
#[derive(Debug, Default, Serialize)]
struct Summary {
    first_seed: u64,
    seeds: u64,
    network_hours: f64,
    rank_hours: f64,
    wall_seconds: f64,
    slowest_seed: u64,
    slowest_seconds: f64,
    events: u64,
    messages: u64,
    handled: u64,
    returned: u64,
    payload_bytes: u64,
    packets: u64,
    lost: u64,
    cut: u64,
    doubled: u64,
    held_back: u64,
    spoilt: u64,
    came_again_late: u64,
    too_long: u64,
    overflowed: u64,
    marked: u64,
    sends_refused: u64,
    units_resent: u64,
    units_sliced: u64,
    packets_refused: u64,
    most_memory_bytes: u64,
    failed_seeds: Vec<u64>,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        let hours = outcome.network_ns as f64 / (3600.0 * SECOND as f64);
        self.network_hours += hours;
        self.rank_hours += hours * f64::from(outcome.ranks);
        self.events += outcome.events;
        self.messages += outcome.messages;
        self.handled += outcome.handled;
        self.returned += outcome.returned;
        self.payload_bytes += outcome.bytes;
        self.units_resent += outcome.units_resent;
        self.units_sliced += outcome.units_sliced;
        self.packets_refused += outcome.packets_refused;
        self.most_memory_bytes = self.most_memory_bytes.max(outcome.most_memory_bytes);
        let net = outcome.net;
        self.packets += net.sent;
        self.lost += net.lost;
        self.cut += net.cut;
        self.doubled += net.doubled;
        self.held_back += net.held;
        self.spoilt += net.spoilt;
        self.came_again_late += net.stale;
        self.too_long += net.too_long;
        self.overflowed += net.overflowed;
        self.marked += net.marked;
        self.sends_refused += net.refused;
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if matches!(options.task, Some(Task::Throughput)) {
        return throughput(&options).map(|()| ExitCode::SUCCESS);
    }
    let bar = bar(&options)?;
    let mut summary = Summary { first_seed: options.seed, ..Summary::default() };
    let started = clock::now_ns();
    while !is_enough(&options, &summary) && summary.failed_seeds.len() < options.failures {
        let seed = options.seed + summary.seeds;
        let before = clock::now_ns();
        let result = clump_sim::run(Plan::new(seed), options.trace);
        let took = (clock::now_ns() - before) as f64 / 1e9;
        if took > summary.slowest_seconds {
            (summary.slowest_seed, summary.slowest_seconds) = (seed, took);
        }
        summary.seeds += 1;
        match result {
            Ok(outcome) => summary.add(&outcome),
            Err(failure) => {
                bar.suspend(|| report(&failure))?;
                keep(&options, &failure)?;
                summary.failed_seeds.push(seed);
            }
        }
        summary.wall_seconds = (clock::now_ns() - started) as f64 / 1e9;
        bar.set_position((progress(&options, &summary) * 1000.0) as u64);
        bar.set_message(format!(
            "{} seeds, {:.2} network-hours, {} messages",
            summary.seeds, summary.network_hours, summary.messages
        ));
    }
    bar.finish_and_clear();
    let text = serde_json::to_string_pretty(&summary)?;
    writeln!(std::io::stdout(), "{text}")?;
    write_json(&options, &text)?;
    if !summary.failed_seeds.is_empty() {
        writeln!(
            std::io::stderr(),
            "{} of {} seeds failed",
            summary.failed_seeds.len(),
            summary.seeds
        )?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn throughput(options: &Options) -> Result<()> {
    let measure = clump_sim::throughput::measure;
    let reports =
        clump_sim::throughput::networks().iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    write!(std::io::stdout(), "{}", clump_sim::throughput::table(&reports))?;
    write_json(options, &serde_json::to_string_pretty(&reports)?)
}

fn write_json(options: &Options, text: &str) -> Result<()> {
    match &options.json {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string()),
        None => Ok(()),
    }
}

fn bar(options: &Options) -> Result<ProgressBar> {
    let bar = if options.trace { ProgressBar::hidden() } else { ProgressBar::new(1000) };
    let style = ProgressStyle::with_template("[{elapsed_precise}] {wide_bar} {percent} % {msg}")?;
    bar.set_style(style);
    Ok(bar)
}

/// How much of what was asked for is done, from 0 to 1. A hundred seeds where nothing was asked for.
fn progress(options: &Options, summary: &Summary) -> f64 {
    let hours = options.network_hours.map(|hours| summary.network_hours / hours);
    let least = if hours.is_some() { 1 } else { 100 };
    let seeds = summary.seeds as f64 / options.seeds.unwrap_or(least).max(1) as f64;
    hours.map_or(seeds, |hours| hours.min(seeds)).min(1.0)
}

fn is_enough(options: &Options, summary: &Summary) -> bool {
    progress(options, summary) >= 1.0
}

fn report(failure: &Failure) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "FAILED {failure}\n")?)
}

fn keep(options: &Options, failure: &Failure) -> Result<()> {
    let Some(path) = &options.keep else { return Ok(()) };
    let context = || path.display().to_string();
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).with_context(context)?;
    let what = failure.what.chars().take(100).collect::<String>();
    writeln!(file, "{} # {what}", failure.seed).with_context(context)
}
