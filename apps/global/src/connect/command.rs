//! `clump app connect`.

use crate::connect::graph::{EdgeSource, Lattice};
use crate::connect::local::LocalComponents;
use crate::connect::merge::merge;
use crate::connect::necessary::messages;
use crate::connect::serial::labels;
use crate::run::{AppRun, Manner};
use anyhow::Result;
use clap::Args;
use clump::pgas::{Layout, Pgas, Spread};
use clump_app_frame::InputSize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `clump app connect`.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// Size of the input. In 3 dimensions: 80^3 vertices, 160^3, or 80^3 for each rank, and 25 % of
    /// the edges. In 2 dimensions: 512^2 and 30 %, 2000^2 and 30 %, or 800^2 for each rank and 40 %
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Dimensions of the lattice: 3 for ci and paper, 2 to measure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3))]
    pub dims: Option<u32>,
    /// Vertices in each direction, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub side: Option<u32>,
    /// Share of the lattice's edges that exist, in percent, instead of the size's
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub density: Option<u32>,
    /// Edges of a file instead of a lattice: two numbers of vertices in each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dims", "side", "density"])]
    pub edges: Option<PathBuf>,
    /// Manner of reads and writes: blocking reads are made one by one, too
    #[arg(long, value_enum, default_value = "aggregated")]
    pub manner: Manner,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Seed of the lattices.
const SEED: u64 = 0xc0ec7;

impl ConnectArgs {
    fn lattice(&self, ranks: u64) -> Lattice {
        let dims = self.dims.unwrap_or(self.size.of(3, 2, 3));
        let (side, along, percent) = match dims {
            2 => self.size.of((512, 512, 30), (2000, 2000, 30), (800, 800 * ranks, 40)),
            _ => self.size.of((80, 80, 25), (160, 160, 25), (80, 80 * ranks, 25)),
        };
        let (side, along) = self.side.map_or((side, along), |side| (side.into(), side.into()));
        let sides = if dims == 2 { [side, along, 1] } else { [side, side, along] };
        Lattice { sides, percent: self.density.map_or(percent, u64::from), seed: SEED }
    }
}

/// Finds components on all ranks of the job that this process belongs to, and checks them.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if the file cannot be read.
pub fn run(args: &ConnectArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "connect", args.size, node_of);
    let source = match &args.edges {
        Some(path) => EdgeSource::read(path)?,
        None => EdgeSource::Lattice(args.lattice(cl.nranks() as u64)),
    };
    run.report().count("vertices", source.vertices());
    run.report().choice("manner", args.manner.name());
    if let EdgeSource::Lattice(lattice) = &source {
        run.report().count("share of edges, %", lattice.percent);
        run.report().choice("lattice", if lattice.sides[2] == 1 { "2-D" } else { "3-D" });
    } else {
        run.report().choice("lattice", "none: edges of a file");
    }
    let parents = gas.spread::<u64>(source.vertices() as usize, Layout::Block)?;
    let local = parents.local();
    let first = (cl.rank() * parents.layout().block()) as u64;
    let own = first..first + local.len() as u64;
    let mut traffic = run.traffic();
    let mut components =
        run.phase("local components", || Ok(LocalComponents::find(&source, own.clone())))?;
    run.phase("labels", || {
        for vertex in own.clone() {
            local.set((vertex - first) as usize, components.root(vertex))?;
        }
        Ok(())
    })?;
    let single = args.manner != Manner::Aggregated;
    let counts =
        run.phase("merge", || merge(&cl, &parents, &mut components, (&mut traffic, single)))?;
    run.phase("labels of all", || {
        for vertex in own.clone() {
            let root = components.root(vertex);
            local.set((vertex - first) as usize, local.get((root - first) as usize)?)?;
        }
        Ok(gas.all_store_sync()?)
    })?;
    let edges = run.total(counts.edges)?;
    run.report().count("edges between local components", edges);
    run.report().count("rounds", counts.rounds);
    run.report_traffic(&traffic)?;
    let sent = gas.team().all_gather(traffic.messages())?;
    let expected = run.serial(|| labels(&source))?.unwrap_or_default();
    run.check(0, |gas| {
        let block = parents.layout().block() as u64;
        let necessary = messages(&source, block, sent.len() as u64);
        let unlike = sent.iter().zip(&necessary).filter(|(sent, needed)| sent != needed).count();
        Ok(wrong_labels(gas, &parents, &expected)? + unlike as u64)
    })?;
    run.finish(args.json)
}

/// Compares all labels with those of the serial version.
fn wrong_labels(gas: &Pgas, labels: &Spread<u64>, expected: &[u64]) -> Result<u64> {
    let mut wrong = labels.len().abs_diff(expected.len()) as u64;
    for (rank, expected) in expected.chunks(labels.layout().block()).enumerate() {
        let mut found = vec![0; expected.len()];
        if let Some(from) = labels.on(rank) {
            gas.bulk_get(from, &mut found)?;
        }
        wrong += found.iter().zip(expected).filter(|(a, b)| a != b).count() as u64;
    }
    Ok(wrong)
}
