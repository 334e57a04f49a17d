//! Runs a command of this program on several ranks: the program starts itself as a job.

use crate::layout::Layout;
use clump_agent::{Display, JobOutcome, JobSpec};
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
    let stats = clump_boot::Config::load()?.stats;
    let args = std::env::args_os().skip(1).collect();
    let outcome =
        launch_self((ranks, layout), args, &Display { stats, brief: true, ..Display::default() })?;
    Ok(ExitCode::from(outcome.code))
}

/// Starts a job of this program with other arguments.
///
/// # Errors
/// Fails if the job cannot be started.
pub fn launch_self(
    (ranks, layout): (u32, &Layout),
    args: Vec<std::ffi::OsString>,
    display: &Display,
) -> anyhow::Result<JobOutcome> {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut spec = JobSpec::new(program, args, ranks);
    layout.apply(&mut spec)?;
    // Built-in commands draw progress on rank 0.
    spec.direct_errors = std::io::stderr().is_terminal();
    launch_here(spec, display)
}

/// Starts a job in this folder, with this process's input.
pub(crate) fn launch_here(mut spec: JobSpec, display: &Display) -> anyhow::Result<JobOutcome> {
    surroundings(&mut spec);
    let elsewhere = !spec.machines.is_empty();
    spec.direct_errors &= !elsewhere && !display.label && display.folder.is_none();
    spec.stats = display.stats;
    clump_agent::launch(&spec, display)
}

/// Sets the fields that only the launcher's process knows.
fn surroundings(spec: &mut JobSpec) {
    let is_terminal = std::io::stdin().is_terminal();
    spec.keyboard &= is_terminal;
    // A rank that reads a terminal from another process group would be stopped by the kernel.
    spec.input = !is_terminal || spec.keyboard;
    spec.terminal = std::io::stderr().is_terminal();
    spec.directory = std::env::current_dir().ok().map(Into::into);
}
