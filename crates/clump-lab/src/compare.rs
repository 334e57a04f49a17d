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
pub mod rounds;
pub mod score;
pub mod table;

use crate::logp::rounds;
use crate::measure;
use crate::pair::meeting::{self, PairRole, meet};
use crate::pair::{BulkPath, Pair, Scope};
use anyhow::{Context, Result, ensure};
use clump_loggp::Median;
use clump_os::{clock, console};
use clump_wire::Security;
use peer::Peer;
pub use rounds::{ComparisonTurn, ImplementationTurns, PlayedRounds, play};
use score::Score;
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
                score = pair_games(&mut **issuer, field.scope)?;
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

fn pair_games<P: Pair>(pair: &mut P, scope: Scope) -> Result<Score> {
    let clock_ns = pair.clock_cost_ns();
    let rtt_ns = median(|| measure::round_trips(pair, 1000, clock_ns))?;
    let count = rounds(SLICE, 1e9 / measure::post_rate(pair, 10_000)?);
    let mut score = Score {
        round_trip_ns: Some(rtt_ns),
        rate_per_s: Some(median(|| measure::post_rate(pair, count))?),
        ..Score::default()
    };
    for &bytes in sizes(scope) {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = bytes as f64;
        let mut bandwidth = |path: BulkPath| -> Result<f64> {
            Ok(size * 1e9 / median(|| measure::stream(pair, path, bytes, 0.0))?)
        };
        score.bandwidth.insert(bytes, bandwidth(BulkPath::Medium)?);
        match scope {
            // At one place, and not read, they would stay in the sender's own cache.
            Scope::Shm => {
                let ring = median(|| measure::ring_rate(pair, bytes))?;
                score.ring_bandwidth.insert(bytes, ring);
            }
            Scope::Net => {
                score.long_bandwidth.insert(bytes, bandwidth(BulkPath::Long)?);
            }
        }
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
