//! Clump's side of the measurement: the calls, and the loops around them.

use super::CollectiveExtent;
use super::cell::TimedCell;
use anyhow::Result;
use clump_coll::choice::{Algorithm, Operation};
use clump_coll::{Max, Sum, Team};
use clump_loggp::Median;
use clump_os::clock;

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
            let chosen = team.algorithm(operation, bytes);
            let others = team.algorithms(operation, bytes);
            let others = others.into_iter().filter(|&it| extent.all && it != chosen);
            for algorithm in std::iter::once(chosen).chain(others) {
                team.prefer((algorithm != chosen).then_some(algorithm));
                let ns = measure(team, operation, &buffers, extent)?;
                team.prefer(None);
                team.barrier()?;
                if cl.rank() == 0 {
                    print!(
                        "{}",
                        cell(operation, bytes, (algorithm, algorithm == chosen), ns).line()
                    );
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
    bytes: usize,
    values: Vec<f64>,
    parts: Vec<Vec<u8>>,
}

impl Buffers {
    fn new(ranks: usize, bytes: usize) -> Self {
        Self { bytes, values: vec![1.0; bytes / 8], parts: vec![vec![1; bytes]; ranks] }
    }

    fn call(&self, team: &Team, operation: Operation, root: usize) -> Result<()> {
        let word = self.bytes == 8;
        let here = team.rank() == root;
        match operation {
            Operation::Barrier => team.barrier()?,
            Operation::Broadcast => team.broadcast(root, &mut self.values.clone())?,
            Operation::Reduce => team.reduce_slice(root, &mut self.values.clone(), Sum)?,
            Operation::AllReduce => team.all_reduce_slice(&mut self.values.clone(), Sum)?,
            Operation::Scan => team.scan_slice(&mut self.values.clone(), Sum)?,
            Operation::Gather if word => drop(team.gather(root, 1_u64)?),
            Operation::Gather => drop(team.gather_bytes(root, &self.parts[0])?),
            Operation::AllGather if word => drop(team.all_gather(1_u64)?),
            Operation::AllGather => drop(team.all_gather_bytes(&self.parts[0])?),
            Operation::Scatter if word => {
                let values = if here { vec![1_u64; team.nranks()] } else { Vec::new() };
                team.scatter(root, &values)?;
            }
            Operation::Scatter => {
                let parts = if here { &self.parts[..] } else { &[] };
                drop(team.scatter_bytes(root, parts)?);
            }
            Operation::AllToAll if word => {
                drop(team.all_to_all(&vec![1_u64; team.nranks()])?);
            }
            Operation::AllToAll => drop(team.all_to_all_bytes(&self.parts)?),
        }
        Ok(())
    }
}
