//! A process that a relay runs on another machine, as the launcher knows it.

use clump_os::alarm::Alarm;
use clump_os::process::Exit;
use clump_os::signal;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// One end of it: what the relay's threads and the launcher share.
#[derive(Debug)]
pub(super) struct RelayedProcess {
    /// The stream to its standard input and output, the relay's end.
    pub(super) stream: UnixStream,
    /// The pipe of its error stream, until it has ended.
    errors: Mutex<Option<File>>,
    exit: Mutex<Option<Exit>>,
    /// Rung when it has ended.
    end: Alarm,
    is_killed: AtomicBool,
    /// Rung when it is to be killed.
    wanted: Arc<Alarm>,
    /// The time at which the relay's machine, or this one, was sent a part of a file last.
    uploaded_ns: Arc<AtomicU64>,
}

impl RelayedProcess {
    /// Creates the state of a process that has not been started, and the reading end of its error
    /// stream. `wanted` is rung when it is to be killed.
    ///
    /// # Errors
    /// Fails if no more descriptors are allowed.
    pub(super) fn new(
        stream: OwnedFd,
        wanted: Arc<Alarm>,
        uploaded_ns: Arc<AtomicU64>,
    ) -> anyhow::Result<(Self, OwnedFd)> {
        let (reader, writer) = std::io::pipe()?;
        let process = Self {
            stream: UnixStream::from(stream),
            errors: Mutex::new(Some(File::from(OwnedFd::from(writer)))),
            exit: Mutex::default(),
            end: Alarm::new()?,
            is_killed: AtomicBool::new(false),
            wanted,
            uploaded_ns,
        };
        Ok((process, reader.into()))
    }

    /// Returns the way in which it ended, once it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a descriptor that becomes readable at its end.
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Returns the time at which a part of a file was sent for it last.
    pub(super) fn uploaded_ns(&self) -> u64 {
        self.uploaded_ns.load(Ordering::Relaxed)
    }

    /// Kills it. For the launcher it has ended at once: its relay may not hear of that.
    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.wanted.ring();
        self.note_end(Exit::Signal(signal::KILL));
    }

    /// Returns true if it is to be killed.
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// Hands on what it said on its error stream.
    pub(super) fn pass_errors(&self, bytes: &[u8]) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        // A launcher that reads no more has heard enough.
        let _ = errors.as_mut().map(|errors| errors.write_all(bytes));
    }

    /// Hands on its output; false if nobody reads it any more.
    pub(super) fn pass_output(&self, bytes: &[u8]) -> bool {
        (&self.stream).write_all(bytes).is_ok()
    }

    /// Records the end of its output.
    pub(super) fn end_output(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Records its end; the first one counts.
    pub(super) fn note_end(&self, exit: Exit) {
        let mut known = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return;
        }
        *known = Some(exit);
        drop(known);
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.stream.shutdown(Shutdown::Both);
        self.end.ring();
    }
}
