//! Agents on this machine: this program again, as a child.

use super::agent_starter::{AgentProcess, ProcessEnds};
use crate::keeper::{self, AGENT_COMMAND};
use anyhow::Context;
use clump_os::process::{self, Child, Input, Program};
use clump_os::socket;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};

/// Starts the agent of `node` by fork and exec, without some of this process's variables. If it
/// `reads_input`, it gets the user's standard input, which its first rank reads.
///
/// # Errors
/// Fails if the process cannot be started.
pub(super) fn start_agent(
    node: u32,
    reads_input: bool,
    without: &[OsString],
) -> anyhow::Result<ProcessEnds> {
    let input = if reads_input { Input::Inherited } else { Input::Empty };
    let (child, stream) = start_self(input, without, false)
        .with_context(|| format!("the agent of node {node} cannot be started"))?;
    Ok(ProcessEnds { process: AgentProcess::Child(child), stream })
}

/// Returns the words that start this program again, with its end of the stream under `number`.
pub(super) fn words(number: &str) -> Vec<OsString> {
    let own = keeper::own_path();
    let rest = [AGENT_COMMAND, "--control", number].map(OsString::from);
    [own.into()].into_iter().chain(rest).collect()
}

/// Starts this program again, with the other end of a stream. If `bound`, it dies with this
/// process.
pub(super) fn start_self(
    input: Input,
    without: &[OsString],
    bound: bool,
) -> anyhow::Result<(Child, OwnedFd)> {
    let (ours, theirs) = socket::stream_pair()?;
    let number = theirs.as_raw_fd().to_string();
    let mut words = words(&number).into_iter();
    let mut program = Program::new(words.next().unwrap_or_default(), words);
    program.without = without.to_vec();
    program.passes = Some(theirs);
    (program.input, program.dies_with_starter) = (input, bound);
    Ok((process::start(&program)?, ours))
}
