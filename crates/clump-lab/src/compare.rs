//! `clump lab compare`: the same workloads on clump and on the installed peers, in one run.
//!
//! Implementations take turns, one at a time, never beside another spinning process; a round is one
//! turn of each, and the table shows medians over rounds. Peers are optional: missing ones are
//! named with the package that provides them.

pub mod implementation;
pub mod missing;
pub mod mpi;
pub mod peer;
pub mod peer_source;
pub mod process;
pub mod score;
pub mod table;

use crate::logp::rounds;
use crate::measure;
use crate::pair::meeting::{self, PairRole, meet};
use crate::pair::{BulkPath, Pair, Scope};
use anyhow::{Context, Result, ensure};
use clump_loggp::Median;
use clump_os::{clock, console, signal};
use clump_wire::Security;
use peer::Peer;
use score::Score;
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Returns the payload sizes of the bandwidth workloads.
pub const fn sizes(scope: Scope) -> &'static [usize] {
    match scope {
        Scope::Shm => &[4096, 16384, 65536, 262_144, 1 << 20, 4 << 20],
        Scope::Net => &[4096, 65536, 1 << 20],
    }
}

/// Environment of the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Venue {
    /// Shared memory or the network.
    pub scope: Scope,
    /// Protection of clump's packets; peers have none.
    pub security: Security,
    /// True if nodes are network namespaces.
    pub netns: bool,
}

/// Ranks of the second barrier: more than most machines have cores.
pub const CROWD: usize = 16;

/// Slices of one figure of one turn, as in `peers/mpi_bench.c`.
const SLICES: usize = 15;
/// Length of a slice.
const SLICE: Duration = Duration::from_millis(4);

/// Runs clump's side of the workloads, as `peers/mpi_bench.c` does for MPI. Prints a score on rank
/// 0.
///
/// # Errors
/// Fails if the job ends, or a measurement does.
pub fn rank_main(field: &Venue) -> Result<()> {
    let cl = clump::init()?;
    let rank = cl.rank();
    let mut score = Score::default();
    if cl.nranks() == 2 {
        let mut part = meet(&cl, field.scope, field.security)?;
        match &mut part {
            PairRole::Issuer(issuer) => {
                score = pair_games(&mut **issuer, sizes(field.scope))?;
                issuer.finish()?;
            }
            PairRole::Server(server) => server.serve()?,
            PairRole::Onlooker => {}
        }
        cl.barrier()?;
    }
    score.barrier_ns.insert(cl.nranks(), barrier_ns(&cl)?);
    if rank == 0 {
        console::out(&score.lines())?;
    }
    cl.barrier()?;
    Ok(())
}

/// Runs a peer between two nodes: rank 0 runs its server, rank 1 its client, on the addresses,
/// processors and network of their ranks. Prints a score on rank 1.
///
/// # Errors
/// Fails if the peer does not start or does not answer.
pub fn peer_main(peer: Peer, program: &Path, field: &Venue) -> Result<()> {
    let cl = clump::init()?;
    ensure!(cl.nranks() == 2, "a peer is played by two ranks, not by {}", cl.nranks());
    let mut score = Score::default();
    let suited = |command: Command| {
        if field.netns { process::with_own_sys(&command) } else { command }
    };
    for question in peer.questions(field.scope) {
        let address = meeting::address(&cl)?.to_string();
        let port = if cl.rank() == 0 { implementation::free_port(&address)? } else { 0 };
        let server = match cl.rank() {
            0 => {
                Some(process::Guard::start(&mut suited(question.server(program, &address, port)))?)
            }
            _ => None,
        };
        let said = cl.all_gather_bytes(format!("{address} {port}").as_bytes())?;
        let said = said.first().context("rank 0 said nothing")?;
        let (address, port) =
            std::str::from_utf8(said)?.split_once(' ').context("rank 0 said no port")?;
        match server {
            Some(server) => drop(server.finish(process::LIMIT).context("the server")?),
            None => {
                let port = port.parse()?;
                let client = || suited(question.client(program, address, port));
                score.join(implementation::ask(&question, client)?);
            }
        }
        cl.barrier()?;
    }
    console::out(&score.lines())?;
    cl.barrier()?;
    Ok(())
}

fn pair_games<P: Pair>(pair: &mut P, sizes: &[usize]) -> Result<Score> {
    let clock_ns = pair.clock_cost_ns();
    let rtt_ns = median(|| measure::round_trips(pair, 1000, clock_ns))?;
    let count = rounds(SLICE, 1e9 / measure::post_rate(pair, 10_000)?);
    let mut score = Score {
        round_trip_ns: Some(rtt_ns),
        rate_per_s: Some(median(|| measure::post_rate(pair, count))?),
        ..Score::default()
    };
    for &bytes in sizes {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = bytes as f64;
        let mut bandwidth = |path: BulkPath| -> Result<f64> {
            Ok(size * 1e9 / median(|| measure::stream(pair, path, bytes, 0.0))?)
        };
        score.bandwidth.insert(bytes, bandwidth(BulkPath::Medium)?);
        score.long_bandwidth.insert(bytes, bandwidth(BulkPath::Long)?);
    }
    Ok(score)
}

fn median(mut sample: impl FnMut() -> Result<f64>) -> Result<f64> {
    let samples = (0..SLICES).map(|_| sample()).collect::<Result<Vec<f64>>>()?;
    Ok(Median::of(samples).context("no slices")?.value)
}

/// Returns the nanoseconds per barrier; all ranks call it.
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

/// Turns of one implementation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImplementationTurns {
    /// Name and version.
    pub name: String,
    /// One score per round: without figures where the turn failed.
    pub rounds: Vec<Score>,
    /// Turns that failed, by their round, with the reason.
    pub failures: Vec<(usize, String)>,
}

/// A turn, as a journal keeps it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ComparisonTurn<'a> {
    /// Its round, from 1.
    pub round: usize,
    /// The implementation.
    pub name: &'a str,
    /// Its figures; `None` where it failed.
    pub score: Option<&'a Score>,
    /// Why it failed.
    pub failure: Option<&'a str>,
}

/// Runs all rounds. A turn that fails, as of a peer that hangs, is noted, and the others go on.
/// `play` runs a turn of the implementation of that index; `note` is given what runs, and each turn
/// once it has ended.
///
/// # Errors
/// The user interrupts, a turn cannot be noted, or no turn of the first implementation succeeds.
pub fn play(
    names: &[String],
    rounds: usize,
    mut play: impl FnMut(usize) -> Result<Score>,
    mut note: impl FnMut(&str, Option<ComparisonTurn<'_>>) -> Result<()>,
) -> Result<Vec<ImplementationTurns>> {
    let turns = |name: &String| ImplementationTurns { name: name.clone(), ..Default::default() };
    let mut results: Vec<ImplementationTurns> = names.iter().map(turns).collect();
    for round in 1..=rounds {
        for (at, result) in results.iter_mut().enumerate() {
            let what = format!("round {round} of {rounds}: {}", result.name);
            note(&what, None)?;
            let (score, failure) = match play(at) {
                Ok(score) => (score, None),
                Err(why) if signal::pending(&signal::ENDS).is_some() => return Err(why),
                Err(why) => (Score::default(), Some(format!("{why:#}"))),
            };
            let turn = ComparisonTurn {
                round,
                name: &result.name,
                score: failure.is_none().then_some(&score),
                failure: failure.as_deref(),
            };
            note(&what, Some(turn))?;
            result.rounds.push(score);
            result.failures.extend(failure.map(|why| (round, why)));
        }
    }
    if let Some(first) = results.first()
        && first.failures.len() == rounds
        && let Some((_, why)) = first.failures.first()
    {
        anyhow::bail!("all turns of {} failed: {why}", first.name);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_hangs_costs_its_turn_and_not_the_comparison() {
        let names = ["clump", "UCX"].map(String::from);
        let mut journal = Vec::new();
        let mut turns = 0;
        let score = || Score { round_trip_ns: Some(400.0), ..Score::default() };
        let run = |at| {
            turns += 1;
            if at == 1 && turns == 4 {
                anyhow::bail!("UCX did not end within 60 s")
            }
            Ok(score())
        };
        let results = play(&names, 3, run, |_, turn| {
            journal.extend(turn.map(|turn| serde_json::to_string(&turn).unwrap()));
            Ok(())
        });
        let results = results.unwrap();
        assert_eq!([&results[0], &results[1]].map(|one| one.rounds.len()), [3, 3]);
        assert_eq!(results[1].rounds[1], Score::default(), "rounds stay beside each other");
        assert_eq!(results[1].failures, [(2, "UCX did not end within 60 s".to_owned())]);
        assert_eq!(journal.len(), 6, "each turn, as it ends");
        assert!(journal[3].contains("did not end within 60 s"), "{}", journal[3]);
        let table = crate::compare::table::ComparisonTable::of(&results);
        assert_eq!(table.rows[0].figures[1].unwrap().samples, 2);
        let none = |_| -> Result<Score> { anyhow::bail!("nothing works") };
        let error = play(&names, 2, none, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("all turns of clump failed: nothing works"), "{error}");
    }
}
