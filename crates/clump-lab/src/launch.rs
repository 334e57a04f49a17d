//! Starting this program again, as a job of ranks.

use anyhow::{Context, Result};
use clump_wire::Security;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// Returns true if this process was started as a rank of a job.
pub fn is_rank() -> bool {
    clump_engines::started_as_rank()
}

/// Returns the path of this program.
///
/// # Errors
/// Fails if the system does not report it.
pub fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program's own file")
}

/// Shape of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobShape {
    /// Ranks in all.
    pub ranks: usize,
    /// Number of virtual nodes that they are spread over.
    pub nodes: usize,
    /// Protection of packets between nodes.
    pub security: Security,
    /// True if every node gets a network namespace of its own.
    pub netns: bool,
}

impl JobShape {
    /// Returns the shape of a job on one node.
    pub fn node(ranks: usize) -> Self {
        Self { ranks, nodes: 1, security: Security::default(), netns: false }
    }

    /// Returns the options of `clump run`. Ranks get cores of their own where that is possible for
    /// the two that measure, so that the scheduler does not move them; `crowd` are those that sleep
    /// meanwhile.
    fn options(self, cores: usize, crowd: usize) -> Vec<String> {
        let mut options = vec!["-n".to_owned(), self.ranks.to_string()];
        if self.ranks.saturating_sub(crowd) <= cores {
            options.extend(["--bind", "cores"].map(String::from));
        }
        if self.nodes > 1 {
            options.extend(["--nodes".to_owned(), self.nodes.to_string()]);
            options.extend(["--security".to_owned(), self.security.to_string()]);
            if self.netns {
                options.push("--netns".to_owned());
            }
        }
        options
    }
}

/// Returns the command `clump run` of this program; `onlookers` are ranks that sleep through the
/// measurement.
///
/// # Errors
/// Fails as [`own_program`] does.
pub fn job(shape: JobShape, onlookers: usize) -> Result<Command> {
    job_with(shape, onlookers, &[])
}

/// Returns the command as [`job`] does, with further options of `clump run`.
///
/// # Errors
/// Fails as [`own_program`] does.
pub fn job_with(shape: JobShape, onlookers: usize, options: &[&str]) -> Result<Command> {
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.arg("run").args(shape.options(clump_os::topology::usable_cores(), onlookers));
    command.args(options).arg("--").arg(program);
    Ok(command)
}

/// Returns the exit code of a job; one that a signal ended has none, and fails like any other.
pub fn code_of(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_jobs_of_several_nodes_speak_of_them() {
        let text = |shape: JobShape, onlookers| shape.options(2, onlookers).join(" ");
        assert_eq!(text(JobShape::node(2), 0), "-n 2 --bind cores");
        assert_eq!(text(JobShape::node(16), 0), "-n 16");
        let four = JobShape { ranks: 4, nodes: 2, security: Security::Crc, netns: true };
        assert_eq!(text(four, 2), "-n 4 --bind cores --nodes 2 --security crc --netns");
        assert_eq!(text(JobShape { netns: false, ..four }, 0), "-n 4 --nodes 2 --security crc");
    }
}
