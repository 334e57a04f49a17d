//! The laboratory alone, without the applications of `clump`, which take long to build: `lab trace
//! DIR`, `lab predict DIR --knob L=+5us`. Commands that start jobs need `clump` itself.

use clap::Parser;
use std::process::ExitCode;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: clump_lab::Command,
}

fn main() -> anyhow::Result<ExitCode> {
    Ok(clump_lab::main(&Line::parse().command)?.into())
}
