//! The stream between launcher and agent: a pair of descriptors, one for each direction, which may
//! be those of one socket.

use clump_os::{socket, standard_streams};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// One end of it.
#[derive(Debug)]
pub(crate) struct ControlStreams {
    input: File,
    /// None once it has been closed.
    output: Option<Box<dyn ControlWriter>>,
}

/// Descriptor that leads to the other end. A socket is written by `sendto`: where a filter of
/// system calls refuses that, packets cannot be sent either, and the job ends at once.
pub(crate) trait ControlWriter: Write + AsFd + std::fmt::Debug + Send {
    /// Ends the stream where dropping the descriptor does not.
    fn close(&self) {}
}

impl ControlWriter for UnixStream {
    fn close(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl ControlWriter for File {}

impl ControlStreams {
    /// Makes streams of two descriptors.
    pub(crate) fn new(input: OwnedFd, output: Box<dyn ControlWriter>) -> Self {
        Self { input: input.into(), output: Some(output) }
    }

    /// Makes streams of one socket.
    ///
    /// # Errors
    /// Fails if no descriptor is left for the second stream.
    pub(crate) fn of_socket(socket: OwnedFd) -> std::io::Result<Self> {
        let output = UnixStream::from(socket.try_clone()?);
        Ok(Self::new(socket, Box::new(output)))
    }

    /// Takes the end that the launcher gave to this process: a socket under `number`, or standard
    /// input and output.
    ///
    /// # Errors
    /// Fails if nothing is open there.
    pub(crate) fn inherited(number: Option<RawFd>) -> anyhow::Result<Self> {
        let Some(number) = number else {
            let (input, output) = standard_streams::take()?;
            return Ok(Self::new(input, Box::new(File::from(output))));
        };
        let Some(end) = socket::inherited(number) else {
            anyhow::bail!(
                "descriptor {number} is not open; `clump agent` is started by `clump run` only"
            );
        };
        Ok(Self::of_socket(end)?)
    }

    /// Returns the descriptor of the stream from the other end.
    pub(crate) fn input(&self) -> &File {
        &self.input
    }

    /// Makes reads and writes return at once, or wait.
    ///
    /// # Errors
    /// Fails if a descriptor cannot be changed.
    pub(crate) fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
        let output = self.output.as_ref().map(|stream| stream.as_fd());
        for stream in output.into_iter().chain([self.input.as_fd()]) {
            UnixStream::from(stream.try_clone_to_owned()?).set_nonblocking(on)?;
        }
        Ok(())
    }

    /// Ends the stream to the other end. An agent ends its ranks then.
    pub(crate) fn close_output(&mut self) {
        if let Some(stream) = self.output.take() {
            stream.close();
        }
    }

    /// Returns the descriptor of the stream to the other end, unless it has been closed.
    pub(crate) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(|stream| stream.as_fd())
    }
}

impl Read for ControlStreams {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.input.read(into)
    }
}

impl Write for ControlStreams {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.output.as_mut().ok_or(ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
