//! Starting this program again, as a job of ranks.

use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// Whether this process was started as a rank of a job.
pub fn is_rank() -> bool {
    clump_boot::boot::started_as_rank()
}

/// This program's own file.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program's own file")
}

/// `clump run` of this program with so many ranks: on cores of their own where there are enough, so
/// that the scheduler does not move them during a measurement.
pub fn job(ranks: usize) -> Result<Command> {
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.args(["run", "-n", &ranks.to_string()]);
    if ranks <= clump_os::topology::usable_cores() {
        command.args(["--bind", "cores"]);
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// Runs this very command line as a job; the job's exit code.
pub fn as_job(ranks: usize) -> Result<u8> {
    let mut command = job(ranks)?;
    command.args(std::env::args_os().skip(1));
    let status = command.status().context("starting a job of this program")?;
    // A job ended by a signal has no code: report it like any other failure.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
