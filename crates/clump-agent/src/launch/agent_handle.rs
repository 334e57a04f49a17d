//! An agent as the launcher sees it: a process, and a stream of frames to and from it.

use super::agent_starter::{AgentProcess, StartedAgent};
use super::backlog::Backlog;
use super::processor_waits::ProcessorWaits;
use crate::control_streams::ControlStreams;
use crate::frame::{Assembler, Frame, Key, write_key};
use crate::hello::{Heard, Hello, HelloReader};
use crate::rank_state;
use crate::stream_watch::StreamWatch;
use clump_os::clock;
use clump_os::epoll::{Interest, Poller};
use clump_os::oom::OomCounters;
use clump_os::process::Exit;
use clump_os::signal;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

/// Bytes of output that are acknowledged at a time.
const ROOM: u32 = 64 << 10;
/// Bytes of the error stream that are kept, the last ones.
const MAX_SAID: usize = 8 << 10;

/// One agent.
#[derive(Debug)]
pub(super) struct AgentHandle {
    process: AgentProcess,
    streams: ControlStreams,
    /// The name of its machine; none if it is this one.
    machine: Option<String>,
    /// The machine whose relay starts it; none: the launcher does.
    starter: Option<String>,
    /// Time when a part of a file was sent last.
    uploaded_ns: u64,
    /// Its hello, once it has come.
    hello: Option<Hello>,
    greeting: HelloReader,
    /// True once it is known that no hello will come.
    is_other: bool,
    /// Its error stream, if that comes here, and the end of what it said.
    errors: Option<File>,
    said: Vec<u8>,
    token: u64,
    assembler: Assembler,
    /// Files and frames that wait to be sent.
    backlog: Backlog,
    /// True while the poller tells when there is room to write.
    writing: bool,
    /// True once the stream has come to its end.
    heard_all: bool,
    /// Description of its process's end, and the signal that ended it.
    ended: Option<String>,
    exit: Option<Exit>,
    /// Tells a kill for memory from others, if it is on this machine.
    oom: OomCounters,
    is_out_of_memory: bool,
    /// Bytes of consumed output not acknowledged to it yet.
    owed: u32,
    /// Signs of life, once it has a job, if it is on another machine.
    life: Option<StreamWatch>,
    /// True once it was killed because there were none.
    is_cut: bool,
    waits: ProcessorWaits,
}

impl AgentHandle {
    /// Takes over a started agent on `machine`; none: this one. It is sent these files first.
    ///
    /// # Errors
    /// Fails if its streams cannot be set up.
    pub(super) fn new(
        started: StartedAgent,
        machine: Option<String>,
        uploads: Vec<File>,
    ) -> std::io::Result<Self> {
        let StartedAgent { mut process, streams } = started;
        streams.set_nonblocking(true)?;
        let errors = process.take_errors().map(File::from);
        let mut oom = OomCounters::default();
        if machine.is_none() {
            process.pid().into_iter().for_each(|pid| oom.watch(pid));
        }
        Ok(Self {
            process,
            streams,
            machine,
            starter: None,
            uploaded_ns: 0,
            hello: None,
            greeting: HelloReader::default(),
            is_other: false,
            errors,
            said: Vec::new(),
            token: 0,
            assembler: Assembler::default(),
            backlog: Backlog::new(uploads),
            writing: false,
            heard_all: false,
            ended: None,
            exit: None,
            oom,
            is_out_of_memory: false,
            owed: 0,
            life: None,
            is_cut: false,
            waits: ProcessorWaits::new(clock::now_ns()),
        })
    }

    /// Notes the machine whose relay starts it.
    pub(super) fn started_by(mut self, machine: &str) -> Self {
        self.starter = Some(machine.to_owned());
        self
    }

    /// Returns the machine whose relay starts it; none: the launcher does.
    pub(super) fn starter(&self) -> Option<&str> {
        self.starter.as_deref()
    }

    /// Sends the agent the key of the job, then its job. Nothing has been sent before.
    pub(super) fn start(
        &mut self,
        poller: &Poller,
        key: Option<&Key>,
        job: &Frame,
        life: StreamWatch,
    ) -> clump_os::Result<()> {
        debug_assert!(self.hello.is_some() && self.backlog.is_empty(), "it is an agent");
        // The key fits any buffer. A dead agent is noticed by the end of its process; a live one
        // must not wait for a key that does not come.
        if write_key(&mut self.streams, key).is_err() {
            self.streams.close_output();
        }
        self.life = self.machine.is_some().then_some(life);
        self.say(poller, job)
    }

    /// Returns the time for the next call of [`AgentHandle::handle_timeout`].
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let life = self.life.filter(|_| self.ended.is_none())?;
        Some(life.next_deadline_ns())
    }

    /// Gives the agent a sign of life if one is due; kills the client of one that gives none.
    pub(super) fn handle_timeout(&mut self, poller: &Poller, now_ns: u64) -> clump_os::Result<()> {
        let Some(life) = self.life.as_mut().filter(|_| self.ended.is_none()) else { return Ok(()) };
        if !life.handle_timeout(now_ns) {
            return Ok(());
        }
        if life.is_dead(now_ns) {
            self.is_cut = true;
            self.kill();
            return Ok(());
        }
        // What waits to be sent is sign enough when it arrives.
        if self.backlog.is_empty() { self.say(poller, &Frame::Alive) } else { Ok(()) }
    }

    /// Records that this process was stopped until now, and could hear nothing.
    pub(super) fn on_resumed(&mut self, now_ns: u64) {
        if let Some(life) = &mut self.life {
            life.on_heard(now_ns);
        }
    }

    /// Returns the name of its machine; none if it is this one.
    pub(super) fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// Returns its hello, once that has come.
    pub(super) fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// Returns true once it is known that the other end is no agent.
    pub(super) fn is_other(&self) -> bool {
        self.is_other
    }

    /// Returns what came instead of a hello, and the end of what its error stream said.
    pub(super) fn said(&self) -> (String, String) {
        let errors = String::from_utf8_lossy(&self.said).into_owned();
        (if self.hello.is_some() { String::new() } else { self.greeting.said() }, errors)
    }

    /// Returns the number of the child that stands for it, if one does.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Returns true if it is on this machine, and could run but does not.
    pub(super) fn is_starved(&self, now_ns: u64) -> bool {
        let pid = self.pid().filter(|_| self.machine.is_none());
        pid.is_some_and(|pid| self.waits.is_starved(pid, now_ns))
    }

    /// Registers it with the poller: the stream under `token`, its end under `end`, its errors
    /// under `errors`.
    pub(super) fn watch(
        &mut self,
        poller: &Poller,
        (token, end, errors): (u64, u64, u64),
    ) -> clump_os::Result<()> {
        self.token = token;
        poller.add(self.streams.input(), token, Interest::Read)?;
        poller.add(self.process.end(), end, Interest::Read)?;
        if let Some(stream) = &self.errors {
            poller.add(stream, errors, Interest::Read)?;
        }
        self.flush(poller)
    }

    /// Reads what its error stream says.
    pub(super) fn receive_errors(&mut self, poller: &Poller) -> clump_os::Result<()> {
        let Some(stream) = &mut self.errors else { return Ok(()) };
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Ok(0) | Err(_) => {
                poller.remove(&*stream)?;
                self.errors = None;
            }
            Ok(bytes) => {
                self.said.extend_from_slice(&piece[..bytes]);
                self.said.drain(..self.said.len().saturating_sub(MAX_SAID));
            }
        }
        Ok(())
    }

    /// Reads the frames that have arrived.
    pub(super) fn receive(&mut self, poller: &Poller) -> anyhow::Result<Vec<Frame>> {
        if self.heard_all {
            // The poller may have reported both directions at once.
            return Ok(Vec::new());
        }
        let mut piece = vec![0; 64 << 10];
        match self.streams.read(&mut piece) {
            Ok(0) => self.heard_all = true,
            Ok(bytes) if self.hello.is_some() => {
                if let Some(life) = &mut self.life {
                    life.on_heard(clock::now_ns());
                }
                self.assembler.handle_bytes(&piece[..bytes]);
            }
            Ok(bytes) => match self.greeting.handle_bytes(&piece[..bytes]) {
                Heard::Nothing => {}
                Heard::Other => self.is_other = true,
                Heard::Hello(hello, rest) => {
                    self.hello = Some(*hello);
                    self.assembler.handle_bytes(&rest);
                }
            },
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.heard_all = true,
        }
        if self.heard_all {
            poller.remove(self.streams.input())?;
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
        self.say_encoded(poller, frame.encode())
    }

    /// Sends the bytes of a frame, as [`AgentHandle::say`] does.
    pub(super) fn say_encoded(
        &mut self,
        poller: &Poller,
        frame: Arc<[u8]>,
    ) -> clump_os::Result<()> {
        self.backlog.push(frame);
        self.flush(poller)
    }

    pub(super) fn flush(&mut self, poller: &Poller) -> clump_os::Result<()> {
        while !self.heard_all
            && let Some(first) = self.backlog.first()
        {
            match self.streams.write(first) {
                Ok(bytes) => {
                    self.backlog.on_sent(bytes);
                    if self.hello.is_none() {
                        self.uploaded_ns = clock::now_ns();
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The peer's end is noticed where it is read, and a live agent notices this one.
                Err(_) => {
                    self.backlog.clear();
                    self.await_room(poller, false)?;
                    self.streams.close_output();
                }
            }
        }
        if self.heard_all {
            return Ok(());
        }
        self.await_room(poller, !self.backlog.is_empty())
    }

    /// Returns the time when a part of a file was sent last; 0 if none was.
    pub(super) fn uploaded_ns(&self) -> u64 {
        self.uploaded_ns.max(self.process.uploaded_ns())
    }

    /// Has the poller tell when there is room to write, or no more.
    fn await_room(&mut self, poller: &Poller, wanted: bool) -> clump_os::Result<()> {
        let Some(stream) = self.streams.output() else {
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
        let room = Frame::OutputCredit(std::mem::take(&mut self.owed));
        self.say(poller, &room)
    }

    /// Records that its process has ended.
    pub(super) fn on_ended(&mut self, poller: &Poller, exit: Exit) -> clump_os::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let is_killed = exit == Exit::Signal(signal::KILL);
        let pid = self.pid().filter(|_| is_killed);
        self.is_out_of_memory = pid.is_some_and(|pid| self.oom.account(pid));
        (self.ended, self.exit) = (Some(self.describe(exit)), Some(exit));
        if self.machine.is_some() {
            // Nothing reaches an agent without the client that stood for it.
            self.close(poller)?;
        }
        poller.remove(self.process.end())
    }

    /// Records that its relay has said that its process has ended, if it has.
    pub(super) fn note_relayed_end(&mut self, poller: &Poller) -> clump_os::Result<()> {
        self.process.relayed_exit().map_or(Ok(()), |exit| self.on_ended(poller, exit))
    }

    /// Returns the description of its end, once it has ended and all its frames have been read.
    pub(super) fn end(&self) -> Option<&str> {
        self.ended.as_deref().filter(|_| self.heard_all)
    }

    /// Describes its end, as follows "its agent".
    fn describe(&self, exit: Exit) -> String {
        let how = rank_state::describe(exit, self.is_out_of_memory);
        let Some(machine) = &self.machine else { return how };
        if self.is_cut {
            return format!(
                "gave no sign of life over the connection to {machine} any more: stopped, or cut off"
            );
        }
        let said = self.said().1;
        let said = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let why = said.unwrap_or("without a word: killed, or the connection was lost");
        format!("cannot be reached any more: the connection to {machine} {how} ({why})")
    }

    /// Returns the way in which its process ended, once it has and all its frames have been read.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit.filter(|_| self.heard_all && self.errors.is_none())
    }

    /// Returns the signal that killed it, if one did.
    pub(super) fn signal(&self) -> Option<u8> {
        let Exit::Signal(signal) = self.exit? else { return None };
        Some(signal)
    }

    /// Returns true if the kernel killed it for memory.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.is_out_of_memory
    }

    /// Ends the stream to it, so that it ends its ranks.
    pub(super) fn close(&mut self, poller: &Poller) -> clump_os::Result<()> {
        self.await_room(poller, false)?;
        self.streams.close_output();
        Ok(())
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        self.process.kill();
    }
}

#[cfg(test)]
mod tests;
