//! Runs a command of this program on several ranks: the program starts itself as a job.

use crate::layout::Layout;
use clump_agent::{Display, JobOutcome, JobSpec};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Exit code when clump itself failed.
pub const OWN_FAILURE: u8 = 125;

/// Runs `rank_main` on `ranks` ranks: in a process that is a rank, calls it; otherwise starts a
/// job of this program with the arguments it was called with, whose ranks reach this function
/// again.
///
/// # Errors
/// In a rank, fails as `rank_main` does; in the launcher, if the job cannot be started.
pub fn in_job(
    ranks: u32,
    layout: &Layout,
    rank_main: impl FnOnce() -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    if clump_engines::started_as_rank() {
        return rank_main();
    }
    run_own(own_job(ranks, layout)?)
}

/// Describes the job of this command: this program with the arguments it was called with.
///
/// # Errors
/// Fails if the layout makes no sense.
pub(crate) fn own_job(ranks: u32, layout: &Layout) -> anyhow::Result<JobSpec> {
    of_self((ranks, layout), std::env::args_os().skip(1).collect())
}

/// Runs the job of this command, and returns its exit code.
///
/// # Errors
/// Fails if the job cannot be started.
pub(crate) fn run_own(spec: JobSpec) -> anyhow::Result<ExitCode> {
    let stats = spec.stats || clump_boot::Config::load()?.stats;
    let outcome = launch_here(spec, &Display { stats, brief: true, ..Display::default() })?;
    Ok(ExitCode::from(outcome.code))
}

/// Starts a job of this program with other arguments.
///
/// # Errors
/// Fails if the job cannot be started.
pub fn launch_self(
    ranks: (u32, &Layout),
    args: Vec<OsString>,
    display: &Display,
) -> anyhow::Result<JobOutcome> {
    launch_here(of_self(ranks, args)?, display)
}

/// Describes a job of this program.
fn of_self((ranks, layout): (u32, &Layout), args: Vec<OsString>) -> anyhow::Result<JobSpec> {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut spec = JobSpec::new(program, args, ranks);
    layout.apply(&mut spec)?;
    // Built-in commands draw progress on rank 0.
    spec.direct_errors = std::io::stderr().is_terminal();
    Ok(spec)
}

/// Starts a job in this folder, with this process's input.
pub(crate) fn launch_here(mut spec: JobSpec, display: &Display) -> anyhow::Result<JobOutcome> {
    surroundings(&mut spec);
    let elsewhere = !spec.machines.is_empty();
    spec.direct_errors &= !elsewhere && !display.label && display.folder.is_none();
    spec.stats = display.stats;
    clump_agent::launch(&spec, display)
}

/// Sets the fields that depend on the launcher's process.
fn surroundings(spec: &mut JobSpec) {
    let is_terminal = std::io::stdin().is_terminal();
    spec.keyboard &= is_terminal;
    // A rank that reads a terminal from another process group would be stopped by the kernel.
    spec.input = !is_terminal || spec.keyboard;
    spec.terminal = std::io::stderr().is_terminal();
    spec.directory = std::env::current_dir().ok().map(Into::into);
}
