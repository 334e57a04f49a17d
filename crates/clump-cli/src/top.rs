//! `clump top`: a running job as it communicates now.

mod rates;

use crate::stats::{all_nodes, has_part, memory_of, only_job, part_of, title};
use anyhow::bail;
use clap::Args;
use clump_agent::scene;
use clump_agent::waits::{self, JobWaits};
use clump_os::keyboard::Keyboard;
use clump_os::printable::{printable, printable_json};
use clump_os::signal::{self, Signals};
use clump_os::{clock, console};
use clump_shm::node::NodeMemory;
use rates::{JobLook, JobRates};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// Starts a screen of its own without a cursor, and ends it.
const SCREEN: [&str; 2] = ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"];
// To the corner; clear the rest of a line; clear what is below.
const CORNER: &str = "\x1b[H";
const REST: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";
/// Columns and rows of a terminal that does not report them.
const SIZE: (usize, usize) = (80, 24);
/// Columns of a view that is no screen.
const WIDTH: usize = 100;
/// Longest time between checks if the user ends the view.
const NAP: Duration = Duration::from_millis(50);

/// Options of `clump top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    clump top                    the only job that runs here; Ctrl-C ends the view, the key w\n  \
                                 shows what each rank waits for, and q ends it too\n  \
    clump top --pid 4242 --once --json      the rates of one second, for other programs")]
pub struct TopArgs {
    /// A process of the job: its launcher, its agent or a rank [default: the only job]
    #[arg(long, visible_alias = "job", value_name = "PID")]
    pub pid: Option<u32>,
    /// Time between two views, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// Print one view and end
    #[arg(long)]
    pub once: bool,
    /// Print JSON, a line for each view
    #[arg(long)]
    pub json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.01 to 3600".into()) }
}

/// Shows a job until it ends or the user ends the view.
///
/// # Errors
/// Fails if there is no such job, or several and none is named.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let terminal = std::io::stdout().is_terminal();
    if !terminal && !args.once && !args.json {
        bail!("standard output is no terminal; --once prints one view, --json a line for each");
    }
    let nodes = all_nodes(memory_of(pid(args)?)?);
    let Some(job) = nodes.first().map(|node| node.job().id()) else { bail!("a job without nodes") };
    let signals = Signals::block(&signal::ENDS)?;
    let screen = terminal && !args.once && !args.json;
    if screen {
        console::out(SCREEN[0])?;
    }
    let shown = show(args, (&nodes, job), (&signals, screen));
    if screen {
        console::out(SCREEN[1])?;
    }
    let ended = shown?;
    match signals.pending() {
        Some(_) => Ok(ExitCode::SUCCESS),
        None if ended && !args.once => {
            console::err("clump: the job has ended");
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Returns a process of the job that the options name.
fn pid(args: &TopArgs) -> anyhow::Result<u32> {
    args.pid.map_or_else(only_job, Ok)
}

/// Shows views; returns true if the job ended.
fn show(
    args: &TopArgs,
    (nodes, job): (&[NodeMemory], u64),
    (signals, screen): (&Signals, bool),
) -> anyhow::Result<bool> {
    let mut before = look(nodes);
    let keyboard = screen.then(Keyboard::open).flatten();
    let mut waits = false;
    let mut part = None;
    loop {
        let until = before.at_ns + Duration::from_secs_f64(args.interval).as_nanos() as u64;
        while clock::now_ns() < until {
            if signals.pending().is_some() {
                return Ok(false);
            }
            match keyboard.as_ref().and_then(|keys| keys.pressed().last().copied()) {
                Some(b'w') => {
                    waits = !waits;
                    break;
                }
                Some(b'q') => return Ok(false),
                _ => {}
            }
            clock::pass(NAP.min(Duration::from_nanos(until.saturating_sub(clock::now_ns()))));
        }
        let after = look(nodes);
        let rates = JobRates::between(&before, &after);
        let title = title(job, rates.ranks.len(), nodes.len() as u32);
        if args.json {
            let all = serde_json::json!({ "job": format!("{job:016x}"), "rates": rates });
            console::out(&format!("{}\n", printable_json(&all.to_string())))?;
        } else {
            let (columns, rows) = match screen {
                true => console::size().unwrap_or(SIZE),
                false => (usize::MAX, usize::MAX),
            };
            let width = if screen { columns } else { WIDTH };
            let lines = match waits {
                true => [title].into_iter().chain(waits_of(nodes)).collect(),
                false => rates.lines(&title, (width, rows)),
            };
            let lines = lines.iter().map(|line| printable(line).to_string());
            let lines = lines.take(rows).map(|line| line.chars().take(columns).collect::<String>());
            let text = if screen {
                let lines: String = lines.map(|line| format!("{line}{REST}\r\n")).collect();
                format!("{CORNER}{}{BELOW}", lines.trim_end_matches("\r\n"))
            } else {
                lines.map(|line| line + "\n").collect()
            };
            console::out(&text)?;
        }
        if args.once || has_ended(nodes) {
            return Ok(true);
        }
        // Ranks of a killed job report no end: it is over when no process has a part in it.
        part = part.filter(|&pid| has_part(pid, job)).or_else(|| part_of(job));
        if part.is_none() {
            return Ok(true);
        }
        before = after;
    }
}

/// Returns what the ranks wait for.
fn waits_of(nodes: &[NodeMemory]) -> Vec<String> {
    waits::lines(&JobWaits::observe(nodes, |_| None), true)
}

/// Reads the counters of all nodes.
fn look(nodes: &[NodeMemory]) -> JobLook {
    let mut ranks = Vec::new();
    for node in nodes {
        let doing = scene::observe_ranks(node, |_| None);
        ranks.extend(doing.into_iter().map(|d| (d.rank, node.node(), d.what, d.for_ms)));
    }
    let by_node: Vec<_> = nodes.iter().map(scene::counters).collect();
    let stacks = nodes.iter().zip(&by_node).flat_map(|(node, all)| scene::stacks(node, all));
    let (stacks, counters) = (stacks.collect(), by_node.concat());
    let interfaces = nodes.iter().flat_map(scene::monitors).collect();
    JobLook { at_ns: clock::now_ns(), ranks, counters, interfaces, stacks }
}

/// Returns true if every rank that joined has left.
fn has_ended(nodes: &[NodeMemory]) -> bool {
    use clump_shm::rank::RankState;
    let mut all = nodes.iter().flat_map(|node| node.local_ranks().map(|rank| node.peer(rank)));
    all.all(|rank| {
        rank.is_some_and(|rank| matches!(rank.state(), RankState::Finalized | RankState::Dead))
    })
}
