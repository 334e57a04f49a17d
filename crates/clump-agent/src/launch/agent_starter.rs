//! Ways to start agents: the line between what is decided and how a process comes to be.
//!
//! - The launcher decides which node runs where (`JobSpec`) and everything after.
//! - A starter brings an agent to its machine and connects two streams of bytes with it
//!   ([`ProcessEnds`]): nothing else has to pass between the two machines, in particular no
//!   descriptor.
//! - The agent says which clump it is ([`crate::hello`]), reads the key of the job, then its job,
//!   and starts ranks.
//!
//! The key never is an argument, a variable or a file. An agent whose stream ends, ends its ranks.
//! So a starter that runs a client (a remote shell, a resource manager's) has to hand on standard
//! input and output, and may itself be killed at any time.

use super::relayed_process::RelayedProcess;
use crate::control_streams::ControlStreams;
use clump_os::process::{self, Child, Exit};
use clump_os::signal;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A process that has been started, and the stream to its standard input and output.
#[derive(Debug)]
pub(super) struct ProcessEnds {
    pub(super) process: AgentProcess,
    pub(super) stream: OwnedFd,
}

impl ProcessEnds {
    /// Returns it as an agent, with the stream as one of frames.
    ///
    /// # Errors
    /// Fails if no more descriptors are allowed.
    pub(super) fn into_agent(self) -> anyhow::Result<StartedAgent> {
        let streams = ControlStreams::of_socket(self.stream)?;
        Ok(StartedAgent { process: self.process, streams })
    }
}

/// An agent that has been started, or is being started: its streams may not lead anywhere yet.
#[derive(Debug)]
pub(super) struct StartedAgent {
    /// The process of this machine that stands for it.
    pub(super) process: AgentProcess,
    /// The streams of frames.
    pub(super) streams: ControlStreams,
}

/// A process whose end is the agent's: the agent itself, or the client that reaches it.
#[derive(Debug)]
pub(super) enum AgentProcess {
    /// A child of this process.
    Child(Child),
    /// A process that a relay runs, and its error stream until that is taken.
    Relayed(Arc<RelayedProcess>, Option<OwnedFd>),
}

impl AgentProcess {
    /// Returns the number of a child, under which its end is reported ([`process::changed`]).
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => Some(child.pid),
            Self::Relayed(..) => None,
        }
    }

    /// Returns how it has ended, if a relay has said so.
    pub(super) fn relayed_exit(&self) -> Option<Exit> {
        match self {
            Self::Child(_) => None,
            Self::Relayed(process, _) => process.exit(),
        }
    }

    /// Returns the time at which its relay was sent a part of a file last; 0: never.
    pub(super) fn uploaded_ns(&self) -> u64 {
        match self {
            Self::Child(_) => 0,
            Self::Relayed(process, _) => process.uploaded_ns(),
        }
    }

    /// Takes its error stream, if it comes through a pipe.
    pub(super) fn take_errors(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Child(child) => child.errors.take(),
            Self::Relayed(_, errors) => errors.take(),
        }
    }

    /// Returns a descriptor that becomes readable at its end.
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        match self {
            Self::Child(child) => child.pidfd.as_fd(),
            Self::Relayed(process, _) => process.end(),
        }
    }

    /// Kills it. Its streams end then, so an agent elsewhere ends as well.
    pub(super) fn kill(&self) {
        match self {
            Self::Child(child) => drop(process::signal_by_fd(&child.pidfd, signal::KILL)),
            Self::Relayed(process, _) => process.kill(),
        }
    }
}
