//! Runs many seeds, one after another, until the requested number of seeds and simulated
//! network-hours is reached.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use clump_os::clock;
use clump_sim::proxies::{Costs, ProxyCell, Setting};
use clump_sim::throughput::{PathReport, ThroughputReport};
use clump_sim::{
    ClusterPlan, NamedPlan, NetCounts, RunFailure, RunSummary, SECOND, WorldPlan, onesided,
    shared_heap,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Simulates clusters in virtual time until enough seeds and network-hours have run.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Options {
    #[command(subcommand)]
    task: Option<Task>,
    /// Run the plan of this TOML file, with its seeds (crates/clump-sim/plans has some).
    #[arg(long, value_name = "FILE", conflicts_with = "network_hours")]
    plan: Option<PathBuf>,
    /// Run at least this many seeds.
    #[arg(long, global = true)]
    seeds: Option<u64>,
    /// Simulate at least this many hours of network time with traffic.
    #[arg(long, visible_alias = "hours", global = true)]
    network_hours: Option<f64>,
    /// The first seed; the others count up from it. Default 1, or that of the plan.
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Print every step of every plan on standard error.
    #[arg(long, global = true)]
    trace: bool,
    /// Also write the summary to this file, as JSON.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    /// Append failing seeds to this plan (crates/clump-sim/plans).
    #[arg(long, global = true)]
    keep: Option<PathBuf>,
    /// Stop after this many failures.
    #[arg(long, default_value_t = 5, global = true)]
    failures: usize,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the cost of loss and congestion: goodput, round trips, eight senders to one.
    Throughput,
    /// Simulate clusters whose ranks use each other's memory instead.
    OneSided {
        /// Network interface of all runs; by default the seed chooses it.
        #[arg(long)]
        ni: Option<Ni>,
    },
    /// Simulate clusters whose ranks share a heap instead.
    SharedHeap,
    /// Paper 002's experiment: message time, queues, utilisation and slowdown by ranks, proxies and
    /// dispatch policy.
    Proxies(Experiment),
}

/// Network interface that carries messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ni {
    /// Each rank drives a stack of its own.
    Direct,
    /// The proxies of the rank's node carry its messages.
    Proxy,
}

/// Assumptions of the experiment with proxies.
#[derive(Debug, Clone, clap::Args)]
struct Experiment {
    /// Mean computing time between two operations of a rank, in ns.
    #[arg(long, default_value_t = Setting::default().think)]
    think_ns: u64,
    /// Payload of each message, in bytes.
    #[arg(long, default_value_t = Setting::default().payload)]
    payload: usize,
    /// Operations of each rank.
    #[arg(long, default_value_t = Setting::default().operations)]
    operations: u64,
    /// Ranks of the job whose nodes become fewer and larger.
    #[arg(long, default_value_t = 16)]
    ranks: u32,
    /// Delay from card to card, in ns.
    #[arg(long, default_value_t = Setting::default().delay)]
    delay_ns: u64,
    /// Cost of a step in ns, replacing the measured one: `send=1000`; repeatable.
    #[arg(long, value_name = "STEP=NS")]
    cost: Vec<String>,
}

/// Totals of all runs.
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
    units_fragmented: u64,
    packets_refused: u64,
    max_memory_bytes: u64,
    /// Counts of one-sided operations, where those were simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    one_sided: Option<onesided::ModelCounts>,
    /// Number of those runs in which proxies carried messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_proxies: Option<u64>,
    /// Counts of shared heaps, where those were simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_heap: Option<shared_heap::HeapCounts>,
    /// Results of the experiment with proxies, where a plan requested it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cells: Vec<ProxyCell>,
    /// Results of a bench, where a plan requested it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    networks: Vec<ThroughputReport>,
    /// Results on paths, where a plan requested it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<PathReport>,
    failed_seeds: Vec<u64>,
}

impl Summary {
    fn add_time(&mut self, network_ns: u64, ranks: u32, events: u64) {
        let hours = network_ns as f64 / (3600.0 * SECOND as f64);
        self.network_hours += hours;
        self.rank_hours += hours * f64::from(ranks);
        self.events += events;
    }

    fn add(&mut self, outcome: &RunSummary) {
        self.add_time(outcome.network_ns, outcome.ranks, outcome.events);
        self.messages += outcome.messages;
        self.handled += outcome.handled;
        self.returned += outcome.returned;
        self.payload_bytes += outcome.bytes;
        self.units_resent += outcome.units_resent;
        self.units_fragmented += outcome.units_fragmented;
        self.packets_refused += outcome.packets_refused;
        self.max_memory_bytes = self.max_memory_bytes.max(outcome.max_memory_bytes);
        self.add_net(outcome.net);
    }

    fn add_one_sided(&mut self, outcome: &onesided::OneSidedSummary) {
        self.add_time(outcome.network_ns, outcome.ranks, outcome.events);
        self.one_sided.get_or_insert_default().add(&outcome.counts);
        *self.by_proxies.get_or_insert_default() += u64::from(outcome.proxies != 0);
        self.add_net(outcome.net);
    }

    fn add_shared_heap(&mut self, outcome: &shared_heap::SharedHeapSummary) {
        self.add_time(outcome.network_ns, outcome.ranks, outcome.events);
        self.shared_heap.get_or_insert_default().add(&outcome.counts);
        *self.by_proxies.get_or_insert_default() += u64::from(outcome.proxies != 0);
        self.units_resent += outcome.counts.units_resent;
        self.add_net(outcome.net);
    }

    fn add_net(&mut self, net: NetCounts) {
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
    if let Some(Task::Proxies(experiment)) = &options.task {
        return proxies(&options, experiment);
    }
    let plan = options.plan.as_deref().map(NamedPlan::read).transpose()?;
    if plan.is_some() && options.task.is_some() {
        anyhow::bail!("a plan names its world; leave out the subcommand");
    }
    let seeds = seeds(&options, plan.as_ref());
    let bar = bar(&options)?;
    let first_seed = seeds.first().copied().unwrap_or(options.seed.unwrap_or(1));
    let mut summary = Summary { first_seed, ..Summary::default() };
    let started = clock::now_ns();
    let most = if plan.is_some() { seeds.len() as u64 } else { u64::MAX };
    while !is_enough(&options, &summary, most) && summary.failed_seeds.len() < options.failures {
        let counted = first_seed + summary.seeds;
        let seed = seeds.get(summary.seeds as usize).copied().unwrap_or(counted);
        let before = clock::now_ns();
        let result = match &plan {
            Some(plan) => run_named(&options, plan, seed, &mut summary)?,
            None => run_one(&options, seed, &mut summary),
        };
        let took = (clock::now_ns() - before) as f64 / 1e9;
        if took > summary.slowest_seconds {
            (summary.slowest_seed, summary.slowest_seconds) = (seed, took);
        }
        summary.seeds += 1;
        if let Err(failure) = result {
            bar.suspend(|| report(&failure))?;
            keep(&options, &failure)?;
            summary.failed_seeds.push(seed);
        }
        summary.wall_seconds = (clock::now_ns() - started) as f64 / 1e9;
        bar.set_position((progress(&options, &summary, most) * 1000.0) as u64);
        bar.set_message(format!(
            "{} seeds, {:.2} network-hours, {} packets",
            summary.seeds, summary.network_hours, summary.packets
        ));
    }
    bar.finish_and_clear();
    let text = serde_json::to_string_pretty(&summary)?;
    if !summary.networks.is_empty() {
        write!(std::io::stdout(), "{}", clump_sim::throughput::table(&summary.networks))?;
    } else if !summary.paths.is_empty() {
        write!(std::io::stdout(), "{}", clump_sim::throughput::path_table(&summary.paths))?;
    } else {
        writeln!(std::io::stdout(), "{text}")?;
    }
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

/// Runs one seed and adds its outcome to the summary.
fn run_one(options: &Options, seed: u64, summary: &mut Summary) -> Result<(), Box<RunFailure>> {
    if let Some(Task::OneSided { ni }) = options.task {
        let plan = match ni {
            None => onesided::OneSidedPlan::new(seed),
            Some(Ni::Direct) => onesided::OneSidedPlan::by(onesided::NetworkMode::Direct, seed),
            Some(Ni::Proxy) => onesided::OneSidedPlan::by(onesided::NetworkMode::Proxies, seed),
        };
        let outcome = onesided::run(plan, options.trace)?;
        summary.add_one_sided(&outcome);
        return Ok(());
    }
    if let Some(Task::SharedHeap) = options.task {
        let outcome = shared_heap::run(shared_heap::SharedHeapPlan::new(seed), options.trace)?;
        summary.add_shared_heap(&outcome);
        return Ok(());
    }
    summary.add(&clump_sim::run(ClusterPlan::new(seed), options.trace)?);
    Ok(())
}

/// Returns the seeds of a plan, or those of the options instead; none without a plan.
fn seeds(options: &Options, plan: Option<&NamedPlan>) -> Vec<u64> {
    let Some(plan) = plan else { return Vec::new() };
    let own = plan.seeds();
    match (options.seed, options.seeds) {
        (None, None) => own,
        (first, count) => {
            let first = first.or(own.first().copied()).unwrap_or(1);
            (first..first + count.unwrap_or(1)).collect()
        }
    }
}

/// Runs one seed of a plan and adds its outcome to the summary. The outer error is one of the plan
/// itself.
fn run_named(
    options: &Options,
    plan: &NamedPlan,
    seed: u64,
    summary: &mut Summary,
) -> Result<Result<(), Box<RunFailure>>> {
    for run in plan.runs(seed)? {
        let done = match run {
            WorldPlan::Messages(plan) => {
                clump_sim::run(plan, options.trace).map(|outcome| summary.add(&outcome))
            }
            WorldPlan::OneSided(plan) => {
                onesided::run(plan, options.trace).map(|outcome| summary.add_one_sided(&outcome))
            }
            WorldPlan::Proxies(setting) => {
                summary.cells.push(clump_sim::proxies::measure(&setting)?);
                Ok(())
            }
            WorldPlan::Throughput(network) => {
                summary.networks.push(clump_sim::throughput::measure(&network)?);
                Ok(())
            }
            WorldPlan::Path(path) => {
                summary.paths.push(clump_sim::throughput::try_path(&path, options.trace)?);
                Ok(())
            }
        };
        if let Err(mut failure) = done {
            failure.task = format!("--plan {} ", plan.name());
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

fn throughput(options: &Options) -> Result<()> {
    let measure = clump_sim::throughput::measure;
    let reports =
        clump_sim::throughput::networks()?.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    write!(std::io::stdout(), "{}", clump_sim::throughput::table(&reports))?;
    write_json(options, &serde_json::to_string_pretty(&reports)?)
}

fn proxies(options: &Options, experiment: &Experiment) -> Result<ExitCode> {
    let mut costs = Costs::measured();
    for given in &experiment.cost {
        let (name, ns) = given.split_once('=').context("a cost is given as STEP=NS")?;
        let ns: f64 = ns.parse().with_context(|| format!("{ns:?} is no number of ns"))?;
        let mut named = costs.named();
        let known: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let place = named.iter_mut().find(|(known, _)| *known == name);
        let place = place.with_context(|| format!("no step is called {name:?}; {known:?} are"))?;
        anyhow::ensure!(ns >= 0.0, "a step takes no time or some, not {ns} ns");
        *place.1 = ns;
    }
    let base = Setting {
        think: experiment.think_ns,
        payload: experiment.payload,
        other_payload: experiment.payload,
        operations: experiment.operations,
        delay: experiment.delay_ns,
        seed: options.seed.unwrap_or(1),
        costs,
        ..Setting::default()
    };
    let report = clump_sim::proxies::report(&clump_sim::proxies::TableOptions {
        base,
        all_ranks: experiment.ranks,
    })?;
    write!(std::io::stdout(), "{}", report.text())?;
    write_json(options, &serde_json::to_string_pretty(&report)?)?;
    Ok(if report.obeys_little() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Fraction of the requested work that is done, from 0 to 1: `most` seeds of a plan, or by default
/// a hundred.
fn progress(options: &Options, summary: &Summary, most: u64) -> f64 {
    let hours = options.network_hours.map(|hours| summary.network_hours / hours);
    let least = if hours.is_some() { 1 } else { 100 };
    let wanted = if most == u64::MAX { options.seeds.unwrap_or(least) } else { most };
    let seeds = summary.seeds as f64 / wanted.max(1) as f64;
    hours.map_or(seeds, |hours| hours.min(seeds)).min(1.0)
}

fn is_enough(options: &Options, summary: &Summary, most: u64) -> bool {
    progress(options, summary, most) >= 1.0
}

fn report(failure: &RunFailure) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "FAILED {failure}\n")?)
}

fn keep(options: &Options, failure: &RunFailure) -> Result<()> {
    let Some(path) = &options.keep else { return Ok(()) };
    let context = || path.display().to_string();
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).with_context(context)?;
    let what = failure.what.chars().take(100).collect::<String>();
    writeln!(file, "\n[[seed]]\nnumber = {}\nfound = {what:?}", failure.seed).with_context(context)
}
