//! `clump lab trace`: options, files.

use crate::schema::InstrumentReport;
use crate::traces::{Timeline, TraceSummary, line_file, perfetto, summary_tables};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Options of `clump lab trace`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "The folder has a trace of each rank. One of several machines has theirs copied together.\n\n\
    Examples:\n  \
    clump run -n 4 --trace t ./program\n  \
    clump lab trace t                             times, messages, the longest waits\n  \
    clump lab trace t --perfetto t.perfetto       for ui.perfetto.dev"
)]
pub struct TraceArgs {
    /// The folder that `clump run --trace` wrote
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Write all events as a trace of Perfetto
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a trace is missing or damaged, or if the file cannot be written.
pub fn run(args: &TraceArgs) -> Result<u8> {
    let summary = TraceSummary::of(&mut Timeline::open(&args.folder)?)?;
    if let Some(path) = &args.perfetto {
        let writing = || format!("writing {}", path.display());
        let file = File::create(path).with_context(writing)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        perfetto::write(&mut Timeline::open(&args.folder)?, &mut out).with_context(writing)?;
        out.flush().with_context(writing)?;
    }
    let report = summary_tables::report(&summary)?;
    let lines = line_file::of_folder(&args.folder);
    crate::render::show(&InstrumentReport { lines, ..report }, args.json)?;
    Ok(0)
}
