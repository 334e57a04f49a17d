//! `clump app jacobi`.

use crate::jacobi::check;
use crate::jacobi::rows::{GridRows, RowDeal, relaxed};
use crate::run::SharedRun;
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Placement of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowPlacement {
    /// Each on pages of its own
    Padded,
    /// One behind the other, so that ranks write to the same pages
    Packed,
}

/// Deal of rows to ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowOwners {
    /// Consecutive rows to each rank
    Block,
    /// Row by row: every page of packed rows is shared
    Cyclic,
}

/// Options of `clump app jacobi`.
#[derive(Debug, Args)]
pub struct JacobiArgs {
    /// Size of the input: 256, 2048 or 2048 cells a side; 20, 100 or 3 iterations
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Cells of a side, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub side: Option<u32>,
    /// Iterations, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub iterations: Option<u32>,
    /// Placement of rows
    #[arg(long, value_enum, default_value = "padded")]
    pub rows: RowPlacement,
    /// Deal of rows to ranks
    #[arg(long, value_enum, default_value = "block")]
    pub deal: RowOwners,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Largest difference to the wave that must be left, of its height at the beginning: rounding.
const MAX_ERROR: f64 = 1e-12;

/// Relaxes a grid on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &JacobiArgs) -> Result<ExitCode> {
    let side = args.side.map_or(args.size.of(256, 2048, 2048), |side| side as usize);
    let iterations = args.iterations.map_or(args.size.of(20, 100, 3), |count| count as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "jacobi", args.size);
    let padded = args.rows == RowPlacement::Padded;
    let (deal, name) = match args.deal {
        RowOwners::Block => (RowDeal::Block, "block"),
        RowOwners::Cyclic => (RowDeal::Cyclic, "cyclic"),
    };
    run.report().count("cells of a side", side as u64);
    run.report().count("iterations", iterations as u64);
    run.report().choice("rows", if padded { "padded" } else { "packed" });
    run.report().choice("deal", name);
    let grids = [GridRows::allocate(&svm, side, padded)?, GridRows::allocate(&svm, side, padded)?];
    let own = deal.rows(side, (svm.rank(), svm.nranks()));
    for &row in &own {
        let inside = |column: usize| column > 0 && column <= side;
        let cell = |at: usize| if inside(at) { check::wave(side, row, at) } else { 0.0 };
        grids[0].write(row, &(0..side + 2).map(cell).collect::<Vec<_>>());
    }
    run.phase("iterations", || {
        let mut around = [vec![0.0; side + 2], vec![0.0; side + 2], vec![0.0; side + 2]];
        for iteration in 0..iterations {
            let (from, to) = (&grids[iteration % 2], &grids[(iteration + 1) % 2]);
            for &row in &own {
                around.iter_mut().zip(row - 1..).for_each(|(into, at)| from.read(at, into));
                to.write(row, &relaxed([&around[0], &around[1], &around[2]]));
            }
            svm.barrier()?;
        }
        Ok(())
    })?;
    run.finish(
        args.json,
        || check::run(side, iterations),
        |serial, report| {
            let mut found = vec![0.0; (side + 2) * (side + 2)];
            let last = &grids[iterations % 2];
            found.chunks_exact_mut(side + 2).enumerate().for_each(|(row, to)| last.read(row, to));
            let differs = |(found, due): &(&f64, &f64)| found.to_bits() != due.to_bits();
            let other = found.iter().zip(&serial).filter(differs).count() as u64;
            let error = check::wave_error(side, iterations, &found);
            report.count("cells other than serially", other);
            report.figure("error of the wave, 1e-12", error * 1e12);
            other + u64::from(error.is_nan() || error > MAX_ERROR)
        },
    )
}
