//! `clump lab logp`: options, jobs, the ranks' work, output.

use crate::brief;
use crate::columns::{Column, Columns};
use crate::compare::process;
use crate::contrast::Contrast;
use crate::figure::signature;
use crate::launch::{self, JobShape};
use crate::logp;
use crate::logp_tables::Extent;
use crate::pair::Scope;
use crate::pair::meeting::{PairRole, meet};
use crate::plan::MeasurementPlan;
use crate::progress::JobProgress;
use crate::report::LogpReport;
use crate::schema::{InstrumentReport, Machine};
use crate::steps;
use crate::wrong_command::WrongCommand;
use anyhow::{Context, Result, bail};
use clump::Max;
use clump_os::file::check_writable;
use clump_os::process::own_pid as process_id;
use clump_os::procfs::waited_ns;
use clump_os::{clock, console};
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Paths to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Paths {
    /// Shared memory, between two ranks of a node.
    #[default]
    Shm,
    /// The network, between two nodes.
    Net,
    /// One after the other.
    Both,
    /// Both alone, and each with the other present, side by side (paper 000, table 2).
    All,
}

/// Options of `clump lab logp`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LogpArgs {
    /// Paths to measure
    #[arg(long, value_enum, default_value = "shm")]
    pub scope: Paths,
    /// Protection of packets between nodes [default: both aead and crc, one after the other; with
    /// --scope all only aead]
    #[arg(long, value_name = "aead|crc")]
    pub security: Option<Security>,
    /// Put each node into a network namespace of its own, joined by veth, instead of using loopback
    #[arg(long)]
    pub netns: bool,
    /// Fewer points, in about a second
    #[arg(long)]
    pub quick: bool,
    /// Only the table and the comparisons
    #[arg(long)]
    pub table: bool,
    /// Only five figures, on a node and between two, with their meaning; none where other programs
    /// have the processors
    #[arg(long, conflicts_with_all = ["table", "json", "svg", "scope", "security"])]
    pub brief: bool,
    /// Everything measured, as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Draw the signature into this SVG file too
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Ranks measure the round trip only, and print nothing else.
    #[arg(long, hide = true)]
    pub trips: bool,
}

/// Runs the command. Returns the exit code. Started by hand, it starts itself again as jobs.
///
/// # Errors
/// Fails if a job cannot be run, if a measurement fails, or if a file cannot be written.
pub fn run(args: &LogpArgs) -> Result<u8> {
    if launch::is_rank() {
        return run_rank(args);
    }
    if args.brief {
        return in_brief(args);
    }
    if let Some(file) = &args.svg {
        let named = || format!("{} (--svg) cannot be written", file.display());
        check_writable(file).with_context(named)?;
    }
    let workloads = workloads(args);
    if args.svg.is_some() && workloads.len() != 1 {
        return Err(WrongCommand::new(format!(
            "--svg draws one signature, but {} are measured here: choose with --scope and --security",
            workloads.len()
        ))
        .into());
    }
    if args.scope == Paths::All {
        return all(args);
    }
    let mut progress = JobProgress::new("logp", workloads.len());
    let mut reports = LogpOfPaths::default();
    for (at, workload) in workloads.iter().enumerate() {
        progress.next(workload.title());
        let report = report_of(workload, args)?;
        if args.json && workloads.len() > 1 {
            reports.paths.insert(workload.name().to_owned(), report);
            continue;
        }
        if at > 0 {
            console::out("\n")?;
        }
        crate::render::show(&report, args.json)?;
    }
    if !reports.paths.is_empty() {
        console::out(&format!("{}\n", serde_json::to_string(&reports)?))?;
    }
    Ok(0)
}

/// The output of `--json` where several paths are measured, one after the other.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub struct LogpOfPaths {
    /// Number of the format.
    pub format: u32,
    /// The report of each path, by its name.
    #[serde(flatten)]
    pub paths: BTreeMap<String, InstrumentReport>,
}

impl Default for LogpOfPaths {
    fn default() -> Self {
        Self { format: console::JSON_FORMAT, paths: BTreeMap::new() }
    }
}

/// One job, and the pair of it that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogpJob {
    scope: Scope,
    shape: JobShape,
}

impl LogpJob {
    /// Creates a job with `ranks` on each of `nodes` nodes.
    fn new(scope: Scope, ranks: usize, nodes: usize, security: Security, args: &LogpArgs) -> Self {
        let ranks = ranks * nodes;
        Self { scope, shape: JobShape { ranks, nodes, security, netns: args.netns } }
    }

    fn name(&self) -> &'static str {
        match self.scope {
            Scope::Shm => "shm",
            Scope::Net => self.shape.security.name(),
        }
    }

    /// Returns its name in lines of progress.
    fn title(&self) -> &'static str {
        match (self.scope, self.shape.security) {
            (Scope::Shm, _) => "shm",
            (Scope::Net, Security::Aead) => "net, aead",
            (Scope::Net, Security::Crc) => "net, crc",
        }
    }

    /// Returns this command line for the ranks of the job.
    fn command(&self, args: &LogpArgs) -> Result<Command> {
        let mut command = launch::job(self.shape, self.shape.ranks - 2)?;
        let scope = match self.scope {
            Scope::Shm => "shm",
            Scope::Net => "net",
        };
        command.args(["lab", "logp", "--scope", scope]);
        command.args(["--security", self.shape.security.name()]);
        for (wanted, option) in
            [(args.quick, "--quick"), (args.table, "--table"), (args.json, "--json")]
        {
            command.args(wanted.then_some(option));
        }
        if let Some(file) = &args.svg {
            command.arg("--svg").arg(file);
        }
        Ok(command)
    }
}

/// Returns the jobs of everything but `--scope all`.
fn workloads(args: &LogpArgs) -> Vec<LogpJob> {
    let both = vec![Security::Aead, Security::Crc];
    let securities = args.security.map_or(both, |one| vec![one]);
    let net = securities.into_iter().map(|security| LogpJob::new(Scope::Net, 1, 2, security, args));
    let mut workloads = Vec::new();
    if args.scope != Paths::Net {
        workloads.push(LogpJob::new(Scope::Shm, 2, 1, Security::default(), args));
    }
    if args.scope != Paths::Shm {
        workloads.extend(net);
    }
    workloads
}

/// Prints five figures, or why there are none.
fn in_brief(args: &LogpArgs) -> Result<u8> {
    /// Time that shows if this process gets a processor when it wants one.
    const TRIED_NS: u64 = 200_000_000;
    let begun = (clock::now_ns(), waited_ns(process_id()));
    while clock::now_ns() < begun.0 + TRIED_NS {
        std::hint::spin_loop();
    }
    let queued = queued_percent(queued_permille(begun));
    if let Some(why) = brief::crowd(&serde_json::json!({ "queued_percent": queued })) {
        return say_brief(Err(why));
    }
    let args = LogpArgs { brief: false, quick: true, ..args.clone() };
    let aead = Security::default();
    let jobs =
        [LogpJob::new(Scope::Shm, 2, 1, aead, &args), LogpJob::new(Scope::Net, 1, 2, aead, &args)];
    let mut progress = JobProgress::new("logp", jobs.len());
    let mut data = Vec::new();
    for job in jobs {
        progress.next(job.title());
        data.push(report_of(&job, &args)?.data);
    }
    let [node, network] = &data[..] else { bail!("two jobs have two reports") };
    say_brief(brief::lines(node, network))
}

/// Prints the figures, or why there are none.
fn say_brief(figures: Result<Vec<String>, String>) -> Result<u8> {
    let text = match figures {
        Ok(lines) => lines.join("\n"),
        Err(why) => {
            format!("  no figures: {why}; on a quiet machine `clump lab logp --brief` has some")
        }
    };
    console::out(&format!("{text}\n"))?;
    if !Machine::this().optimized {
        console::out("  (this program was built without optimization: they say nothing)\n")?;
    }
    Ok(0)
}

/// Runs a job for its report, between two measurements of the processors' distance.
fn report_of(workload: &LogpJob, args: &LogpArgs) -> Result<InstrumentReport> {
    let wanted = LogpArgs { json: true, ..args.clone() };
    let watch = LineWatch::begin();
    let text = process::run(&mut workload.command(&wanted)?)
        .with_context(|| format!("measuring {}", workload.scope.text()))?;
    let report: InstrumentReport = serde_json::from_str(&text)
        .context("a job of this program printed something else than a report")?;
    Ok(report.watched(watch))
}

/// Measures the four columns of paper 000, table 2, and the cost of an idle network to shared
/// memory.
fn all(args: &LogpArgs) -> Result<u8> {
    /// Turns of the two jobs whose round trips are compared.
    const TURNS: usize = 21;
    let security = args.security.unwrap_or_default();
    let alone = LogpJob::new(Scope::Shm, 2, 1, security, args);
    let multi = LogpJob::new(Scope::Shm, 2, 2, security, args);
    let named = [
        ("shm alone", alone),
        ("shm, net idle", multi),
        ("net, shm idle", LogpJob::new(Scope::Net, 2, 2, security, args)),
        ("net alone", LogpJob::new(Scope::Net, 1, 2, security, args)),
    ];
    let mut table = Vec::new();
    let watch = LineWatch::begin();
    let mut progress = JobProgress::new("logp", named.len() + 2 * TURNS);
    for (name, workload) in named {
        progress.next(name);
        table.push(Column::of(name, &report_of(&workload, args)?.data)?);
    }
    let progress = std::cell::RefCell::new(progress);
    let trip = |workload: &LogpJob| -> Result<f64> {
        progress.borrow_mut().next("a shared-memory round trip with and without the network");
        let text = process::run(workload.command(args)?.arg("--trips"))?;
        text.trim().parse().with_context(|| format!("a job of this program printed `{text}`"))
    };
    let idle_network = Contrast::measure(TURNS, || trip(&multi), || trip(&alone))?;
    let columns = Columns { security: security.name(), columns: table, idle_network };
    crate::render::show(&columns.report()?.watched(watch), args.json)?;
    Ok(0)
}

/// Runs a rank of the job; rank 0 prints.
fn run_rank(args: &LogpArgs) -> Result<u8> {
    let scope = match args.scope {
        Paths::Shm => Scope::Shm,
        Paths::Net => Scope::Net,
        Paths::Both | Paths::All => {
            bail!("several paths need several jobs: start this without `clump run`")
        }
    };
    let cl = clump::init()?;
    let begun = (clock::now_ns(), waited_ns(process_id()));
    let mut part = meet(&cl, scope, args.security.unwrap_or_default())?;
    let mut report = None;
    match &mut part {
        PairRole::Issuer(issuer) if args.trips => {
            console::out(&format!("{}\n", logp::trip(&mut **issuer)?))?;
            issuer.finish()?;
        }
        PairRole::Issuer(issuer) => {
            let plan = if args.quick { MeasurementPlan::quick() } else { MeasurementPlan::full() };
            let breakdown = match scope {
                Scope::Shm => steps::measure()?,
                Scope::Net => steps::Breakdown::unknown(),
            };
            report = Some(logp::run(&mut **issuer, &plan.over(scope), breakdown)?);
            issuer.finish()?;
        }
        PairRole::Server(server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    // Both sides are measured, so the one that waited longer counts.
    let queued = cl.all_reduce(queued_permille(begun), Max)?;
    if let Some(mut report) = report {
        report.queued_percent = queued_percent(queued);
        show(&report, args)?;
    }
    cl.barrier()?;
    Ok(0)
}

/// Returns percent of what [`queued_permille`] has returned.
fn queued_percent(permille: u64) -> Option<f64> {
    let permille = u32::try_from(permille.checked_sub(1)?).unwrap_or(u32::MAX);
    Some(f64::from(permille) / 10.0)
}

/// Returns the share of the time since `begun` that this process's first thread could have run but
/// waited for a processor, in thousandths and from 1; 0 where the kernel does not tell.
fn queued_permille((begun_ns, waited): (u64, Option<u64>)) -> u64 {
    let span = clock::now_ns().saturating_sub(begun_ns).max(1);
    let queued = waited_ns(process_id()).zip(waited).map(|(now, then)| now.saturating_sub(then));
    queued.map_or(0, |queued| 1 + queued.saturating_mul(1000) / span)
}

/// Prints the report in the form of the options.
///
/// # Errors
/// Fails if the drawing cannot be written.
pub fn show(report: &LogpReport, args: &LogpArgs) -> Result<()> {
    if let Some(file) = &args.svg {
        let points = signature::points(&report.measurement.signature);
        let title = "LogP signature: time per message by burst size and delay";
        let drawing = signature::signature(title, &points, &report.estimate);
        let drawing = drawing.context("no bursts were measured")?;
        std::fs::write(file, drawing).with_context(|| format!("writing {}", file.display()))?;
    }
    let extent = if args.table { Extent::Table } else { Extent::Everything };
    crate::render::show(&report.report(extent)?, args.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(scope: Paths, security: Option<Security>) -> LogpArgs {
        LogpArgs { scope, security, ..LogpArgs::default() }
    }

    #[test]
    fn every_path_gets_a_job_and_both_protections_where_none_is_chosen() {
        let names = |scope, security| {
            let workloads = workloads(&args(scope, security));
            workloads.iter().map(LogpJob::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(Paths::Net, None), "aead crc");
        assert_eq!(names(Paths::Both, None), "shm aead crc");
        assert_eq!(names(Paths::Both, Some(Security::Crc)), "shm crc");
    }

    #[test]
    fn a_job_is_told_what_its_ranks_have_to_do() {
        let wanted = LogpArgs { quick: true, json: true, ..args(Paths::Net, Some(Security::Crc)) };
        let command = workloads(&wanted)[0].command(&wanted).unwrap();
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        let line = words.join(" ");
        assert!(
            line.starts_with("run -n 2 ") && line.contains("--nodes 2 --security crc"),
            "{line}"
        );
        assert!(line.ends_with("lab logp --scope net --security crc --quick --json"), "{line}");
        assert!(run(&LogpArgs { svg: Some("x.svg".into()), ..args(Paths::Both, None) }).is_err());
        // It fails before anything is measured.
        let svg = Some("/no/such/folder/x.svg".into());
        let failed = run(&LogpArgs { svg, ..args(Paths::Shm, None) }).unwrap_err();
        assert!(failed.to_string().contains("--svg"), "{failed:#}");
    }
}
