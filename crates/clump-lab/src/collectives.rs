//! `clump lab collectives`: each collective at several sizes, by the algorithm that clump chooses
//! and by every other one that it has, beside the installed MPIs.
//!
//! Implementations take turns; a round is one turn of each, and figures are medians over rounds. A
//! turn is a job for each operation: a slice is a loop of calls, whose root goes around, and a
//! barrier.

pub mod cell;
pub mod table;
pub mod workload;

use crate::compare::missing::Missing;
use crate::compare::mpi::{MPICH, MpiProgram, OPEN_MPI};
use crate::compare::peer_source::PeerSource;
use crate::compare::process::{self, Guard};
use crate::launch::{self, JobShape};
use crate::pair::Scope;
use anyhow::{Context, Result};
use cell::{MeasuredCell, TimedCell};
use clump_coll::choice::Operation;
use std::path::Path;
use std::time::Duration;

/// Time limit of one operation's turn: MPIs whose ranks spin without a core take long.
const LIMIT: Duration = Duration::from_secs(90);

/// The program that both MPIs compile and run.
const MPI_SOURCE: PeerSource = PeerSource {
    file: "mpi_collectives.c",
    text: include_str!("../peers/mpi_collectives.c"),
    libraries: &[],
};

/// Extent of a measurement.
#[derive(Debug, Clone)]
pub struct CollectiveExtent {
    /// The collectives.
    pub operations: Vec<Operation>,
    /// Bytes of a rank's contribution; for gathers, scatters and all-to-alls those of one part.
    pub sizes: Vec<usize>,
    /// Slices of a turn.
    pub slices: usize,
    /// Length of a slice in ns.
    pub slice_ns: u64,
    /// True if every algorithm is measured, not only the chosen one.
    pub all: bool,
}

/// Finds the MPIs, and compiles their program into `folder`.
pub fn peers(scope: Scope, folder: &Path) -> (Vec<MpiProgram>, Vec<Missing>) {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for mpi in [&OPEN_MPI, &MPICH] {
        match mpi.compile(scope, folder, &MPI_SOURCE) {
            Ok(program) => here.push(program),
            Err(absent) => missing.push(absent),
        }
    }
    (here, missing)
}

/// Runs a peer's turn of one operation.
fn play_peer(
    peer: &MpiProgram,
    (scope, ranks): (Scope, usize),
    (operation, extent): (Operation, &CollectiveExtent),
) -> Result<Vec<TimedCell>> {
    let mut command = peer.command(scope, ranks);
    command.arg(operation.name());
    command.args([extent.slices.to_string(), extent.slice_ns.to_string()]);
    command.args(extent.sizes_of(operation).iter().map(ToString::to_string));
    cell::of_peer(&Guard::start(&mut command)?.finish(LIMIT)?)
}

impl CollectiveExtent {
    /// Returns the sizes at which an operation is measured: a barrier has none.
    pub fn sizes_of(&self, operation: Operation) -> &[usize] {
        if operation == Operation::Barrier { &[8] } else { &self.sizes }
    }

    /// Returns the arguments of clump's ranks for an operation.
    fn rank_words(&self, operation: Operation) -> Vec<String> {
        let sizes: Vec<String> = self.sizes_of(operation).iter().map(ToString::to_string).collect();
        let mut words: Vec<String> =
            ["lab", "collectives", "--as-rank", "--operations", operation.name(), "--sizes"]
                .map(String::from)
                .into();
        words.push(sizes.join(","));
        words.extend(["--slices".into(), self.slices.to_string()]);
        words.extend(["--slice-us".into(), (self.slice_ns / 1000).to_string()]);
        if self.all {
            words.push("--all".into());
        }
        words
    }
}

/// Runs all rounds; `progress` is told what is running. A peer's turn that fails is named once, and
/// its cells stay empty.
///
/// # Errors
/// Fails if a turn of clump fails.
pub fn play(
    shape: JobShape,
    peers: &[MpiProgram],
    (rounds, extent): (usize, &CollectiveExtent),
    mut progress: impl FnMut(&str),
) -> Result<(Vec<MeasuredCell>, Vec<String>)> {
    let scope = if shape.nodes > 1 { Scope::Net } else { Scope::Shm };
    let (mut cells, mut failures) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        for &operation in &extent.operations {
            progress(&format!("round {round} of {rounds}: {}", operation.name()));
            let mut command = launch::job(shape, 0)?;
            let text = process::run(command.args(extent.rank_words(operation)));
            let text = text.with_context(|| format!("running {}", operation.name()))?;
            cell::add(&mut cells, "clump", cell::of_clump(&text)?);
            for peer in peers {
                let name = peer.name(scope);
                match play_peer(peer, (scope, shape.ranks), (operation, extent)) {
                    Ok(found) => cell::add(&mut cells, name, found),
                    Err(why) => {
                        let failure = format!("left out: {name}, {}: {why:#}", operation.name());
                        if !failures.contains(&failure) {
                            progress(&failure);
                            failures.push(failure);
                        }
                    }
                }
            }
        }
    }
    Ok((cells, failures))
}
