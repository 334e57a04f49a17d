//! The job of `clump app sort`: the launcher's work before the ranks start and after they end.

use crate::job::{own_job, run_own};
use crate::layout::Layout;
use clump_lab::wrong_command::WrongCommand;
use clump_os::process;
use clump_os::scratch::Scratch;
use clump_sort::command::{self, SortArgs};
use clump_sort::output::NewFolders;
use clump_sort::paths;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Starts the ranks of a sort, or, in one of them, sorts.
///
/// # Errors
/// Fails if a path cannot be used, if the job cannot be started, or, in a rank, if the sort fails.
pub fn run(ranks: u32, layout: &Layout, args: &SortArgs) -> anyhow::Result<ExitCode> {
    if clump_engines::started_as_rank() {
        return command::run(args);
    }
    if args.reads_standard_input() && std::io::stdin().is_terminal() {
        return wrong("standard input is a terminal: pipe records into the sort, or name files");
    }
    let mut spec = own_job(ranks, layout)?;
    // Rank 0 makes the folders and reads streams. On another machine it has other paths.
    let lead = spec.machines.first();
    if lead.is_none_or(|first| first.name == process::host_name())
        && let Err(error) = paths::check(args)
    {
        return wrong(format!("{error:#}"));
    }
    if args.output.is_some() {
        let made = NewFolders::of(args.folders());
        let ended = run_own(spec);
        made.remove_empty();
        return ended;
    }
    if !spec.machines.is_empty() {
        return wrong("--size on several machines needs a folder that all of them reach: --output");
    }
    // Between the job's start and end, the launcher receives signals itself.
    let folder = Scratch::new(&std::env::temp_dir(), "sort")?;
    spec.args.extend(["--output".into(), folder.path().join("sorted").into()]);
    let made = NewFolders::of(args.folders());
    let ended = run_own(spec);
    made.remove_empty();
    ended
}

fn wrong(why: impl Into<String>) -> anyhow::Result<ExitCode> {
    Err(WrongCommand::new(why).into())
}
