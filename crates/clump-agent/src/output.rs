//! Output from the pipes of the ranks to the launcher, with a bounded backlog.
//!
//! Invariant 2 of the crate: while [`MAX_COUNT`] bytes are unconsumed, as the launcher reports,
//! pipes are not read, so that ranks that write too much block in `write`, and no other process
//! waits.

use crate::control_streams::ControlStreams;
use crate::frame::{Frame, Stream, append_output};
use clump_os::epoll::{Interest, Poller};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

/// Unconsumed bytes above which pipes are not read.
const MAX_COUNT: usize = 1 << 20;
/// Unconsumed bytes below which pipes are read again.
const FEW: usize = 256 << 10;
/// Bytes read from a pipe at a time: the capacity of a pipe.
const PIECE: usize = 64 << 10;

/// A pipe that a rank writes into.
#[derive(Debug)]
struct Pipe {
    rank: u32,
    stream: Stream,
    file: File,
    token: u64,
}

/// All pipes, and the backlog for the launcher.
#[derive(Debug)]
pub(crate) struct Outputs {
    launcher: ControlStreams,
    launcher_token: u64,
    lost: bool,
    /// Bytes to send, from `sent` on.
    backlog: Vec<u8>,
    sent: usize,
    writing: bool,
    /// Bytes of output that the launcher has not consumed.
    unread: usize,
    pipes: Vec<Option<Pipe>>,
    paused: bool,
    space: Vec<u8>,
}

impl Outputs {
    /// Sends to `launcher`, whose streams do not block, and whose input is in the poller under
    /// `token`.
    pub(crate) fn new(launcher: ControlStreams, token: u64) -> Self {
        Self {
            launcher,
            launcher_token: token,
            lost: false,
            backlog: Vec::new(),
            sent: 0,
            writing: false,
            unread: 0,
            pipes: Vec::new(),
            paused: false,
            space: vec![0; PIECE],
        }
    }

    /// Reads what the launcher has sent.
    pub(crate) fn read_launcher(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.launcher.read(into)
    }

    /// Takes over a pipe. It is registered under `kind` with its index among the pipes in the
    /// lower half.
    pub(crate) fn add(
        &mut self,
        poller: &Poller,
        (rank, stream): (u32, Stream),
        pipe: OwnedFd,
        kind: u64,
    ) -> clump_os::Result<()> {
        let token = kind | self.pipes.len() as u64;
        if !self.paused {
            poller.add(&pipe, token, Interest::Read)?;
        }
        self.pipes.push(Some(Pipe { rank, stream, file: File::from(pipe), token }));
        Ok(())
    }

    /// Returns true if every pipe has come to its end.
    pub(crate) fn all_ended(&self) -> bool {
        self.pipes.iter().all(Option::is_none)
    }

    /// Returns true if the backlog has been sent, or the launcher is lost.
    pub(crate) fn all_sent(&self) -> bool {
        self.lost || self.sent == self.backlog.len()
    }

    /// Reads the content of pipe `index`.
    pub(crate) fn on_readable(&mut self, poller: &Poller, index: usize) -> clump_os::Result<()> {
        let Some(Some(pipe)) = self.pipes.get_mut(index) else { return Ok(()) };
        match pipe.file.read(&mut self.space) {
            Ok(0) => self.end(poller, index)?,
            Ok(bytes) => {
                append_output(&mut self.backlog, pipe.rank, pipe.stream, &self.space[..bytes]);
                self.unread += bytes;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.end(poller, index)?,
        }
        if self.lost {
            self.backlog.clear();
            (self.sent, self.unread) = (0, 0);
        }
        if !self.paused && self.unread > MAX_COUNT {
            self.pause(poller)?;
        }
        self.flush(poller)
    }

    fn end(&mut self, poller: &Poller, index: usize) -> clump_os::Result<()> {
        match self.pipes.get_mut(index).and_then(Option::take) {
            Some(pipe) if !self.paused => poller.remove(&pipe.file),
            _ => Ok(()),
        }
    }

    /// Closes pipes that other processes still hold open; used at the end, when no rank is left to
    /// write.
    pub(crate) fn abandon(&mut self, poller: &Poller) -> clump_os::Result<()> {
        (0..self.pipes.len()).try_for_each(|index| self.end(poller, index))
    }

    /// Queues a frame.
    pub(crate) fn say(&mut self, poller: &Poller, frame: &Frame) -> clump_os::Result<()> {
        if !self.lost {
            frame.append_to(&mut self.backlog);
        }
        self.flush(poller)
    }

    /// Discards all output from now on: the launcher is gone.
    pub(crate) fn on_launcher_lost(&mut self, poller: &Poller) -> clump_os::Result<()> {
        poller.remove(self.launcher.input())?;
        self.lost = true;
        self.backlog.clear();
        (self.sent, self.unread) = (0, 0);
        self.await_room(poller)?;
        self.resume(poller)
    }

    /// Sends as much as the launcher takes now.
    pub(crate) fn flush(&mut self, poller: &Poller) -> clump_os::Result<()> {
        while !self.lost && self.sent < self.backlog.len() {
            match self.launcher.write(&self.backlog[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The event loop reads the socket's end and handles it.
                Err(_) => self.lost = true,
            }
        }
        if self.lost || self.sent == self.backlog.len() {
            self.backlog.clear();
            self.sent = 0;
        } else if self.sent > MAX_COUNT {
            self.backlog.drain(..self.sent);
            self.sent = 0;
        }
        self.await_room(poller)
    }

    /// Has the poller tell when there is room to write, while something waits.
    fn await_room(&mut self, poller: &Poller) -> clump_os::Result<()> {
        let waits = self.sent < self.backlog.len();
        let Some(stream) = self.launcher.output() else { return Ok(()) };
        match (std::mem::replace(&mut self.writing, waits), waits) {
            (false, true) => poller.add(stream, self.launcher_token, Interest::Write),
            (true, false) => poller.remove(stream),
            _ => Ok(()),
        }
    }

    /// Records that the launcher consumed so many bytes.
    pub(crate) fn on_room(&mut self, poller: &Poller, bytes: u32) -> clump_os::Result<()> {
        self.unread = self.unread.saturating_sub(bytes as usize);
        if self.paused && self.unread < FEW { self.resume(poller) } else { Ok(()) }
    }

    fn pause(&mut self, poller: &Poller) -> clump_os::Result<()> {
        self.paused = true;
        self.pipes.iter().flatten().try_for_each(|pipe| poller.remove(&pipe.file))
    }

    fn resume(&mut self, poller: &Poller) -> clump_os::Result<()> {
        if std::mem::take(&mut self.paused) {
            let mut pipes = self.pipes.iter().flatten();
            pipes.try_for_each(|pipe| poller.add(&pipe.file, pipe.token, Interest::Read))?;
        }
        Ok(())
    }
}
