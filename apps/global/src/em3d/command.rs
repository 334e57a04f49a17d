//! `clump app em3d`.

use crate::em3d::blocks::{BlockMap, RankLayout};
use crate::em3d::by_reads::ReadWaves;
use crate::em3d::by_stores::StoreWaves;
use crate::em3d::graph::{FIELDS, Graph};
use crate::em3d::serial::SerialWaves;
use crate::em3d::value_way::ValueWay;
use crate::run::AppRun;
use crate::traffic::Traffic;
use anyhow::Result;
use clap::Args;
use clump::pgas::{Layout, Pgas, Spread};
use clump_app_frame::InputSize;
use std::process::ExitCode;

/// Options of `clump app em3d`.
#[derive(Debug, Args)]
pub struct Em3dArgs {
    /// Size of the input: 4,000 graph nodes and 5 steps, 80,000 and 10, or 80,000 and 100
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Nodes of the graph, half of each field, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1 << 30))]
    pub graph_nodes: Option<u32>,
    /// Steps, instead of the size's
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Edges of each node
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub degree: u32,
    /// Edges to nodes of other ranks, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote: u32,
    /// Longest distance of the blocks of two ranks that have edges, in blocks and each direction
    #[arg(long, value_name = "BLOCKS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub span: u32,
    /// Way of values
    #[arg(long, value_enum, default_value = "write")]
    pub manner: ValueWay,
    /// Layout of the ranks of a node over blocks of space
    #[arg(long, value_enum, default_value = "good")]
    pub layout: RankLayout,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Lets waves travel on all ranks of the job that this process belongs to, and checks them.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &Em3dArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of: Vec<usize> = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let map = BlockMap::new(&node_of, args.layout);
    let mut run = AppRun::begin(&gas, "em3d", args.size, node_of);
    let nodes = args.graph_nodes.unwrap_or(args.size.of(4000, 80_000, 80_000));
    let steps = args.steps.unwrap_or(args.size.of(5, 10, 100));
    let space = (map.grid(), args.span as usize);
    let graph = Graph::new(nodes as usize, args.degree as usize, args.remote.into(), space);
    run.report().count("graph nodes", nodes.into());
    run.report().count("steps", steps);
    run.report().count("degree", args.degree.into());
    run.report().count("remote edges, %", args.remote.into());
    run.report().count("span, blocks", args.span.into());
    run.report().choice("layout", args.layout.name());
    let by_stores = args.manner == ValueWay::Write;
    run.report().choice("manner", args.manner.name());

    let values = values(&gas, &graph, map.block(cl.rank()))?;
    let mut traffic = run.traffic();
    if by_stores {
        let mut waves = run.phase("inspector", || StoreWaves::new(&cl, &gas, &graph, &map))?;
        run.phase("steps", || waves.advance(steps, &mut traffic))?;
        for (spread, values) in values.iter().zip(waves.values()) {
            let local = spread.local();
            values.iter().enumerate().try_for_each(|(at, &value)| local.set(at, value))?;
        }
    } else {
        let waves = run.phase("graph", || Ok(ReadWaves::new(&graph, &map, &values)))?;
        run.phase("steps", || waves.advance(steps, &mut traffic))?;
    }
    gas.all_store_sync()?;
    run.report_traffic(&traffic)?;
    check(&mut run, args.manner, (&graph, &map), steps, (&values, &traffic))?;
    run.finish(args.json)
}

/// Spreads the values of both fields: for each rank as many as its largest part has.
fn values(gas: &Pgas, graph: &Graph, block: usize) -> Result<[Spread<f64>; 2]> {
    let len = graph.largest_part() * gas.nranks();
    let spread = [gas.spread(len, Layout::Block)?, gas.spread(len, Layout::Block)?];
    for field in FIELDS {
        let local = spread[field as usize].local();
        for (at, node) in graph.part(block).enumerate() {
            local.set(at, graph.first_value(field, node))?;
        }
    }
    Ok(spread)
}

/// Compares values with those of the serial version, bit for bit, and messages with those that the
/// graph makes necessary.
fn check(
    run: &mut AppRun,
    way: ValueWay,
    (graph, map): (&Graph, &BlockMap),
    steps: u64,
    (values, traffic): (&[Spread<f64>; 2], &Traffic),
) -> Result<()> {
    let sent = run.gas().team().all_gather(traffic.messages())?;
    let mut serial = (run.gas().rank() == 0).then(|| SerialWaves::new(graph));
    run.serial(|| serial.as_mut().map(|waves| waves.advance(steps)))?;
    run.check(0, |gas| {
        let Some(serial) = &serial else { return Ok(0) };
        let mut wrong = 0;
        for (spread, expected) in values.iter().zip(serial.values()) {
            for block in 0..graph.blocks() {
                let mut found = vec![0.0; graph.part(block).len()];
                if let Some(from) = spread.on(map.rank(block)) {
                    gas.bulk_get(from, &mut found)?;
                }
                let both = found.iter().zip(&expected[graph.part(block)]);
                wrong += both.filter(|(a, b)| a.to_bits() != b.to_bits()).count() as u64;
            }
        }
        let necessary = serial.messages(graph, map, way);
        let both = sent.iter().zip(necessary.iter().map(|each| each * steps));
        wrong += both.filter(|(sent, necessary)| *sent != necessary).count() as u64;
        Ok(wrong)
    })?;
    Ok(())
}
