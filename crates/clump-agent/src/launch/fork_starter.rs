//! Agents on this machine: this program again, as a child.

use super::agent_starter::{AgentProcess, AgentRequest, AgentStarter, StartedAgent};
use crate::control_streams::ControlStreams;
use crate::keeper::AGENT_COMMAND;
use anyhow::Context;
use clump_os::process::{self, Child, Input, Program};
use clump_os::socket;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};

/// Starts agents by fork and exec; the control stream is an inherited socket.
#[derive(Debug, Default)]
pub(super) struct ForkStarter;

impl AgentStarter for ForkStarter {
    fn start(&mut self, request: &AgentRequest<'_>) -> anyhow::Result<StartedAgent> {
        let input = if request.reads_input { Input::Inherited } else { Input::Empty };
        let node = request.node;
        let (child, ours) = start_self(input, request.without, false)
            .with_context(|| format!("the agent of node {node} cannot be started"))?;
        let streams = ControlStreams::of_socket(ours)?;
        Ok(StartedAgent { process: AgentProcess::Child(child), streams })
    }
}

/// Returns the words that start this program again, with its end of the stream under `number`.
pub(super) fn words(number: &str) -> Vec<OsString> {
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
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
