//! `clump app ocean`.

use crate::ocean::check::{largest_error, solve, source};
use crate::ocean::cycle::Basin;
use crate::run::SharedRun;
use anyhow::Result;
use clap::Args;
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Options of `clump app ocean`.
#[derive(Debug, Args)]
pub struct OceanArgs {
    /// Size of the input: basins of 64, 256 or 512 cells a side, the coast not counted
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Cells of a side, instead of the size's; a power of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=8192))]
    pub side: Option<u32>,
    /// Cycles over all grids
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub cycles: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Error that the grid itself may cause, in squares of a cell's width: a few times that of the
/// highest wave of the exact solution.
const MAX_ERROR: f64 = 12.0;

/// Solves the equations of a basin on all ranks of the job that this process belongs to, and checks
/// the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &OceanArgs) -> Result<ExitCode> {
    let side = args.side.map_or(args.size.of(64, 256, 512), |side| side as usize);
    anyhow::ensure!(side.is_power_of_two(), "a side is {side} cells; give a power of two");
    let cycles = args.cycles as usize;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "ocean", args.size);
    let basin = Basin::allocate(&svm, side)?;
    run.report().count("cells of a side", side as u64);
    run.report().count("grids", basin.grids() as u64);
    run.report().count("cycles", cycles as u64);
    basin.begin(|row, column| source(side, row, column))?;
    let mut residuals = Vec::new();
    run.phase("cycles", || {
        for _ in 0..cycles {
            basin.cycle()?;
            residuals.push(basin.residual()?);
        }
        Ok(())
    })?;
    run.finish(
        args.json,
        || solve(side, cycles),
        |serial, report| {
            let mut flow = vec![0.0; side * side];
            flow.chunks_exact_mut(side)
                .enumerate()
                .for_each(|(row, to)| basin.flow().read(row, to));
            let differ = |a: &[f64], b: &[f64]| {
                a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count() as u64
            };
            let other = differ(&flow, &serial.flow) + differ(&residuals, &serial.residuals);
            let error = largest_error(side, &flow) * (side * side) as f64;
            report.figure("error, in squares of a cell", error);
            report.figure("last residual", residuals.last().copied().unwrap_or(f64::NAN));
            report.count("values other than serially", other);
            // So few cycles that the grid's own error does not show prove nothing about it.
            let solved = cycles < 12 || error < MAX_ERROR;
            other + u64::from(!solved)
        },
    )
}
