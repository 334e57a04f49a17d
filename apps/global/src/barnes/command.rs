//! `clump app barnes`.

use crate::barnes::CellLocks;
use crate::barnes::galaxy::GlobalGalaxy;
use crate::barnes::global_octree::GlobalOctree;
use crate::barnes::snapshot;
use crate::run::AppRun;
use anyhow::Result;
use clap::Args;
use clump::pgas::{CacheCounts, LockKind};
use clump_app_frame::InputSize;
use clump_app_frame::barnes::GalaxyLog;
use clump_app_frame::barnes::GalaxyRun;
use clump_app_frame::barnes::judge;
use clump_app_frame::barnes::serial;
use clump_app_frame::barnes::shape::{GalaxyArgs, GalaxyShape};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `clump app barnes`.
#[derive(Debug, Args)]
pub struct GlobalBarnesArgs {
    /// Size of the input: 4096, 131072 or 1048576 bodies
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    #[command(flatten)]
    galaxy: GalaxyArgs,
    /// Manner in which ranks wait for the locks of cells
    #[arg(long, value_enum, default_value = "queue")]
    pub locks: CellLocks,
    /// Attempts that a rank serves on end, holding a naive lock, before it gives the run up
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub lock_limit: u64,
    /// Copies of remote cells and bodies that a rank keeps, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub cache: u32,
    /// Bodies of a rank whose forces are found at a time: what they miss is fetched together
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub window: u32,
    /// File of bodies to begin with: mass, x, y, z and three parts of the velocity a line, or a row
    /// of NumPy's format (.npy)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bodies", "seed"])]
    pub input: Option<PathBuf>,
    /// File to write the bodies to, at the end: in NumPy's format if its name ends with .npy
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File to draw the bodies to, at the end: PNG if its name ends so, else PGM
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Moves bodies on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, if two bodies meet, if a file cannot
/// be read or written, or if attempts at naive locks never end.
pub fn run(args: &GlobalBarnesArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of: Vec<usize> = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "barnes", args.size, node_of);
    let mut shape = args.galaxy.shape(args.size.of(4096, 131_072, 1_048_576));
    let first = match &args.input {
        Some(path) => snapshot::read(path)?,
        None => shape.model(),
    };
    shape.bodies = first.0.len();
    let kind = match args.locks {
        CellLocks::Queue => LockKind::Queue,
        CellLocks::Spin => LockKind::Spin,
        CellLocks::Naive => LockKind::Served(args.lock_limit),
    };
    run.report().count("bodies", shape.bodies as u64);
    run.report().count("steps", shape.steps as u64);
    run.report().count("cache, KiB", args.cache.into());
    run.report().choice("locks", args.locks.name());
    run.report().figure("opening ratio", shape.angle);
    let cache = (args.cache as usize * 1024, run.traffic());
    let tree = GlobalOctree::allocate(&gas, shape.bodies, kind, cache)?;
    let mut galaxy = GlobalGalaxy::make(&run, shape, &first, tree, args.window as usize)?;
    let log = galaxy.run(&mut run)?;
    report(&mut run, &shape, &galaxy, &log)?;
    let found = galaxy.tree().bodies().collect(shape.bodies)?;
    if let Some(bodies) = &found {
        args.output.iter().try_for_each(|path| snapshot::write(path, bodies))?;
        args.picture.iter().try_for_each(|path| snapshot::draw(path, bodies))?;
    }
    let expected = run.serial(|| serial::run(&shape, first.clone()))?;
    let mut wrong = 0;
    if let (Some((placed, motions)), Some(expected)) = (found, expected) {
        let found = GalaxyRun { placed, motions, log };
        wrong = judge::wrong(&shape, &first, &found, &expected, run.report());
    }
    run.check(wrong, |_| Ok(0))?;
    run.finish(args.json)
}

/// Reports energies, locks, lookups and messages.
fn report(
    run: &mut AppRun,
    shape: &GalaxyShape,
    galaxy: &GlobalGalaxy,
    log: &GalaxyLog,
) -> Result<()> {
    let tree = galaxy.tree();
    let attempts = tree.locks().attempts();
    let (acquired, failed) = (run.total(attempts.acquired)?, run.total(attempts.failed)?);
    let ([octants, sums, bodies], requests) = tree.lookups();
    let names = [
        ("hits of cells' parts, %", octants),
        ("hits of cells' sums, %", sums),
        ("hits of bodies, %", bodies),
    ];
    for (name, CacheCounts { hits, misses, .. }) in names {
        let (hits, misses) = (run.total(hits)? as f64, run.total(misses)? as f64);
        if hits + misses > 0.0 {
            run.report().figure(name, 100.0 * hits / (hits + misses));
        }
    }
    let evicted = [octants, sums, bodies].iter().map(|counts| counts.evicted).sum();
    let fetched = [requests.objects, requests.batches, requests.bytes, evicted];
    let names = ["objects fetched", "requests for objects", "bytes fetched", "copies evicted"];
    for (name, count) in names.into_iter().zip(fetched) {
        let count = run.total(count)?;
        run.report().count(name, count);
    }
    let traffic = tree.traffic();
    let messages = run.total(traffic.messages())? as f64;
    let report = run.report();
    report.count("locks acquired", acquired);
    report.count("attempts at locks that failed", failed);
    let evaluations = (shape.bodies * log.len()) as f64;
    report.figure("messages per body and evaluation", messages / evaluations);
    if let Some((_, [kinetic, potential])) = log.last() {
        report.figure("kinetic energy at the end", *kinetic);
        report.figure("potential energy at the end", *potential);
    }
    run.report_traffic(&traffic)
}
