//! `clump lab logp`: options, the two ranks, what is printed.

use crate::launch;
use crate::logp;
use crate::pair::live::{Issuer, Server, other_of};
use crate::plan::Plan;
use crate::report::Report;
use crate::steps;
use crate::svg;
use crate::text::{Extent, Text};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// Options of `clump lab logp`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Fewer points, in about a second.
    #[arg(long)]
    pub quick: bool,
    /// Only the table and the comparisons.
    #[arg(long)]
    pub table: bool,
    /// Everything measured, as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Draw the signature into this SVG file too.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Runs the command; the exit code. Started by hand, it starts itself again as a job of two ranks.
pub fn run(args: &Args) -> Result<u8> {
    if !launch::is_rank() {
        return launch::as_job(2);
    }
    if let Some(report) = rank_main(args)? {
        show(&report, args)?;
    }
    Ok(0)
}

/// What a rank of the job does. Rank 0 measures and gets the report, the others `None`.
pub fn rank_main(args: &Args) -> Result<Option<Report>> {
    let cl = clump::init()?;
    ensure!(cl.nranks() == 2, "`clump lab logp` is a job of two ranks, not of {}", cl.nranks());
    let rank = cl.rank();
    let exchange = |name| other_of(&cl.exchange(name)?, rank);
    let report = if rank == 0 {
        let mut issuer = Issuer::open(&cl, exchange)?;
        let plan = if args.quick { Plan::quick() } else { Plan::full() };
        let breakdown = steps::measure()?;
        let report = logp::run(&mut issuer, &plan, breakdown)?;
        issuer.finish()?;
        Some(report)
    } else {
        Server::open(&cl, exchange)?.serve()?;
        None
    };
    cl.barrier()?;
    Ok(report)
}

/// Prints the report as the options say.
pub fn show(report: &Report, args: &Args) -> Result<()> {
    if let Some(file) = &args.svg {
        let drawing = svg::signature(&report.measurement.signature, &report.estimate);
        std::fs::write(file, drawing).with_context(|| format!("writing {}", file.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        print!("{}", Text(report, if args.table { Extent::Table } else { Extent::Everything }));
    }
    Ok(())
}
