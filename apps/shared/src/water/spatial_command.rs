//! `clump app water-spatial`.

use crate::run::SharedRun;
use crate::water::check::{self, WaterRun};
use crate::water::cube_grid::CubeGrid;
use crate::water::molecule::Cell;
use crate::water::spatial_box::SpatialBox;
use crate::water::{serial_cubes, verdict};
use anyhow::Result;
use clap::Args;
use clump::Sum;
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Options of `clump app water-spatial`.
#[derive(Debug, Args)]
pub struct WaterSpatialArgs {
    /// Size of the input: 64, 512 or 15625 molecules
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Molecules, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub molecules: Option<u32>,
    /// Steps of 0.2 fs
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u32).range(6..=100_000))]
    pub steps: u32,
    /// Seed of the molecules
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Moves molecules, cube by cube, on all ranks of the job that this process belongs to, and checks
/// the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &WaterSpatialArgs) -> Result<ExitCode> {
    let count = args.molecules.map_or(args.size.of(64, 512, 15_625), |count| count as usize);
    let steps = args.steps as usize;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "water-spatial", args.size);
    run.report().count("molecules", count as u64);
    run.report().count("steps", steps as u64);
    run.report().count("cubes", CubeGrid::of(&Cell::of(count)).cubes() as u64);
    let mut water = SpatialBox::fill(&svm, count, args.seed)?;
    let mut energies = Vec::new();
    run.phase("steps", || {
        for _ in 0..steps {
            let [potential, kinetic] = water.step()?;
            energies.push(potential + kinetic);
        }
        Ok(())
    })?;
    let moved = cl.all_reduce(water.moved(), Sum)?;
    run.report().count("changes of cubes", moved);
    let (listed, misplaced) = water.listed();
    let (listed, misplaced) = (cl.all_reduce(listed, Sum)?, cl.all_reduce(misplaced, Sum)?);
    let mislisted = misplaced + listed.abs_diff(count as u64);
    run.report().count("molecules in wrong lists", mislisted);
    let serial = || serial_cubes::run(args.seed, count, steps);
    run.finish(args.json, serial, |serial, report| {
        let found = WaterRun { places: water.all(false), forces: water.all(true), energies };
        // Beside the serial version by cubes, one that knows no cubes.
        let by_pairs = verdict::difference(&found, &check::run(args.seed, count, steps));
        report.figure("largest difference to all pairs", by_pairs);
        verdict::wrong(&found, &serial, report) + verdict::other(by_pairs) + mislisted
    })
}
