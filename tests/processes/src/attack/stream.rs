//! Standard streams of every kind, and the other side of each.

use super::place::Folder;
use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pty::OpenptFlags;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;

/// Content of inputs that can be read.
const TEXT: &[u8] = b"one line\nand another, without an end";

/// A standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// `/dev/null`.
    Null,
    /// A file with text.
    File,
    /// `/dev/full`, which is full of zeros.
    Full,
    /// A pipe with text, whose writer is gone.
    Pipe,
    /// A pipe whose writer stays and writes nothing.
    PipeHeld,
    /// A closed descriptor.
    Closed,
    /// A terminal at which a line was typed, and the end of the input.
    Terminal,
    /// A terminal whose other side has hung up.
    TerminalGone,
    /// A connected socket with text.
    Socket,
    /// A FIFO whose writer is gone.
    Fifo,
    /// A folder.
    Folder,
}

/// A standard output or error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A pipe that is read.
    Pipe,
    /// `/dev/null`.
    Null,
    /// A file.
    File,
    /// `/dev/full`, to which all writes fail.
    Full,
    /// A pipe that is not read.
    PipeUnread,
    /// A pipe whose reader is gone.
    PipeClosed,
    /// A duplicate of standard output.
    Same,
    /// A closed descriptor.
    Closed,
    /// A terminal that is read.
    Terminal,
    /// A terminal that is not read.
    TerminalUnread,
    /// A terminal whose other side has hung up.
    TerminalGone,
    /// A connected socket that is read.
    Socket,
    /// A connected socket that is not read.
    SocketUnread,
    /// A socket whose other side is gone.
    SocketClosed,
    /// A FIFO that is read.
    Fifo,
    /// A file that is open for reading only.
    ReadOnly,
}

/// Every input.
pub const INPUTS: &[Input] = &[
    Input::Null,
    Input::File,
    Input::Full,
    Input::Pipe,
    Input::PipeHeld,
    Input::Closed,
    Input::Terminal,
    Input::TerminalGone,
    Input::Socket,
    Input::Fifo,
    Input::Folder,
];

/// Every output.
pub const OUTPUTS: &[Output] = &[
    Output::Pipe,
    Output::Null,
    Output::File,
    Output::Full,
    Output::PipeUnread,
    Output::PipeClosed,
    Output::Same,
    Output::Closed,
    Output::Terminal,
    Output::TerminalUnread,
    Output::TerminalGone,
    Output::Socket,
    Output::SocketUnread,
    Output::SocketClosed,
    Output::Fifo,
    Output::ReadOnly,
];

impl Output {
    /// Returns true if its output can be checked.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Pipe | Self::File | Self::Terminal | Self::Socket | Self::Fifo)
    }

    /// Returns true if writing there fails.
    pub fn fails(self) -> bool {
        self.is_gone() || matches!(self, Self::Full | Self::ReadOnly)
    }

    /// Returns true if its reader is gone.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::PipeClosed | Self::SocketClosed | Self::TerminalGone)
    }

    /// Returns true if writing there waits for a reader that does not come.
    pub fn is_stuck(self) -> bool {
        matches!(self, Self::PipeUnread | Self::TerminalUnread | Self::SocketUnread)
    }

    /// Returns true if it is a terminal.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Terminal | Self::TerminalUnread | Self::TerminalGone)
    }
}

/// An open stream.
#[derive(Debug, Default)]
pub struct Opened {
    /// The job's descriptor; `None` if it is closed.
    pub inner: Option<OwnedFd>,
    /// The other side, to be read to its end.
    pub read: Option<File>,
    /// The other side, to be held while the job runs.
    pub held: Option<OwnedFd>,
}

impl Opened {
    fn only(inner: impl Into<OwnedFd>) -> Self {
        Self { inner: Some(inner.into()), ..Self::default() }
    }
}

impl Input {
    /// Returns true if a reader finds text, and may copy it.
    pub fn holds_text(self) -> bool {
        matches!(self, Self::File | Self::Full | Self::Pipe | Self::Socket | Self::Fifo)
    }

    /// Opens it.
    ///
    /// # Errors
    /// Fails if the machine refuses it.
    pub fn open(self, folder: &Folder) -> Result<Opened> {
        let path = folder.path().join("input");
        Ok(match self {
            Self::Null => Opened::only(open("/dev/null", false)?),
            Self::File => {
                std::fs::write(&path, TEXT)?;
                Opened::only(File::open(&path)?)
            }
            Self::Full => Opened::only(open("/dev/full", false)?),
            Self::Pipe => {
                let (reader, mut writer) = std::io::pipe()?;
                writer.write_all(TEXT)?;
                Opened::only(reader)
            }
            Self::PipeHeld => {
                let (reader, writer) = std::io::pipe()?;
                Opened { held: Some(writer.into()), ..Opened::only(reader) }
            }
            Self::Closed => Opened::default(),
            Self::Terminal => {
                let (other, own) = terminal()?;
                // The end of the input, too: the first rank reads what is typed.
                File::from(other.try_clone()?).write_all(b"a line\n\x04")?;
                Opened { held: Some(other), ..Opened::only(own) }
            }
            Self::TerminalGone => Opened::only(terminal()?.1),
            Self::Socket => {
                let (other, own) = sockets()?;
                File::from(other).write_all(TEXT)?;
                Opened::only(own)
            }
            Self::Fifo => {
                let fifo = fifo(&path)?;
                (&fifo).write_all(TEXT)?;
                let own = File::open(&path)?;
                Opened::only(own)
            }
            Self::Folder => Opened::only(File::open(folder.path())?),
        })
    }
}

impl Output {
    /// Opens it; `name` is that of a file, if it is one. [`Output::Same`] opens nothing of its
    /// own.
    ///
    /// # Errors
    /// Fails if the machine refuses it.
    pub fn open(self, folder: &Folder, name: &str) -> Result<Opened> {
        let path = folder.path().join(name);
        Ok(match self {
            Self::Pipe | Self::PipeUnread | Self::PipeClosed => {
                let (reader, writer) = std::io::pipe()?;
                self.with_other(reader.into(), writer.into())
            }
            Self::Terminal | Self::TerminalUnread | Self::TerminalGone => {
                let (other, own) = terminal()?;
                self.with_other(other, own)
            }
            Self::Socket | Self::SocketUnread | Self::SocketClosed => {
                let (other, own) = sockets()?;
                self.with_other(other, own)
            }
            Self::Fifo => {
                let reader = fifo(&path)?;
                let own = OpenOptions::new().write(true).open(&path)?;
                // A descriptor that both reads and writes would never see the end.
                let only_reader = File::open(&path)?;
                drop(reader);
                self.with_other(only_reader.into(), own.into())
            }
            Self::File => {
                let own = File::create(&path)?;
                Opened { read: Some(File::open(&path)?), ..Opened::only(own) }
            }
            Self::ReadOnly => {
                std::fs::write(&path, "")?;
                Opened::only(File::open(&path)?)
            }
            Self::Null => Opened::only(open("/dev/null", true)?),
            Self::Full => Opened::only(open("/dev/full", true)?),
            Self::Same | Self::Closed => Opened::default(),
        })
    }

    fn with_other(self, other: OwnedFd, own: OwnedFd) -> Opened {
        let opened = Opened::only(own);
        if self.is_read() {
            Opened { read: Some(other.into()), ..opened }
        } else if self.is_stuck() {
            Opened { held: Some(other), ..opened }
        } else {
            opened
        }
    }
}

fn open(path: &str, write: bool) -> Result<File> {
    OpenOptions::new().read(!write).write(write).open(path).with_context(|| path.to_owned())
}

/// Opens a new terminal; returns its other side, and the terminal.
fn terminal() -> Result<(OwnedFd, OwnedFd)> {
    let other =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&other)?;
    rustix::pty::unlockpt(&other)?;
    let name = rustix::pty::ptsname(&other, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = rustix::fs::open(&name, flags, Mode::empty())?;
    Ok((other, own))
}

fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(kind.0, kind.1, kind.2, None)?)
}

/// Makes a new FIFO, open for reading and writing, which does not block.
fn fifo(path: &std::path::Path) -> Result<File> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?;
    Ok(OpenOptions::new().read(true).write(true).open(path)?)
}
