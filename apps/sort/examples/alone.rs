//! gensort, sort and valsort as a small program of their own.
//!
//! `clump run -n 4 alone sort -i records -o sorted` sorts with processes as ranks,
//! `alone sort --threads 4 -i records -o sorted` with threads of this process, without a launcher.

use clap::{Parser, Subcommand};
use clump_sort::{command, gensort, valsort};
use std::process::ExitCode;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Gensort(gensort::GensortArgs),
    Valsort(valsort::ValsortArgs),
    Sort {
        /// Ranks as threads of this process [default: the ranks of the clump job]
        #[arg(long)]
        threads: Option<usize>,
        #[command(flatten)]
        args: command::SortArgs,
    },
}

fn main() -> ExitCode {
    run(Line::parse().what).unwrap_or_else(|error| {
        eprintln!("alone: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(what: What) -> anyhow::Result<ExitCode> {
    match what {
        What::Gensort(args) => gensort::run(&args).map(|()| ExitCode::SUCCESS),
        What::Valsort(args) => valsort::run(&args),
        What::Sort { threads: Some(nranks), args } => command::run_threads(nranks, &args),
        What::Sort { threads: None, args } => command::run(&args),
    }
}
