//! An agent as the launcher sees it: a process, and a stream of frames to and from it.

use super::AGENT_COMMAND;
use crate::frame::{Assembler, Frame, Key, write_key};
use clump_boot::boot::VARIABLES;
use clump_os::epoll::{Interest, Poller};
use clump_os::process::{self, Child, Exit, Input, Program};
use clump_os::{signal, socket};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes of output that are acknowledged at a time.
const ROOM: u32 = 64 << 10;

/// Starts this program again, with the other end of a stream. If `bound`, it dies with this
/// process.
pub(super) fn start_self(input: Input, bound: bool) -> anyhow::Result<(Child, OwnedFd)> {
    let (ours, theirs) = socket::stream_pair()?;
    let number = theirs.as_raw_fd().to_string();
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let words = [AGENT_COMMAND, "--control", &number].map(OsString::from);
    let mut program = Program::new(own, words);
    // This process may itself be a rank of another job.
    program.without = VARIABLES.map(OsString::from).into();
    program.passes = Some(theirs);
    (program.input, program.dies_with_starter) = (input, bound);
    Ok((process::start(&program)?, ours))
}

/// One agent.
#[derive(Debug)]
pub(super) struct AgentHandle {
    pub(super) agent: Child,
    stream: UnixStream,
    token: u64,
    assembler: Assembler,
    /// Bytes to send, from `sent` on.
    backlog: Vec<u8>,
    sent: usize,
    writing: bool,
    /// True once the stream has come to its end.
    heard_all: bool,
    /// Description of its process's end, and the signal that ended it.
    ended: Option<String>,
    signal: Option<u8>,
    /// Bytes of consumed output not acknowledged to it yet.
    owed: u32,
}

impl AgentHandle {
    /// Starts this program again, as the agent of a node, and sends it its job. The first agent
    /// inherits the launcher's standard input.
    pub(super) fn start(first: bool, key: Option<&Key>, job: &Frame) -> anyhow::Result<Self> {
        let input = if first { Input::Inherited } else { Input::Empty };
        let (agent, ours) = start_self(input, false)?;
        let mut stream = UnixStream::from(ours);
        let mut backlog = Vec::new();
        job.append_to(&mut backlog);
        // The key fits any socket buffer. A dead agent is noticed by its pidfd; a live one must
        // not wait for a key that does not come.
        if write_key(&mut stream, key).is_err() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        stream.set_nonblocking(true)?;
        Ok(Self {
            agent,
            stream,
            token: 0,
            assembler: Assembler::default(),
            backlog,
            sent: 0,
            writing: false,
            heard_all: false,
            ended: None,
            signal: None,
            owed: 0,
        })
    }

    /// Registers it with the poller: the stream under `token`, its end under `end`.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64, end: u64) -> clump_os::Result<()> {
        self.token = token;
        poller.add(&self.stream, token, Interest::Read)?;
        poller.add(&self.agent.pidfd, end, Interest::Read)?;
        self.flush(poller)
    }

    /// Reads the frames that have arrived.
    pub(super) fn receive(&mut self, poller: &Poller) -> anyhow::Result<Vec<Frame>> {
        let mut piece = vec![0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => self.heard_all = true,
            Ok(bytes) => self.assembler.handle_bytes(&piece[..bytes]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.heard_all = true,
        }
        if self.heard_all {
            poller.remove(&self.stream)?;
        }
        let mut frames = Vec::new();
        while let Some(frame) = self.assembler.poll_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Sends a frame, as far as the agent takes it now; the rest later.
    pub(super) fn say(&mut self, poller: &Poller, frame: &Frame) -> clump_os::Result<()> {
        frame.append_to(&mut self.backlog);
        self.flush(poller)
    }

    pub(super) fn flush(&mut self, poller: &Poller) -> clump_os::Result<()> {
        while !self.heard_all && self.sent < self.backlog.len() {
            match self.stream.write(&self.backlog[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The peer's end is noticed where it is read, and a live agent notices this one.
                Err(_) => {
                    self.sent = self.backlog.len();
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
            }
        }
        if self.heard_all {
            return Ok(());
        }
        if self.sent == self.backlog.len() {
            self.backlog.clear();
            self.sent = 0;
        }
        let waits = !self.backlog.is_empty();
        if waits != self.writing {
            self.writing = waits;
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            poller.change(&self.stream, self.token, interest)?;
        }
        Ok(())
    }

    /// Counts output of the agent as not yet consumed.
    pub(super) fn owe(&mut self, bytes: usize) {
        self.owed = self.owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Acknowledges output that has been shown.
    pub(super) fn on_output_drained(&mut self, poller: &Poller) -> clump_os::Result<()> {
        if self.owed < ROOM {
            return Ok(());
        }
        let room = Frame::Room(std::mem::take(&mut self.owed));
        self.say(poller, &room)
    }

    /// Records that its process has ended.
    pub(super) fn on_ended(&mut self, poller: &Poller, exit: Exit) -> clump_os::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        self.ended = Some(match exit {
            Exit::Code(code) => format!("exited with code {code}"),
            Exit::Signal(n) => {
                self.signal = Some(n);
                format!("was killed by signal {n} {}", signal::name(n)).trim_end().into()
            }
        });
        poller.remove(&self.agent.pidfd)
    }

    /// Returns the description of its end, once it has ended and all its frames have been read.
    pub(super) fn end(&self) -> Option<&str> {
        self.ended.as_deref().filter(|_| self.heard_all)
    }

    /// Returns the signal that killed it, if one did.
    pub(super) fn signal(&self) -> Option<u8> {
        self.signal
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        let _ = process::signal_by_fd(&self.agent.pidfd, signal::KILL);
    }
}
