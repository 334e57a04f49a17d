//! `clump app gauss`.

use crate::gauss::check;
use crate::gauss::elimination::{first_row, substitute};
use crate::gauss::system::SharedSystem;
use crate::run::SharedRun;
use anyhow::Result;
use clap::Args;
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Options of `clump app gauss`.
#[derive(Debug, Args)]
pub struct GaussArgs {
    /// Size of the input: 128, 2048 or 512 equations
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Equations, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub equations: Option<u32>,
    /// Seed of the equations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Largest scaled residual where nothing is wrong.
const MAX_RESIDUAL: f64 = 16.0;

/// Solves equations on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &GaussArgs) -> Result<ExitCode> {
    let n = args.equations.map_or(args.size.of(128, 2048, 512), |count| count as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "gauss", args.size);
    run.report().count("equations", n as u64);
    let system = SharedSystem::allocate(&svm, n)?;
    system.fill(|row| first_row(args.seed, n, row));
    run.phase("elimination", || Ok(system.eliminate()?))?;
    let solution = run.phase("substitution", || {
        if svm.rank() > 0 {
            return Ok(Vec::new());
        }
        let mut rows = vec![vec![0.0; n + 1]; n];
        rows.iter_mut().enumerate().for_each(|(row, into)| system.read(row, into));
        let pivots: Vec<_> = (0..n).map(|row| system.pivot_of(row)).collect();
        Ok(substitute(&rows, &pivots))
    })?;
    run.finish(
        args.json,
        || check::run(args.seed, n),
        |serial, report| {
            let differs = |(found, due): &(&f64, &f64)| found.to_bits() != due.to_bits();
            let other = solution.iter().zip(&serial).filter(differs).count();
            let missing = solution.len().abs_diff(serial.len());
            let residual = check::residual(args.seed, n, &solution);
            report.count("unknowns other than serially", (other + missing) as u64);
            report.figure("scaled residual", residual);
            (other + missing) as u64 + u64::from(residual.is_nan() || residual > MAX_RESIDUAL)
        },
    )
}
