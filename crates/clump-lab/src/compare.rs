//! `clump lab compare`: the same games on clump and on whatever peers are installed, in one run.
//!
//! Contestants take turns, one at a time, never beside another spinning process; a round is one turn
//! of everybody, and the table shows medians over rounds. Peers are optional: those that are missing
//! are named with the package that brings them.

pub mod contestant;
pub mod process;
pub mod score;
pub mod table;

use crate::logp::rounds;
use crate::measure;
use crate::pair::live::{Issuer, Server, other_of};
use crate::pair::{Pair, Way};
use anyhow::{Context, Result, bail};
use clump_loggp::Median;
use clump_os::clock;
use contestant::Contestant;
use score::Score;
use serde::Serialize;
use std::time::Duration;
use table::Table;

/// Payload sizes of the bandwidth games.
pub const SIZES: [usize; 6] = [4096, 16384, 65536, 262_144, 1 << 20, 4 << 20];
/// Ranks of the second barrier: more than most machines have cores.
pub const CROWD: usize = 16;

/// Options of `clump lab compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Turns of every contestant; figures are medians over them.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// One JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// A Markdown table instead of text, as in BENCHMARKS.md.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Played by the ranks that the comparison starts.
    #[arg(long, hide = true)]
    pub as_rank: bool,
}

/// Slices behind one figure of one turn, as in `peers/mpi_bench.c`.
const SLICES: usize = 15;
/// Length of a slice.
const SLICE: Duration = Duration::from_millis(4);

/// Runs the command; the exit code.
pub fn run(args: &Args) -> Result<u8> {
    if args.as_rank {
        rank_main()?;
        return Ok(0);
    }
    let folder = scratch_folder()?;
    let (contestants, missing) = contestant::gather(folder.path());
    let turns = play(&contestants, args.rounds, |what| eprintln!("{what}"))?;
    let table = Table::of(&turns);
    if args.json {
        println!("{}", serde_json::json!({ "table": table, "turns": turns }));
    } else if args.markdown {
        print!("{}", table.markdown());
    } else {
        print!("{}", table.text(&missing));
    }
    Ok(0)
}

/// A folder that goes when its owner goes.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the machine's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch_folder() -> Result<Scratch> {
    let name = format!("clump-compare-{}-{}", std::process::id(), clock::now_ns());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
    Ok(Scratch(path))
}

/// Our side of the games: what `peers/mpi_bench.c` does, in clump. Prints a score on rank 0.
fn rank_main() -> Result<()> {
    let cl = clump::init()?;
    let rank = cl.rank();
    let mut score = Score::default();
    if cl.nranks() == 2 {
        let exchange = |name| other_of(&cl.exchange(name)?, rank);
        if rank == 0 {
            let mut issuer = Issuer::open(&cl, exchange)?;
            score = pair_games(&mut issuer)?;
            issuer.finish()?;
        } else {
            Server::open(&cl, exchange)?.serve()?;
        }
    }
    score.barrier_ns.insert(cl.nranks(), barrier_ns(&cl)?);
    if rank == 0 {
        print!("{}", score.lines());
    }
    cl.barrier()?;
    Ok(())
}

fn pair_games<P: Pair>(pair: &mut P) -> Result<Score> {
    let clock_ns = pair.clock_cost_ns();
    let rtt_ns = median(|| measure::round_trips(pair, 1000, clock_ns))?;
    let count = rounds(SLICE, 1e9 / measure::post_rate(pair, 10_000)?);
    let mut score = Score {
        round_trip_ns: Some(rtt_ns),
        rate_per_s: Some(median(|| measure::post_rate(pair, count))?),
        ..Score::default()
    };
    for bytes in SIZES {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = bytes as f64;
        // Medium messages, which arrive in a buffer of the receiver's own, as a receive of MPI does.
        let interval = median(|| measure::stream(pair, Way::Medium, bytes, 0.0))?;
        score.bandwidth.insert(bytes, size * 1e9 / interval);
    }
    Ok(score)
}

fn median(mut sample: impl FnMut() -> Result<f64>) -> Result<f64> {
    let samples = (0..SLICES).map(|_| sample()).collect::<Result<Vec<f64>>>()?;
    Ok(Median::of(samples).context("no slices")?.value)
}

/// Nanoseconds per barrier; all ranks call it.
fn barrier_ns(cl: &clump::Clump) -> Result<f64> {
    let barriers = |count: u64| -> Result<f64> {
        let start = clock::now_ns();
        for _ in 0..count {
            cl.barrier()?;
        }
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ns")]
        let each = (clock::now_ns() - start) as f64 / count as f64;
        Ok(each)
    };
    barriers(100)?;
    let once = cl.all_reduce(barriers(100)?, clump::Max)?;
    let count = u64::from(rounds(SLICE, once).min(5000));
    median(|| barriers(count))
}

/// One contestant's turns.
#[derive(Debug, Serialize)]
pub struct Turns {
    /// Name and version.
    pub name: String,
    /// One score per round.
    pub rounds: Vec<Score>,
}

/// Plays all rounds; `progress` hears who is on.
pub fn play(
    contestants: &[Contestant],
    rounds: usize,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Turns>> {
    if rounds == 0 {
        bail!("--rounds 0 measures nothing; give at least 1");
    }
    let mut results: Vec<Turns> = contestants
        .iter()
        .map(|c| Turns { name: c.name().to_owned(), rounds: Vec::new() })
        .collect();
    for round in 1..=rounds {
        for (contestant, result) in contestants.iter().zip(&mut results) {
            progress(&format!("round {round} of {rounds}: {}", contestant.name()));
            let score =
                contestant.play().with_context(|| format!("running {}", contestant.name()))?;
            result.rounds.push(score);
        }
    }
    Ok(results)
}
