//! Ways to start agents: the line between what is decided and how a process comes to be.
//!
//! - The launcher decides which node runs where ([`NodePlan`], `JobSpec`) and everything after.
//! - An [`AgentStarter`] brings an agent to its machine and connects two streams of bytes with it:
//!   nothing else has to pass between the two machines, in particular no descriptor.
//! - The agent reads the key of the job, then its job, from its stream, and starts ranks.
//!
//! The key never is an argument, a variable or a file. An agent whose stream ends, ends its ranks.
//! So a starter that runs a client (a remote shell, a resource manager's) has to hand on standard
//! input and output, and may itself be killed at any time.

use crate::spec::NodePlan;
use clump_os::process::{self, Child, Exit};
use clump_os::signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A way to start agents and to connect their control streams.
pub(super) trait AgentStarter {
    /// Starts the agent of a node.
    ///
    /// # Errors
    /// Fails if it cannot be started; that it cannot be reached later is the end of its streams.
    fn start(&mut self, request: &AgentRequest<'_>) -> anyhow::Result<StartedAgent>;
}

/// The agent that is wanted.
#[derive(Debug)]
pub(super) struct AgentRequest<'a> {
    /// Its node, and where that lies.
    pub(super) plan: &'a NodePlan,
    /// True if it gets the user's standard input, which its first rank reads.
    pub(super) reads_input: bool,
    /// Variables of the launcher's environment that it must not have.
    pub(super) without: &'a [OsString],
}

/// An agent that has been started, or is being started: its streams may not lead anywhere yet.
#[derive(Debug)]
pub(super) struct StartedAgent {
    /// The process of this machine that stands for it.
    pub(super) process: AgentProcess,
    /// The streams of frames.
    pub(super) streams: ControlStreams,
}

/// A process of this machine whose end is the agent's: the agent itself, or the client that
/// reaches it.
#[derive(Debug)]
pub(super) struct AgentProcess(Child);

impl AgentProcess {
    pub(super) fn new(child: Child) -> Self {
        Self(child)
    }

    /// Returns its number, under which its end is reported ([`process::changed`]).
    pub(super) fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Returns a descriptor that becomes readable at its end.
    pub(super) fn end(&self) -> &OwnedFd {
        &self.0.pidfd
    }

    /// Kills it. Its streams end then, so an agent elsewhere ends as well.
    pub(super) fn kill(&self) {
        let _ = process::signal_by_fd(&self.0.pidfd, signal::KILL);
    }

    /// Describes its end, as follows "the agent"; also the signal that killed it, if one did.
    pub(super) fn describe(exit: Exit) -> (String, Option<u8>) {
        match exit {
            Exit::Code(code) => (format!("exited with code {code}"), None),
            Exit::Signal(n) => {
                let text = format!("was killed by signal {n} {}", signal::name(n));
                (text.trim_end().into(), Some(n))
            }
        }
    }
}

/// Frames from an agent and to it: two descriptors, which may be those of one socket.
#[derive(Debug)]
pub(super) struct ControlStreams {
    pub(super) from_agent: File,
    /// None once it has been closed.
    to_agent: Option<Box<dyn AgentWriter>>,
}

/// Descriptor that leads to an agent. A socket is written by `sendto`: where a filter of system
/// calls refuses that, packets cannot be sent either, and the job ends at once.
pub(super) trait AgentWriter: Write + AsFd + std::fmt::Debug {
    /// Ends the stream where dropping the descriptor does not.
    fn close(&self) {}
}

impl AgentWriter for UnixStream {
    fn close(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl AgentWriter for File {}

impl ControlStreams {
    /// Makes streams of two descriptors.
    pub(super) fn new(from_agent: OwnedFd, to_agent: Box<dyn AgentWriter>) -> Self {
        Self { from_agent: from_agent.into(), to_agent: Some(to_agent) }
    }

    /// Makes streams of one socket.
    ///
    /// # Errors
    /// Fails if no descriptor is left for the second stream.
    pub(super) fn of_socket(socket: OwnedFd) -> std::io::Result<Self> {
        let to_agent = UnixStream::from(socket.try_clone()?);
        Ok(Self::new(socket, Box::new(to_agent)))
    }

    /// Makes reads and writes return at once.
    ///
    /// # Errors
    /// Fails if a descriptor cannot be changed.
    pub(super) fn set_nonblocking(&self) -> std::io::Result<()> {
        let to_agent = self.to_agent.as_ref().map(|stream| stream.as_fd());
        for stream in to_agent.into_iter().chain([self.from_agent.as_fd()]) {
            UnixStream::from(stream.try_clone_to_owned()?).set_nonblocking(true)?;
        }
        Ok(())
    }

    /// Ends the stream to the agent, which ends its ranks then.
    pub(super) fn close_to_agent(&mut self) {
        if let Some(stream) = self.to_agent.take() {
            stream.close();
        }
    }

    /// Returns the descriptor of the stream to the agent, unless it has been closed.
    pub(super) fn to_agent(&self) -> Option<BorrowedFd<'_>> {
        self.to_agent.as_ref().map(|stream| stream.as_fd())
    }
}

/// Writes to the agent.
impl Write for ControlStreams {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.to_agent.as_mut().ok_or(ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
