//! `clump app barnes-svm`.

use crate::barnes_svm::galaxy::{Galaxy, TreeBuilding};
use crate::run::SharedRun;
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump_app_frame::InputSize;
use clump_app_frame::barnes::GalaxyRun;
use clump_app_frame::barnes::judge;
use clump_app_frame::barnes::serial;
use clump_app_frame::barnes::shape::GalaxyArgs;
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
    #[command(flatten)]
    galaxy: GalaxyArgs,
    /// Method by which ranks build the tree
    #[arg(long, value_enum, default_value = "original")]
    pub tree: TreeMethod,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Moves bodies on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if two bodies meet.
pub fn run(args: &BarnesArgs) -> Result<ExitCode> {
    let shape = args.galaxy.shape(args.size.of(2048, 32_768, 131_072));
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "barnes-svm", args.size);
    let (building, name) = match args.tree {
        TreeMethod::Original => (TreeBuilding::Locked, "original"),
        TreeMethod::Spatial => (TreeBuilding::Merged, "spatial"),
    };
    run.report().count("bodies", shape.bodies as u64);
    run.report().count("steps", shape.steps as u64);
    run.report().choice("tree", name);
    run.report().figure("opening ratio", shape.angle);
    let mut galaxy = Galaxy::make(&svm, shape)?;
    let log = run.phase("steps", || galaxy.run(building))?;
    run.finish(
        args.json,
        || serial::run(&shape, shape.model()),
        |serial, report| {
            let (placed, motions) = galaxy.all();
            let found = GalaxyRun { placed, motions, log };
            judge::wrong(&shape, &shape.model(), &found, &serial, report)
        },
    )
}
