//! gensort, sort and valsort without a launcher: the ranks are threads of this process.
//!
//! `cargo run --release -p clump-sort --example threads -- sort -n 4 -i records -o sorted`

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
        /// Number of ranks
        #[arg(short, default_value_t = 4)]
        nranks: usize,
        #[command(flatten)]
        args: command::SortArgs,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Line::parse().what {
        What::Gensort(args) => gensort::run(&args).map(|()| ExitCode::SUCCESS),
        What::Valsort(args) => valsort::run(&args),
        What::Sort { nranks, args } => command::run_threads(nranks, &args),
    }
}
