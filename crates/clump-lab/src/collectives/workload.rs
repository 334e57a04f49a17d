//! Clump's side of the measurement: the calls, and the loops around them.

use super::CollectiveExtent;
use super::cell::TimedCell;
use anyhow::Result;
use clump_coll::choice::{Algorithm, Operation};
use clump_coll::{Max, Sum, Team};
use clump_loggp::Median;
use clump_os::{clock, console};
use std::cell::RefCell;

/// Most calls of a slice, as in `peers/mpi_collectives.c`.
const MAX_CALLS: u64 = 2000;

/// Runs the measurement at every rank. Prints the cells on rank 0.
///
/// # Errors
/// Fails if the job ends.
pub fn rank_main(extent: &CollectiveExtent) -> Result<()> {
    let cl = clump::init()?;
    let team = cl.team();
    for &operation in &extent.operations {
        for &bytes in extent.sizes_of(operation) {
            let buffers = Buffers::new(team.nranks(), bytes);
            let given =
                if operation == Operation::AllToAll { bytes * team.nranks() } else { bytes };
            let chosen = team.algorithm(operation, given);
            let others = team.algorithms(operation, given);
            let others = others.into_iter().filter(|&it| extent.all && it != chosen);
            for algorithm in std::iter::once(chosen).chain(others) {
                team.prefer((algorithm != chosen).then_some(algorithm));
                let ns = measure(team, operation, &buffers, extent)?;
                team.prefer(None);
                team.barrier()?;
                if cl.rank() == 0 {
                    let cell = cell(operation, bytes, (algorithm, algorithm == chosen), ns);
                    console::out(&cell.line())?;
                }
            }
        }
    }
    Ok(())
}

fn cell(operation: Operation, bytes: usize, of: (Algorithm, bool), ns: f64) -> TimedCell {
    let (algorithm, chosen) = (of.0.name().to_owned(), of.1);
    TimedCell { operation: operation.name().into(), bytes, algorithm, chosen, ns }
}

/// Returns the time of a call in ns: the median over slices.
fn measure(
    team: &Team,
    operation: Operation,
    of: &Buffers,
    extent: &CollectiveExtent,
) -> Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ns")]
    let calls = |count: u64| -> Result<f64> {
        let start = clock::now_ns();
        for root in (0..team.nranks()).cycle().take(usize::try_from(count)?) {
            of.call(team, operation, root)?;
        }
        team.barrier()?;
        Ok((clock::now_ns() - start) as f64 / count as f64)
    };
    calls(1)?;
    let once = team.all_reduce(calls(2)?, Max)?;
    #[expect(clippy::cast_precision_loss, reason = "a slice is far below 2^53 ns")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let count = ((extent.slice_ns as f64 / once) as u64).clamp(1, MAX_CALLS);
    let slices = (0..extent.slices).map(|_| calls(count)).collect::<Result<Vec<f64>>>()?;
    Ok(Median::of(slices).map_or(f64::NAN, |median| median.value))
}

/// Values of one size.
struct Buffers {
    /// A contribution.
    values: Vec<f64>,
    /// A part for each rank, or of each.
    given: Vec<f64>,
    got: RefCell<Vec<f64>>,
}

impl Buffers {
    fn new(ranks: usize, bytes: usize) -> Self {
        let count = bytes / size_of::<f64>();
        let parts = || vec![1.0; count * ranks];
        Self { values: vec![1.0; count], given: parts(), got: RefCell::new(parts()) }
    }

    fn call(&self, team: &Team, operation: Operation, root: usize) -> Result<()> {
        let mut got = self.got.borrow_mut();
        let count = self.values.len();
        match operation {
            Operation::Barrier => team.barrier()?,
            Operation::Broadcast => team.broadcast(root, &mut got[..count])?,
            Operation::Reduce => team.reduce_slice(root, self.fresh(&mut got), Sum)?,
            Operation::AllReduce => team.all_reduce_slice(self.fresh(&mut got), Sum)?,
            Operation::Scan => team.scan_slice(self.fresh(&mut got), Sum)?,
            Operation::Gather => team.gather_slice(root, &self.values, &mut got)?,
            Operation::AllGather => team.all_gather_slice(&self.values, &mut got)?,
            Operation::Scatter => team.scatter_slice(root, &self.given, &mut got[..count])?,
            Operation::AllToAll => team.all_to_all_slice(&self.given, &mut got)?,
        }
        Ok(())
    }

    /// Returns a copy of the contribution: MPI's calls leave the original as it is, too.
    fn fresh<'a>(&self, got: &'a mut [f64]) -> &'a mut [f64] {
        let fresh = &mut got[..self.values.len()];
        fresh.copy_from_slice(&self.values);
        fresh
    }
}
