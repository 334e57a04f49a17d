//! `clump app water-nsq` and `clump app water-spatial`.

use crate::run::SharedRun;
use crate::water::box_of_water::{Adding, WaterBox};
use crate::water::check::{self, WaterRun};
use crate::water::cube_grid::CubeGrid;
use crate::water::molecule::Cell;
use crate::water::spatial_box::SpatialBox;
use crate::water::{serial_cubes, verdict};
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump::Sum;
use clump::svm::Svm;
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Way in which forces are added to molecules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForceWay {
    /// Collected in private memory, and added once a step
    Private,
    /// Added pair by pair, under the lock of the molecule
    Locks,
}

/// Options of both applications.
#[derive(Debug, Args)]
pub struct MotionArgs {
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

/// Options of `clump app water-nsq`.
#[derive(Debug, Args)]
pub struct WaterArgs {
    /// Size of the input: 64, 512 or 4096 molecules
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Way in which forces are added
    #[arg(long, value_enum, default_value = "private")]
    pub forces: ForceWay,
    /// Molecules, steps and the report.
    #[command(flatten)]
    pub motion: MotionArgs,
}

/// Options of `clump app water-spatial`.
#[derive(Debug, Args)]
pub struct WaterSpatialArgs {
    /// Size of the input: 64, 512 or 15625 molecules
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Molecules, steps and the report.
    #[command(flatten)]
    pub motion: MotionArgs,
}

/// Moves molecules on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run_by_pairs(args: &WaterArgs) -> Result<ExitCode> {
    let motion = &args.motion;
    let count = motion.count(args.size.of(64, 512, 4096));
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = motion.begin(&svm, "water-nsq", args.size, count);
    let (adding, name) = match args.forces {
        ForceWay::Private => (Adding::Collected, "private"),
        ForceWay::Locks => (Adding::PairByPair, "locks"),
    };
    run.report().choice("forces", name);
    let mut water = WaterBox::fill(&svm, count, motion.seed)?;
    let energies = motion.steps(&mut run, || water.step(adding))?;
    let serial = || check::run(motion.seed, count, motion.steps as usize);
    run.finish(motion.json, serial, |serial, report| {
        let found = WaterRun { places: water.all(false), forces: water.all(true), energies };
        verdict::wrong(&found, &serial, report)
    })
}

/// Moves molecules as [`run_by_pairs`] does, but cube by cube.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run_by_cubes(args: &WaterSpatialArgs) -> Result<ExitCode> {
    let motion = &args.motion;
    let (count, steps) = (motion.count(args.size.of(64, 512, 15_625)), motion.steps as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = motion.begin(&svm, "water-spatial", args.size, count);
    run.report().count("cubes", CubeGrid::of(&Cell::of(count)).cubes() as u64);
    let mut water = SpatialBox::fill(&svm, count, motion.seed)?;
    let energies = motion.steps(&mut run, || water.step())?;
    let moved = cl.all_reduce(water.moved(), Sum)?;
    run.report().count("changes of cubes", moved);
    let (listed, misplaced) = water.listed();
    let (listed, misplaced) = (cl.all_reduce(listed, Sum)?, cl.all_reduce(misplaced, Sum)?);
    let mislisted = misplaced + listed.abs_diff(count as u64);
    run.report().count("molecules in wrong lists", mislisted);
    let serial = || serial_cubes::run(motion.seed, count, steps);
    run.finish(motion.json, serial, |serial, report| {
        let found = WaterRun { places: water.all(false), forces: water.all(true), energies };
        // Beside the serial version by cubes, one without cubes.
        let by_pairs = verdict::difference(&found, &check::run(motion.seed, count, steps));
        report.figure("largest difference to all pairs", by_pairs);
        verdict::wrong(&found, &serial, report) + verdict::other(by_pairs) + mislisted
    })
}

impl MotionArgs {
    fn count(&self, of_size: usize) -> usize {
        self.molecules.map_or(of_size, |count| count as usize)
    }

    fn begin(&self, svm: &Svm, app: &'static str, size: InputSize, count: usize) -> SharedRun {
        let mut run = SharedRun::begin(svm, app, size);
        run.report().count("molecules", count as u64);
        run.report().count("steps", self.steps.into());
        run
    }

    /// Runs the phase of all steps. Returns the energy after each.
    fn steps(
        &self,
        run: &mut SharedRun,
        mut step: impl FnMut() -> clump::Result<[f64; 2]>,
    ) -> Result<Vec<f64>> {
        run.phase("steps", || {
            let energy = |[potential, kinetic]: [f64; 2]| potential + kinetic;
            (0..self.steps).map(|_| Ok(energy(step()?))).collect()
        })
    }
}
