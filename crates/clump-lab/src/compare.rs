//! `clump lab compare`: the same games on clump and on whatever peers are installed, in one run.
//!
//! Contestants take turns, one at a time, never beside another spinning process; a round is one turn
//! of everybody, and the table shows medians over rounds. Peers are optional: those that are missing
//! are named with the package that brings them.

pub mod contestant;
pub mod process;
pub mod score;
pub mod table;

use anyhow::{Context, Result, bail};
use contestant::Contestant;
use score::Score;
use serde::Serialize;

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
