//! `clump top`: a running job as it communicates now.

mod rates;
mod view;

use crate::stats::{all_nodes, has_part, memory_of, named_jobs, only_job, part_of, title};
use anyhow::{Context, bail};
use clap::Args;
use clump_agent::scene;
use clump_agent::waits::{self, JobWaits};
use clump_os::keyboard::Keyboard;
use clump_os::printable::{printable, printable_json};
use clump_os::signal::{self, Signals};
use clump_os::{clock, console};
use clump_shm::node::NodeMemory;
use clump_shm::virtual_time;
use rates::{JobLook, JobRates};
use std::io::{BufRead, IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;
use view::{HISTORY, KEYS, LineStyle, RankOrder, ViewLine};

/// Starts a screen of its own without a cursor, and ends it.
const SCREEN: [&str; 2] = ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"];
// To the corner; clear the rest of a line; clear what is below.
const CORNER: &str = "\x1b[H";
const REST: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";
/// Columns and rows of a terminal that does not report them.
const SIZE: (usize, usize) = (80, 24);
/// Rows of a screen from which on the keys have a line.
const ROWS_FOR_KEYS: usize = 12;
/// Columns of a view that is no screen.
const WIDTH: usize = 100;
/// Longest time between checks if the user ends the view.
const NAP: Duration = Duration::from_millis(50);

/// Options of `clump top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    clump top                    the only job that runs here, or one of a list; the key s sorts by\n  \
                                 the next column, w shows what each rank waits for, q ends\n  \
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
    if args.pid.is_some() || args.once || args.json || !std::io::stdin().is_terminal() {
        return args.pid.map_or_else(only_job, Ok);
    }
    let jobs = named_jobs();
    if jobs.len() < 2 {
        return only_job();
    }
    console::out(&view::choices(&jobs))?;
    let mut answer = String::new();
    // A number, whatever is typed.
    std::io::stdin().lock().take(64).read_line(&mut answer).context("reading a number")?;
    view::chosen(&jobs, &answer).context("that is no number of a job in the list")
}

/// A view as JSON.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct TopOutput {
    /// Number of the format.
    format: u32,
    /// The job.
    job: String,
    /// Its communication.
    rates: JobRates,
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
    let (mut order, mut history) = (RankOrder::default(), Vec::new());
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
                Some(b's') => {
                    order = order.next();
                    break;
                }
                Some(b'q') => return Ok(false),
                _ => {}
            }
            clock::pass(NAP.min(Duration::from_nanos(until.saturating_sub(clock::now_ns()))));
        }
        let after = look(nodes);
        let rates = JobRates::between(&before, &after);
        history.push(rates.sent());
        history.drain(..history.len().saturating_sub(HISTORY));
        let title = title(job, rates.ranks.len(), nodes.len() as u32);
        if args.json {
            let all = TopOutput { format: console::JSON_FORMAT, job: format!("{job:016x}"), rates };
            console::out(&format!("{}\n", printable_json(&serde_json::to_string(&all)?)))?;
        } else {
            let (columns, rows) = match screen {
                true => console::size().unwrap_or(SIZE),
                false => (usize::MAX, usize::MAX),
            };
            let width = if screen { columns } else { WIDTH };
            // The last line has the keys, where it takes none from the ranks.
            let keys = screen && rows >= ROWS_FOR_KEYS;
            let room = if keys { rows - 1 } else { rows };
            let mut lines = match waits {
                true => [title].into_iter().chain(waits_of(nodes)).map(plain).collect(),
                false => rates.lines(&title, (width, room), (order, &history)),
            };
            lines.truncate(room);
            if keys {
                lines.push(plain(KEYS.to_owned()));
            }
            let text = lines.iter().map(|line| shown(line, columns, screen));
            let text = match screen {
                true => {
                    format!("{CORNER}{}{BELOW}", text.collect::<String>().trim_end_matches("\r\n"))
                }
                false => text.collect(),
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

fn plain(text: String) -> ViewLine {
    ViewLine::of(LineStyle::Plain, text)
}

/// Returns a line as it is written: cut to the screen, with its colour there.
fn shown(line: &ViewLine, columns: usize, screen: bool) -> String {
    let text: String = printable(&line.text).to_string().chars().take(columns).collect();
    let (on, off) = line.style.codes();
    if screen { format!("{on}{text}{off}{REST}\r\n") } else { text + "\n" }
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
    let virtual_time = nodes.first().and_then(|node| virtual_time::summary(node).ok().flatten());
    let virtual_ns = virtual_time.map(|sum| sum.ns);
    JobLook { at_ns: clock::now_ns(), ranks, counters, interfaces, stacks, virtual_ns }
}

/// Returns true if every rank that joined has left.
fn has_ended(nodes: &[NodeMemory]) -> bool {
    use clump_shm::rank::RankState;
    let mut all = nodes.iter().flat_map(|node| node.local_ranks().map(|rank| node.peer(rank)));
    all.all(|rank| {
        rank.is_some_and(|rank| matches!(rank.state(), RankState::Finalized | RankState::Dead))
    })
}
