//! `clump stats`: the counters of a running job, read from outside.

use anyhow::{Context, bail};
use clap::Args;
use clump_agent::outcome::RankActivity;
use clump_agent::{report, scene};
use clump_os::printable::{counted, printable, printable_json, printable_lines};
use clump_os::{clock, console, process, procfs};
use clump_shm::node::{MEMORY_LABEL, NodeMemory};
use clump_trace::text::Table;
use clump_trace::{Counter, Intervals, Monitor, PairTraffic, Snapshot, Summary};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Options of `clump stats`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    clump stats                  which jobs run here\n  \
    clump stats --pid 4242       the job of that process: launcher, agent or rank\n  \
    clump stats --where          what each rank of the only job here waits for, while it hangs")]
pub struct StatsArgs {
    /// A process of the job: its launcher, its agent or a rank
    #[arg(long, visible_alias = "job", value_name = "PID")]
    pub pid: Option<u32>,
    /// Print what each rank waits for and since when, holders of locks, ranks that are missing at
    /// collectives, and where each thread is
    #[arg(long = "where")]
    pub waits: bool,
    /// With --where: most ranks whose stacks a debugger (eu-stack or gdb) reads; each is stopped
    /// meanwhile
    #[arg(long, value_name = "N", default_value = "8", requires = "waits")]
    pub stacks: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the counters of one job, or the list of jobs.
///
/// # Errors
/// Fails if there is no such process or job, or if this user may not read its memory.
pub fn run(args: &StatsArgs) -> anyhow::Result<ExitCode> {
    let text = match args.pid {
        pid if args.waits => {
            let nodes = all_nodes(memory_of(pid.map_or_else(only_job, Ok)?)?);
            crate::waits::shown(&nodes, args.stacks, args.json)?
        }
        Some(pid) => one_job(&all_nodes(memory_of(pid)?), args.json)?,
        None => all_jobs(args.json)?,
    };
    // Ranks write the text in a job's memory.
    console::out(&printable_lines(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the agent of the only job of this user.
///
/// # Errors
/// Fails if there is none, or several.
pub(crate) fn only_job() -> anyhow::Result<u32> {
    match jobs()[..] {
        [] => bail!("no job of this user runs here"),
        [only] => Ok(only),
        [..] => bail!("several jobs run here; name one by --pid (`clump stats` lists them)"),
    }
}

/// Opens the node's memory of the job that `pid` belongs to, read-only.
pub(crate) fn memory_of(pid: u32) -> anyhow::Result<NodeMemory> {
    if procfs::Process::read(pid).is_none() {
        bail!("there is no process {pid}");
    }
    // A launcher has no memory of its own: its child, the agent, does.
    let below = procfs::descendants(pid).into_iter().filter(|p| p.parent == pid).map(|p| p.pid);
    let mut found =
        std::iter::once(pid).chain(below).filter_map(|p| procfs::open_memory(p, MEMORY_LABEL));
    let memory = found.next().with_context(|| {
        format!("process {pid} has no part in a clump job of this user; `clump stats` lists jobs")
    })?;
    Ok(NodeMemory::observe(memory)?)
}

/// Returns the memories of all nodes of a job that are on this machine, in order, where one of
/// them is `found`.
pub(crate) fn all_nodes(found: NodeMemory) -> Vec<NodeMemory> {
    let (job, wanted) = (found.job().id(), found.nnodes() as usize);
    let mut nodes = BTreeMap::from([(found.node(), found)]);
    for process in procfs::processes() {
        if nodes.len() >= wanted {
            break;
        }
        let opened = procfs::open_memory(process.pid, MEMORY_LABEL);
        let node = opened.and_then(|memory| NodeMemory::observe(memory).ok());
        if let Some(node) = node.filter(|node| node.job().id() == job) {
            nodes.entry(node.node()).or_insert(node);
        }
    }
    nodes.into_values().collect()
}

/// Returns true if process `pid` has a part in a job: its agent, or a rank.
pub(crate) fn has_part(pid: u32, job: u64) -> bool {
    let opened = procfs::open_memory(pid, MEMORY_LABEL);
    let node = opened.and_then(|memory| NodeMemory::observe(memory).ok());
    node.is_some_and(|node| node.job().id() == job)
}

/// Returns a process that has a part in a job; `None` if there is none here any more.
pub(crate) fn part_of(job: u64) -> Option<u32> {
    procfs::processes().into_iter().map(|process| process.pid).find(|&pid| has_part(pid, job))
}

fn one_job(nodes: &[NodeMemory], json: bool) -> anyhow::Result<String> {
    let by_node: Vec<_> = nodes.iter().map(scene::counters).collect();
    let drivers = nodes.iter().zip(&by_node).flat_map(|(node, ranks)| scene::stacks(node, ranks));
    let drivers: Vec<_> = drivers.collect();
    let ranks = by_node.concat();
    let doing: Vec<_> =
        nodes.iter().flat_map(|node| scene::observe_ranks(node, |_| None)).collect();
    let node = nodes.first().context("a job without nodes")?;
    let first = ranks.iter().map(|all| all[Counter::Joined]).filter(|&ns| ns != 0).min();
    let elapsed_ns = first.map_or(0, |first| clock::now_ns().saturating_sub(first));
    let interfaces: Vec<_> = nodes.iter().flat_map(scene::monitors).collect();
    let stacks: Vec<_> = interfaces.iter().map(|one| one.network.clone()).collect();
    let summary = Summary::of(&ranks, &stacks, elapsed_ns);
    let id = format!("{:016x}", node.job().id());
    let (traffic, intervals): (Vec<_>, Vec<_>) = nodes.iter().map(scene::traffic).unzip();
    let (traffic, intervals) = (traffic.concat(), intervals.concat());
    if json {
        let output = JobStats {
            format: console::JSON_FORMAT,
            job: id,
            ranks: ranks.len(),
            nodes: nodes.len(),
            doing,
            counters: ranks,
            interfaces,
            stacks: drivers,
            summary,
            traffic,
            intervals,
        };
        return Ok(format!("{}\n", printable_json(&serde_json::to_string(&output)?)));
    }
    let (seen, all) = (nodes.len(), node.nnodes());
    let mut text = match (seen as u32, all) {
        (seen, all) if seen == all => format!("{}\n", title(node.job().id(), ranks.len(), seen)),
        // Its agent has ended, or it is on another machine.
        (seen, all) => format!(
            "job {id}: {} of its {} ranks, on {seen} of {all} nodes\n",
            ranks.len(),
            node.ranks()
        ),
    };
    for line in report::groups("now", &doing) {
        text += &line;
        text.push('\n');
    }
    let mut text = format!("{text}\n{}\n{summary}", Table { what: "rank", all: &ranks });
    for monitors in [&drivers, &interfaces] {
        if !monitors.is_empty() {
            text += &format!("\n{}\n", Monitor::lines(monitors).join("\n"));
        }
    }
    if stacks.iter().any(|stack| *stack != Snapshot::ZERO) {
        text += &format!("\n{}", Table { what: "interface", all: &stacks });
    }
    Ok(text)
}

/// Returns the line that names a job.
pub(crate) fn title(job: u64, ranks: usize, nodes: u32) -> String {
    let ranks = counted(ranks as u64, "rank");
    let on = if nodes == 1 { String::new() } else { format!(" on {nodes} nodes") };
    format!("job {job:016x}: {ranks}{on}")
}

/// The counters of a job as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobStats {
    /// Number of the format.
    format: u32,
    /// The job.
    job: String,
    /// Ranks that are seen here.
    ranks: usize,
    /// Their nodes.
    nodes: usize,
    /// Activity of each rank now.
    doing: Vec<RankActivity>,
    /// Counters of each rank, by name.
    #[schemars(with = "Vec<BTreeMap<String, u64>>")]
    counters: Vec<Snapshot>,
    /// Monitors of the network interfaces.
    #[schemars(with = "Vec<Value>")]
    interfaces: Vec<Monitor>,
    /// Monitors of the stacks that ranks drive themselves.
    #[schemars(with = "Vec<Value>")]
    stacks: Vec<Monitor>,
    /// Summary of the communication: averages over ranks, and rates.
    #[schemars(with = "Value")]
    summary: Summary,
    /// Messages and payload bytes of each pair of ranks, by size.
    #[schemars(with = "Vec<Value>")]
    traffic: Vec<PairTraffic>,
    /// Times between sends and barriers of each rank, by powers of two.
    #[schemars(with = "Vec<Value>")]
    intervals: Vec<Intervals>,
}

/// The jobs of this user as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobList {
    /// Number of the format.
    pub(crate) format: u32,
    /// The jobs.
    pub(crate) jobs: Vec<Job>,
}

/// One job of this user, as its agent shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Job {
    /// Process of its agent here.
    agent: u32,
    /// Ranks of the job.
    ranks: usize,
    /// Command line of one of them.
    program: String,
}

/// Returns the agent and the program of each job of this user.
pub(crate) fn named_jobs() -> Vec<(u32, String)> {
    listed().into_values().map(|job| (job.agent, job.program)).collect()
}

/// Returns an agent of each job of this user.
pub(crate) fn jobs() -> Vec<u32> {
    listed().values().map(|job| job.agent).collect()
}

fn listed() -> BTreeMap<u64, Job> {
    // Of all processes that have a job's memory open its agent is the ancestor of the others.
    let mut jobs: BTreeMap<u64, Job> = BTreeMap::new();
    for process in procfs::processes() {
        let opened = procfs::open_memory(process.pid, MEMORY_LABEL);
        let Some(node) = opened.and_then(|memory| NodeMemory::observe(memory).ok()) else {
            continue;
        };
        let is_rank = procfs::Process::read(process.parent)
            .is_some_and(|parent| procfs::open_memory(parent.pid, MEMORY_LABEL).is_some());
        if process.pid != process::own_pid() && !is_rank {
            let program =
                procfs::descendants(process.pid).first().map(|p| procfs::command_line(p.pid));
            let program = program.map(|line| printable(&line).to_string());
            let job = Job {
                agent: process.pid,
                ranks: node.ranks(),
                program: program.unwrap_or_default(),
            };
            jobs.entry(node.job().id()).or_insert(job);
        }
    }
    jobs
}

fn all_jobs(json: bool) -> anyhow::Result<String> {
    let jobs = listed();
    if json {
        let list = JobList { format: console::JSON_FORMAT, jobs: jobs.into_values().collect() };
        return Ok(format!("{}\n", printable_json(&serde_json::to_string(&list)?)));
    }
    if jobs.is_empty() {
        return Ok("no job of this user runs here\n".into());
    }
    let mut text = String::from("   agent  ranks  program\n");
    for Job { agent, ranks, program } in jobs.values() {
        text += &format!("{agent:>8} {ranks:>6}  {program}\n");
    }
    text += "clump stats --pid AGENT prints the counters of one\n";
    Ok(text)
}
