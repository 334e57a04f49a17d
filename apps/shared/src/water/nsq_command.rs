//! `clump app water-nsq`.

use crate::run::SharedRun;
use crate::water::box_of_water::{Adding, WaterBox};
use crate::water::check::{self, WaterRun};
use crate::water::verdict;
use anyhow::Result;
use clap::{Args, ValueEnum};
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

/// Options of `clump app water-nsq`.
#[derive(Debug, Args)]
pub struct WaterArgs {
    /// Size of the input: 64, 512 or 4096 molecules
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Molecules, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub molecules: Option<u32>,
    /// Steps of 0.2 fs
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u32).range(6..=100_000))]
    pub steps: u32,
    /// Way in which forces are added
    #[arg(long, value_enum, default_value = "private")]
    pub forces: ForceWay,
    /// Seed of the molecules
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Moves molecules on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &WaterArgs) -> Result<ExitCode> {
    let count = args.molecules.map_or(args.size.of(64, 512, 4096), |count| count as usize);
    let steps = args.steps as usize;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "water-nsq", args.size);
    run.report().count("molecules", count as u64);
    run.report().count("steps", steps as u64);
    let (adding, name) = match args.forces {
        ForceWay::Private => (Adding::Collected, "private"),
        ForceWay::Locks => (Adding::PairByPair, "locks"),
    };
    run.report().choice("forces", name);
    let mut water = WaterBox::fill(&svm, count, args.seed)?;
    let mut energies = Vec::new();
    run.phase("steps", || {
        for _ in 0..steps {
            let [potential, kinetic] = water.step(adding)?;
            energies.push(potential + kinetic);
        }
        Ok(())
    })?;
    let serial = || check::run(args.seed, count, steps);
    run.finish(args.json, serial, |serial, report| {
        let found = WaterRun { places: water.all(false), forces: water.all(true), energies };
        verdict::wrong(&found, &serial, report)
    })
}
