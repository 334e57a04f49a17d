//! `clump app unstructured`.

use crate::run::SharedRun;
use crate::unstructured::check::{self, SerialFlow};
use crate::unstructured::delaunay::DelaunayMesh;
use crate::unstructured::edge_loops::{EdgeLoops, NodeAdding};
use crate::unstructured::flow::random_points;
use crate::unstructured::mesh_input::MeshInput;
use crate::unstructured::shared_mesh::SharedMesh;
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump_app_frame::{AppReport, InputSize, Lap};
use std::process::ExitCode;

/// Way in which nodes are added to at which edges of several ranks end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AddingWay {
    /// Collected in private memory, and added once a loop, under a lock for each rank's nodes
    Private,
    /// Added edge by edge, under the lock of the node
    Locks,
}

/// Options of `clump app unstructured`.
#[derive(Debug, Args)]
pub struct UnstructuredArgs {
    /// Size of the input: 500, 100000 or 2800 points
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Points of the mesh, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=10_000_000))]
    pub points: Option<u32>,
    /// Steps, of three loops over all edges each, instead of the size's 5, 100 or 50
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub steps: Option<u32>,
    /// Way in which nodes are added to at which edges of several ranks end
    #[arg(long, value_enum, default_value = "private")]
    pub adding: AddingWay,
    /// Seed of points and of their first quantities
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Tetrahedra whose spheres are checked.
const SAMPLE: usize = 256;

/// The mesh, which rank 0 makes: it needs no other rank.
struct MadeMesh {
    mesh: DelaunayMesh,
    input: MeshInput,
}

impl MadeMesh {
    fn by_one_rank(run: &mut SharedRun, points: usize, seed: u64) -> Result<Option<Self>> {
        let (rank, ranks) = (run.svm().rank(), run.svm().nranks());
        if rank > 0 {
            return Ok(None);
        }
        let lap = Lap::begin();
        let mesh = DelaunayMesh::of(random_points(points, seed))?;
        run.report().phase("mesh, by one rank", lap.seconds());
        let lap = Lap::begin();
        let input = MeshInput::of(&mesh, seed, ranks)?;
        run.report().phase("bisection, by one rank", lap.seconds());
        Ok(Some(Self { mesh, input }))
    }
}

/// Runs the loops on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if the points make no mesh.
pub fn run(args: &UnstructuredArgs) -> Result<ExitCode> {
    let points = args.points.map_or(args.size.of(500, 100_000, 2800), |count| count as usize);
    let steps = args.steps.map_or(args.size.of(5, 100, 50), |count| count as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "unstructured", args.size);
    run.report().count("points", points as u64);
    run.report().count("steps", steps as u64);
    let (adding, name) = match args.adding {
        AddingWay::Private => (NodeAdding::Collected, "private"),
        AddingWay::Locks => (NodeAdding::Locked, "locks"),
    };
    run.report().choice("adding", name);
    let made = MadeMesh::by_one_rank(&mut run, points, args.seed)?;
    let mesh = SharedMesh::store(&svm, made.as_ref().map(|made| &made.input))?;
    let loops = run.phase("edges of ranks", || Ok(EdgeLoops::over(&svm, mesh, adding)?))?;
    let mut sums = Vec::with_capacity(steps);
    run.phase("steps", || {
        for _ in 0..steps {
            sums.push(loops.step()?);
        }
        Ok(())
    })?;
    let serial = || made.as_ref().map(|made| (made, check::run(&made.mesh, args.seed, steps)));
    run.finish(args.json, serial, |serial, report| match serial {
        None => 1,
        Some((made, serial)) => {
            let all = loops.mesh().all_quantities();
            let mut quantities = all.clone();
            for (&point, node) in made.input.order.iter().zip(all) {
                quantities[point as usize] = node;
            }
            wrong(args.seed, made, &SerialFlow { quantities, sums }, &serial, report)
        }
    })
}

/// Compares a run with the serial one, and both the mesh and the flow with their laws; returns what
/// is wrong.
fn wrong(
    seed: u64,
    made: &MadeMesh,
    found: &SerialFlow,
    serial: &SerialFlow,
    report: &mut AppReport,
) -> u64 {
    let pairs = found.quantities.iter().zip(&serial.quantities);
    let other = pairs.filter(|(found, due)| found != due).count();
    let steps = found.sums.iter().zip(&serial.sums).filter(|(found, due)| found != due).count();
    let missing = found.sums.len().abs_diff(serial.sums.len());
    let first = check::begin(&made.mesh, seed);
    let unlawful = check::unlawful(&first, &found.quantities, &found.sums);
    let verdict = check::mesh(&made.mesh, made.input.edges.len(), SAMPLE);
    report.count("edges", made.input.edges.len() as u64);
    report.count("edges between ranks", made.input.cut() as u64);
    report.count("tetrahedra", verdict.tetrahedra);
    report.count("faces of the hull", verdict.hull);
    report.count("nodes other than serially", other as u64);
    report.count("steps other than serially", (steps + missing) as u64);
    report.count("laws of flow that are broken", unlawful);
    report.count("laws of meshes that are broken", verdict.wrong);
    other as u64 + (steps + missing) as u64 + unlawful + verdict.wrong
}
