//! `clump lab applications`: options, and the run.

use crate::applications::task::{Task, TaskSize};
use crate::applications::{self, TaskPlan};
use crate::compare::Venue;
use crate::pair::Scope;
use anyhow::Result;
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use std::path::Path;

/// Options of `clump lab applications`.
#[derive(Debug, Clone, clap::Args)]
pub struct ApplicationsArgs {
    /// Tasks, with commas between them; all of them if none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Task>,
    /// Size of the work
    #[arg(long, value_enum, default_value = "measure")]
    pub size: TaskSize,
    /// Through shared memory, or between two nodes (peers: over TCP)
    #[arg(long, value_enum, default_value = "shm")]
    pub scope: Scope,
    /// Protection of clump's packets between nodes (aead or crc); peers have none
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Ranks of each job
    #[arg(short = 'n', long, value_name = "N", default_value = "2", value_parser = crate::positive::positive())]
    pub ranks: usize,
    /// Turns of every implementation; figures are medians over them
    #[arg(long, default_value = "3", value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, its answer is wrong, or the results cannot be written.
pub fn run(args: &ApplicationsArgs) -> Result<u8> {
    crate::scratch_run::in_scratch("applications", |folder| measure(args, folder))
}

fn measure(args: &ApplicationsArgs, folder: &Path) -> Result<()> {
    let venue = Venue { scope: args.scope, security: args.security, netns: false };
    let tasks = Task::chosen(&args.only);
    let (size, ranks, rounds) = (args.size, args.ranks, args.rounds);
    let plan = TaskPlan { tasks, size, venue, ranks, rounds };
    let watch = LineWatch::begin();
    let (times, missing) = applications::measure(&plan, folder, console::err)?;
    crate::render::show(&applications::report(&plan, &times, &missing)?.watched(watch), args.json)
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn tasks_are_named_with_commas_and_without_a_name_all_run() {
        let args = |words: &[&str]| match parse(words) {
            Command::Applications(args) => args,
            other => panic!("{other:?}"),
        };
        let some = args(&["lab", "applications", "--only", "radb,fft3d", "--size", "ci"]);
        assert_eq!((some.only, some.size), (vec![Task::Radb, Task::Fft3d], TaskSize::Ci));
        assert_eq!(Task::chosen(&args(&["lab", "applications"]).only).len(), 4);
    }
}
