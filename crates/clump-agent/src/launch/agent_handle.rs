//! An agent as the launcher sees it: a process, and a stream of frames to and from it.

use super::agent_starter::{AgentProcess, ControlStreams, StartedAgent};
use crate::frame::{Assembler, Frame, Key, write_key};
use clump_os::epoll::{Interest, Poller};
use clump_os::process::Exit;
use std::io::{ErrorKind, Read, Write};

/// Bytes of output that are acknowledged at a time.
const ROOM: u32 = 64 << 10;

/// One agent.
#[derive(Debug)]
pub(super) struct AgentHandle {
    process: AgentProcess,
    streams: ControlStreams,
    token: u64,
    assembler: Assembler,
    /// Bytes to send, from `sent` on.
    backlog: Vec<u8>,
    sent: usize,
    /// True while the poller tells when there is room to write.
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
    /// Sends a started agent the key of the job, then its job.
    ///
    /// # Errors
    /// Fails if its streams cannot be set up.
    pub(super) fn new(
        started: StartedAgent,
        key: Option<&Key>,
        job: &Frame,
    ) -> std::io::Result<Self> {
        let StartedAgent { process, mut streams } = started;
        let mut backlog = Vec::new();
        job.append_to(&mut backlog);
        // The key fits any buffer. A dead agent is noticed by the end of its process; a live one
        // must not wait for a key that does not come.
        if write_key(&mut streams, key).is_err() {
            streams.close_to_agent();
        }
        streams.set_nonblocking()?;
        Ok(Self {
            process,
            streams,
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

    /// Returns the number of the process that stands for it.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Registers it with the poller: the stream under `token`, its end under `end`.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64, end: u64) -> clump_os::Result<()> {
        self.token = token;
        poller.add(&self.streams.from_agent, token, Interest::Read)?;
        poller.add(self.process.end(), end, Interest::Read)?;
        self.flush(poller)
    }

    /// Reads the frames that have arrived.
    pub(super) fn receive(&mut self, poller: &Poller) -> anyhow::Result<Vec<Frame>> {
        let mut piece = vec![0; 64 << 10];
        match self.streams.from_agent.read(&mut piece) {
            Ok(0) => self.heard_all = true,
            Ok(bytes) => self.assembler.handle_bytes(&piece[..bytes]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.heard_all = true,
        }
        if self.heard_all {
            poller.remove(&self.streams.from_agent)?;
            self.await_room(poller, false)?;
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
            match self.streams.write(&self.backlog[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The peer's end is noticed where it is read, and a live agent notices this one.
                Err(_) => {
                    self.sent = self.backlog.len();
                    self.await_room(poller, false)?;
                    self.streams.close_to_agent();
                }
            }
        }
        if self.heard_all {
            return Ok(());
        }
        debug_assert!(self.sent <= self.backlog.len(), "no more is sent than there is");
        if self.sent == self.backlog.len() {
            self.backlog.clear();
            self.sent = 0;
        }
        self.await_room(poller, !self.backlog.is_empty())
    }

    /// Has the poller tell when there is room to write, or no more.
    fn await_room(&mut self, poller: &Poller, wanted: bool) -> clump_os::Result<()> {
        let Some(stream) = self.streams.to_agent() else {
            // A write has failed: nothing is sent to this agent any more.
            debug_assert!(!wanted && !self.writing, "nothing waits for a closed stream");
            return Ok(());
        };
        match (std::mem::replace(&mut self.writing, wanted), wanted) {
            (false, true) => poller.add(stream, self.token, Interest::Write),
            (true, false) => poller.remove(stream),
            _ => Ok(()),
        }
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
        let (text, signal) = AgentProcess::describe(exit);
        (self.ended, self.signal) = (Some(text), signal);
        poller.remove(self.process.end())
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
        self.process.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::read_key;
    use clump_os::process::{self, Child};
    use std::fs::File;
    use std::io::pipe;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    /// Returns an agent behind two pipes, as a remote shell connects one, and its ends of them.
    fn remote(key: Option<&Key>) -> (AgentHandle, std::io::PipeReader, std::io::PipeWriter) {
        let (from_agent, their_output) = pipe().unwrap();
        let (their_input, to_agent) = pipe().unwrap();
        // Not a child: another test waits for whatever child of this process ends.
        let own = process::own_pid();
        let pidfd = process::pidfd(own).unwrap();
        let client = Child { pid: own, pidfd, output: None, errors: None };
        let streams =
            ControlStreams::new(from_agent.into(), Box::new(File::from(OwnedFd::from(to_agent))));
        let started = StartedAgent { process: AgentProcess::new(client), streams };
        let handle = AgentHandle::new(started, key, &Frame::Interrupt(2)).unwrap();
        (handle, their_input, their_output)
    }

    #[test]
    fn an_agent_behind_pipes_gets_the_key_then_its_job_and_is_heard() {
        let key = Key::random().unwrap();
        let (mut handle, mut input, mut output) = remote(Some(&key));
        let poller = Poller::new().unwrap();
        handle.watch(&poller, 7, 8).unwrap();
        assert_eq!(read_key(&mut input).unwrap().unwrap()[..], key[..]);
        let mut assembler = Assembler::default();
        let mut piece = [0; 4096];
        let bytes = input.read(&mut piece).unwrap();
        assembler.handle_bytes(&piece[..bytes]);
        assert_eq!(assembler.poll_frame().unwrap(), Some(Frame::Interrupt(2)));
        let mut said = Vec::new();
        Frame::Notice("here".into()).append_to(&mut said);
        output.write_all(&said).unwrap();
        assert_eq!(handle.receive(&poller).unwrap(), [Frame::Notice("here".into())]);
        drop(output);
        assert_eq!(handle.receive(&poller).unwrap(), []);
        handle.on_ended(&poller, Exit::Code(0)).unwrap();
        assert_eq!(handle.end(), Some("exited with code 0"));
    }

    #[test]
    fn what_does_not_fit_into_a_pipe_is_sent_when_there_is_room() {
        let (mut handle, input, output) = remote(None);
        let poller = Poller::new().unwrap();
        handle.watch(&poller, 7, 8).unwrap();
        let long = Frame::Notice("x".repeat(1 << 20));
        handle.say(&poller, &long).unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut input = input;
            input.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        while !handle.backlog.is_empty() {
            let ready = poller.wait(Some(Duration::from_secs(10))).unwrap();
            assert!(!ready.is_empty(), "there is room in time");
            if ready.iter().any(|ready| ready.token == 7 && ready.writable) {
                handle.flush(&poller).unwrap();
            }
        }
        handle.streams.close_to_agent();
        assert!(reader.join().unwrap().unwrap() > 1 << 20);
        drop(output);
    }

    #[test]
    fn an_agent_that_reads_no_more_ends_the_stream_to_it_alone() {
        let (mut handle, input, output) = remote(None);
        let poller = Poller::new().unwrap();
        handle.watch(&poller, 7, 8).unwrap();
        drop(input);
        handle.say(&poller, &Frame::Kill).unwrap();
        handle.say(&poller, &Frame::Kill).unwrap();
        assert!(handle.backlog.is_empty());
        drop(output);
        assert_eq!(handle.receive(&poller).unwrap(), []);
        assert!(handle.heard_all);
    }
}
