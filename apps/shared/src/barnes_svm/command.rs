//! `clump app barnes-svm`.

use crate::barnes_svm::body;
use crate::barnes_svm::check::{self, SerialGalaxy};
use crate::barnes_svm::galaxy::{Galaxy, GalaxyLog, GalaxyShape, TreeBuilding};
use crate::run::SharedRun;
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump_app_frame::{AppReport, InputSize};
use std::process::ExitCode;

/// Method by which ranks build the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TreeMethod {
    /// Body by body into one tree, under a lock for each cell
    Original,
    /// Subtrees of parts of space, each by one rank without locks, merged
    Spatial,
}

/// Options of `clump app barnes-svm`.
#[derive(Debug, Args)]
pub struct BarnesArgs {
    /// Size of the input: 2048, 32768 or 131072 bodies
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Bodies, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub bodies: Option<u32>,
    /// Steps; forces are found once more behind the last
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub steps: u32,
    /// Length of a step, in units in which a body crosses the sphere in about 3
    #[arg(long, value_name = "TIME", default_value_t = 0.025, value_parser = time)]
    pub time: f64,
    /// Side of a cell over its distance from which on its parts are used instead, at most 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.7, value_parser = ratio)]
    pub angle: f64,
    /// Method by which ranks build the tree
    #[arg(long, value_enum, default_value = "original")]
    pub tree: TreeMethod,
    /// Seed of the bodies
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

fn within(text: &str, most: f64) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= most);
    number.ok_or_else(|| format!("give a number above 0, and not above {most}"))
}

fn time(text: &str) -> std::result::Result<f64, String> {
    within(text, 0.1)
}

fn ratio(text: &str) -> std::result::Result<f64, String> {
    within(text, 1.0)
}

/// Bodies whose forces are summed up without a tree.
const SAMPLES: usize = 512;
/// Largest error of forces, for cells opened at ratio 1: third moments are the first that are left
/// out, so that it falls with the fourth power of the ratio.
const MAX_FORCE_ERROR: f64 = 0.05;
/// Largest change of the energy, relative.
const MAX_DRIFT: f64 = 5e-3;
/// Largest change of a part of the momentum, in parts of all momenta, a step.
const MAX_MOMENTUM: f64 = 1e-3;
/// Largest difference of energies from the serial ones, relative: of the order of sums alone.
const MAX_ROUNDING: f64 = 1e-11;

/// Moves bodies on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if two bodies meet.
pub fn run(args: &BarnesArgs) -> Result<ExitCode> {
    let bodies = args.bodies.map_or(args.size.of(2048, 32_768, 131_072), |count| count as usize);
    let shape = GalaxyShape {
        bodies,
        seed: args.seed,
        angle: args.angle,
        time: args.time,
        steps: args.steps as usize,
    };
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "barnes-svm", args.size);
    let (building, name) = match args.tree {
        TreeMethod::Original => (TreeBuilding::Locked, "original"),
        TreeMethod::Spatial => (TreeBuilding::Merged, "spatial"),
    };
    run.report().count("bodies", bodies as u64);
    run.report().count("steps", u64::from(args.steps));
    run.report().choice("tree", name);
    run.report().figure("opening ratio", args.angle);
    let mut galaxy = Galaxy::make(&svm, shape)?;
    let log = run.phase("steps", || galaxy.run(building))?;
    run.finish(
        args.json,
        || check::run(&shape),
        |serial, report| {
            let (placed, motions) = galaxy.all();
            let found = SerialGalaxy { placed, motions, log };
            wrong(&shape, &found, &serial, report)
        },
    )
}

/// Returns the number of evaluations whose counts or energies are not the serial ones.
fn other_evaluations(found: &GalaxyLog, serial: &GalaxyLog) -> u64 {
    let same = |a: f64, b: f64| (a - b).abs() <= MAX_ROUNDING * b.abs();
    let pairs = found.iter().zip(serial);
    let other = pairs.filter(|((counts, energies), (due, dues))| {
        counts != due || !energies.iter().zip(dues).all(|(a, b)| same(*a, *b))
    });
    (other.count() + found.len().abs_diff(serial.len())) as u64
}

/// Compares a run with the serial one and with the laws of motion; returns what is wrong.
fn wrong(
    shape: &GalaxyShape,
    found: &SerialGalaxy,
    serial: &SerialGalaxy,
    report: &mut AppReport,
) -> u64 {
    let bits = |number: usize, of: &SerialGalaxy| {
        let (at, motion) = (of.placed[number], of.motions[number]);
        (at.map(f64::to_bits), motion.map(f64::to_bits))
    };
    let other = (0..shape.bodies).filter(|&at| bits(at, found) != bits(at, serial)).count() as u64;
    let evaluations = other_evaluations(&found.log, &serial.log);
    let error = check::force_error(&found.placed, &found.motions, SAMPLES);
    let (before, after) = (&found.log[0], &found.log[shape.steps]);
    let energy = |(_, [kinetic, potential]): &(_, [f64; 2])| kinetic + potential;
    let drift = ((energy(after) - energy(before)) / energy(before)).abs();
    let (placed, motions): (Vec<_>, Vec<_>) =
        (0..shape.bodies).map(|number| body::body(shape.seed, shape.bodies, number)).unzip();
    let first = check::momentum(&placed, &motions);
    let last = check::momentum(&found.placed, &found.motions);
    let moved = (0..3).map(|part| (last[part] - first[part]).abs()).fold(0.0, f64::max);
    report.count("bodies other than serially", other);
    report.count("evaluations other than serially", evaluations);
    report.count("cells of the last tree", after.0.cells);
    report.count("levels of the last tree", after.0.depth);
    report.count("interactions of the last forces", after.0.interactions);
    report.figure("error of forces, 1e-6", error * 1e6);
    report.figure("change of the energy, 1e-6", drift * 1e6);
    report.figure("change of the momentum, 1e-6", moved * 1e6);
    let exceeds = |value: f64, most: f64| u64::from(value.is_nan() || value > most);
    other
        + evaluations
        + exceeds(error, MAX_FORCE_ERROR * shape.angle.powi(4) + MAX_ROUNDING)
        + exceeds(drift, MAX_DRIFT)
        + exceeds(moved, MAX_MOMENTUM * shape.steps as f64)
}
