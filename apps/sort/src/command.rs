//! The `sort` command.

use crate::bar::Bar;
use crate::exchange::{Exchange, GivenUp};
use crate::intake;
use crate::job::{Progress, Silent, Spec, sort};
use crate::over_clump::ClumpRank;
use crate::report::SortReport;
use crate::sized_run::{SizedRun, check};
use crate::threads;
use anyhow::{Context, Result};
use clap::Args;
use clump_app_frame::InputSize;
use clump_app_frame::size::parse_bytes;
use clump_os::console;
use clump_os::printable::printable_lines;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Memory of all ranks together, in bytes, unless the user names another amount.
const MEMORY: u64 = 256 << 20;

/// Sort 100-byte records by their first 10 bytes, from disk to disk, on all ranks of the job.
///
/// Each rank reads a part of the input, sends every record to the rank that owns its key, and
/// writes one sorted file; the manifest, written last, lists them in order. Data that does not fit
/// in --memory is sorted in two passes through runs on the disk. Equal keys come out in no
/// particular order.
#[derive(Debug, Clone, Args)]
pub struct SortArgs {
    /// Files of records, taken as one sequence; pipes, FIFOs and '-' (standard input) are read to
    /// their end and copied to --scratch first
    #[arg(short, long, required_unless_present = "size", conflicts_with = "size", num_args = 1..,
          value_name = "FILE")]
    pub input: Vec<PathBuf>,
    /// Records that are made and sorted, and the result checked as valsort does: 200,000 in 4M of
    /// memory, 10 million in 256M, or 32 million in 256M; more memory where the ranks need it
    #[arg(long, value_enum)]
    pub size: Option<InputSize>,
    /// Folder of the sorted files and their manifest [default with --size: a temporary one]
    #[arg(short, long, required_unless_present = "size", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Folder of the runs [default: the output folder]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Memory for records and buffers of all ranks together (4M, 256M, 1.5G) [default: 256M, or
    /// the size's]
    #[arg(short, long, value_parser = parse_bytes, value_name = "BYTES")]
    pub memory: Option<u64>,
    /// Replace an older output
    #[arg(long)]
    pub force: bool,
    /// Write runs even where everything fits in memory
    #[arg(long)]
    pub two_pass: bool,
    /// Transfer through the page cache instead of bypassing it
    #[arg(long)]
    pub buffered: bool,
    /// Measure the bare disk afterwards and print the ratio
    #[arg(long)]
    pub measure_disk: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

impl SortArgs {
    /// Returns the folders that it writes to.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.output, &self.scratch].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Returns true if standard input is one of the inputs.
    pub fn reads_standard_input(&self) -> bool {
        self.input.iter().any(|path| intake::is_standard_input(path))
    }

    fn spec(&self) -> Result<Spec> {
        let run = self.size.map(SizedRun::of);
        let output = self.output.clone().context(
            "these ranks have no temporary folder in common: name a folder that all reach with --output",
        )?;
        Ok(Spec {
            inputs: self.input.clone(),
            output,
            scratch: self.scratch.clone(),
            made: run.map(|run| run.records),
            memory: self.memory.or(run.map(|run| run.memory)).unwrap_or(MEMORY),
            memory_grows: self.memory.is_none() && run.is_some(),
            force: self.force,
            // A size stands for data that does not fit, whatever the ranks need.
            two_pass: self.two_pass || run.is_some(),
            direct: !self.buffered,
            measure_disk: self.measure_disk,
        })
    }
}

/// Sorts over `exchange` and prints the summary on rank 0. Rank 0 also reports the errors of other
/// ranks, by rank.
///
/// # Errors
/// Fails if the sort does, except on ranks that only follow another rank's error.
pub fn run_on(exchange: &mut dyn Exchange, args: &SortArgs) -> Result<ExitCode> {
    let lead = exchange.rank() == 0;
    let spec = args.spec()?;
    let mut bar: Box<dyn Progress> =
        if lead { Box::new(Bar::new(exchange.nranks(), args.json)) } else { Box::new(Silent) };
    let sorted = sort(exchange, &spec, bar.as_mut());
    drop(bar);
    match (sorted, args.size) {
        (Ok(report), Some(size)) if lead => {
            let nodes = exchange.nnodes();
            check(&spec.output, size)?.report(&report, size, nodes).finish(true, args.json)
        }
        (Ok(report), None) if lead => print(&report, args.json).map(|()| ExitCode::SUCCESS),
        (Ok(_), _) => Ok(ExitCode::SUCCESS),
        (Err(error), _) if !lead && error.is::<GivenUp>() => Ok(ExitCode::FAILURE),
        (Err(error), _) => Err(error),
    }
}

/// Sorts on all ranks of the job that this process belongs to.
///
/// # Errors
/// Fails if this rank cannot join the job, or if the sort does.
pub fn run(args: &SortArgs) -> Result<ExitCode> {
    let clump = clump::init()?;
    // An error known to all ranks ends all of them together: no rank leaves while another still
    // reads the verdict, and rank 0 prints first, because the job ends with the first rank that
    // fails.
    match run_on(&mut ClumpRank::open(&clump)?, args) {
        Ok(code) => clump.barrier().map(|()| code).map_err(Into::into),
        Err(error) if error.is::<GivenUp>() => {
            console::err(&format!("clump: {}", printable_lines(&format!("{error:#}"))));
            // Fails early if another rank's exit is seen first, which is expected.
            let _ = clump.barrier();
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// Sorts with `nranks` threads of this process, without a launcher.
///
/// # Errors
/// Fails if the sort does.
pub fn run_threads(nranks: usize, args: &SortArgs) -> Result<ExitCode> {
    let mut codes = threads::run(nranks, |mut rank| run_on(&mut rank, args));
    codes.swap_remove(0)
}

fn print(report: &SortReport, json: bool) -> Result<()> {
    if json {
        let text = serde_json::to_string(report).context("writing JSON")?;
        console::out(&format!("{text}\n"))?;
    } else {
        console::out(&format!("{report}\n"))?;
    }
    Ok(())
}
