//! Bytes that come once and in order: standard input, pipes, FIFOs, sockets, character devices.
//!
//! Nothing here blocks but [`ByteStream::wait`], and that only for the time given: a FIFO without a
//! writer is opened at once (`O_NONBLOCK`, fifo(7)). Standard input keeps its mode, which other
//! processes share; so a caller reads after `wait` has returned true.

use crate::error::{OsError, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Major number of the memory devices: `null`, `zero`, `full`, `random` (Linux devices.txt).
const MEMORY_DEVICES: u32 = 1;

/// Kind of file, as far as it matters to a reader of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file of so many bytes. 0 may be untrue: files of `/proc` have no size.
    Regular(u64),
    /// A folder.
    Folder,
    /// A disk or a part of one.
    BlockDevice,
    /// A pipe, with or without a name.
    Fifo,
    /// A socket.
    Socket,
    /// A terminal.
    Terminal,
    /// A device of the kernel without an end or without content: `/dev/zero`, `/dev/null`.
    MemoryDevice,
    /// Another character device.
    CharacterDevice,
}

impl FileKind {
    /// Returns the kind of file at `path`, without opening it. A terminal counts as a character
    /// device.
    ///
    /// # Errors
    /// There is no such file, or a folder above it may not be searched.
    pub fn of(path: &Path) -> Result<Self> {
        let stat = rustix::fs::stat(path)
            .map_err(|e| OsError::new(format!("looking at {}", path.display()), e))?;
        Ok(Self::from_stat(&stat))
    }

    fn from_stat(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => FileKind::Folder,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice if rustix::fs::major(stat.st_rdev) == MEMORY_DEVICES => {
                FileKind::MemoryDevice
            }
            FileType::CharacterDevice => FileKind::CharacterDevice,
            _ => FileKind::Regular(u64::try_from(stat.st_size).unwrap_or(0)),
        }
    }
}

/// An open source of bytes.
#[derive(Debug)]
pub struct ByteStream {
    fd: OwnedFd,
    name: String,
}

impl ByteStream {
    /// Opens `path` for reading, without waiting for a writer.
    ///
    /// # Errors
    /// The file cannot be opened; a socket never can (`ENXIO`).
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| OsError::new(format!("opening {name}"), e))?;
        Ok(Self { fd, name })
    }

    /// Opens standard input, under a descriptor of its own.
    ///
    /// # Errors
    /// It is closed, or no more descriptors are allowed.
    pub fn standard_input() -> Result<Self> {
        Self::shared(&std::io::stdin(), "standard input".to_owned())
    }

    /// Opens `file` under a descriptor of its own, which shares its position.
    pub(crate) fn shared(file: &impl AsFd, name: String) -> Result<Self> {
        let fd = rustix::io::fcntl_dupfd_cloexec(file, 3)
            .map_err(|e| OsError::new(format!("opening {name}"), e))?;
        Ok(Self { fd, name })
    }

    /// Returns the kind of file behind it.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn kind(&self) -> Result<FileKind> {
        if rustix::termios::isatty(&self.fd) {
            return Ok(FileKind::Terminal);
        }
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| self.error("looking at", e))?;
        Ok(FileKind::from_stat(&stat))
    }

    /// Waits until there is something to read, or the end; returns `false` after `longest` without
    /// either.
    ///
    /// # Errors
    /// The kernel cannot wait for it.
    pub fn wait(&self, longest: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let time = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        match rustix::event::poll(&mut fds, Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(self.error("waiting for", e)),
        }
    }

    /// Reads the available bytes, up to the length of `into`: returns `Some(0)` at the end, `None`
    /// where nothing is there yet.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read(&self, into: &mut [u8]) -> Result<Option<usize>> {
        debug_assert!(!into.is_empty(), "an empty read looks like the end");
        match rustix::io::read(&self.fd, into) {
            Ok(n) => Ok(Some(n)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(e) => Err(self.error("reading", e)),
        }
    }

    /// Returns its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if readiness can be polled; a file is always ready and cannot be polled.
    pub fn is_waited_for(&self) -> bool {
        let file = || rustix::fs::fstat(&self.fd).map(|stat| FileKind::from_stat(&stat));
        !matches!(file(), Ok(FileKind::Regular(_) | FileKind::MemoryDevice | FileKind::BlockDevice))
    }

    /// Returns true if it is a terminal that another process group reads: this one is in the
    /// background.
    pub fn is_in_background(&self) -> bool {
        rustix::termios::tcgetpgrp(&self.fd).is_ok_and(|group| group != rustix::process::getpgrp())
    }

    fn error(&self, verb: &str, errno: Errno) -> OsError {
        OsError::new(format!("{verb} {}", self.name), errno)
    }
}

impl AsFd for ByteStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn kinds_are_told_apart_without_reading() {
        let kind = |path: &str| FileKind::of(Path::new(path)).unwrap();
        assert_eq!(kind("/"), FileKind::Folder);
        assert_eq!([kind("/dev/zero"), kind("/dev/null")], [FileKind::MemoryDevice; 2]);
        assert_eq!(kind("/proc/self/stat"), FileKind::Regular(0));
        assert!(FileKind::of(Path::new("/no/such")).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn a_pipe_is_waited_for_read_and_ended() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let stream = ByteStream::open(Path::new(&path)).unwrap();
        assert_eq!(stream.kind().unwrap(), FileKind::Fifo);
        let mut bytes = [0; 8];
        assert!(!stream.wait(Duration::ZERO).unwrap());
        assert_eq!(stream.read(&mut bytes).unwrap(), None, "nothing yet is not the end");
        writer.write_all(b"abc").unwrap();
        assert!(stream.wait(Duration::from_secs(60)).unwrap());
        assert_eq!(stream.read(&mut bytes).unwrap(), Some(3));
        drop(writer);
        assert!(stream.wait(Duration::from_secs(60)).unwrap());
        assert_eq!(stream.read(&mut bytes).unwrap(), Some(0));
    }
}
