//! Input that is read ahead for another reader, and stays unread until that reader takes it: a
//! file's position is restored; a pipe's bytes are copied and stay in it until they are taken.
//! Input from a terminal or a socket cannot be restored.

use crate::error::{OsError, Result};
use crate::stream::{ByteStream, FileKind};
use rustix::fs::SeekFrom;
use rustix::pipe::SpliceFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A stream of which bytes are read ahead.
#[derive(Debug)]
pub struct Lookahead {
    stream: ByteStream,
    way: WayBack,
}

/// Way in which bytes that were read and not taken stay.
#[derive(Debug)]
enum WayBack {
    /// The position in a file: where reading began, what was read, and what was taken.
    Position { start: u64, read: u64, taken: u64 },
    /// The bytes stay in the pipe, `ahead` of them copied by this pair.
    Copies { reader: OwnedFd, writer: OwnedFd, ahead: usize },
    /// No way back.
    Gone,
}

impl Lookahead {
    /// Begins to read ahead.
    ///
    /// # Errors
    /// No more descriptors are allowed, or the kernel does not report the kind of file.
    pub fn new(stream: ByteStream) -> Result<Self> {
        let way = match stream.kind()? {
            FileKind::Regular(_) => match rustix::fs::tell(&stream) {
                Ok(start) => WayBack::Position { start, read: 0, taken: 0 },
                Err(_) => WayBack::Gone,
            },
            FileKind::Fifo => {
                let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                    .map_err(|e| OsError::new("pipe", e))?;
                WayBack::Copies { reader, writer, ahead: 0 }
            }
            _ => WayBack::Gone,
        };
        Ok(Self { stream, way })
    }

    /// Returns the stream.
    pub fn stream(&self) -> &ByteStream {
        &self.stream
    }

    /// Returns true if nothing can be read before all that was read is taken.
    pub fn is_full(&self) -> bool {
        matches!(self.way, WayBack::Copies { ahead: 1.., .. })
    }

    /// Reads the available bytes, as [`ByteStream::read`] does. Nothing if [`Lookahead::is_full`].
    ///
    /// # Errors
    /// Reading fails.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        match &mut self.way {
            WayBack::Copies { ahead: 1.., .. } => Ok(None),
            WayBack::Copies { reader, writer, ahead } => {
                let source = self.stream.as_fd();
                let copied = rustix::pipe::tee(source, &*writer, into.len(), SpliceFlags::NONBLOCK);
                let bytes = match copied {
                    Ok(bytes) => bytes,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
                    Err(e) => return Err(OsError::new("copying from a pipe", e)),
                };
                let mut got = 0;
                while got < bytes {
                    got += rustix::io::read(&*reader, &mut into[got..bytes])
                        .map_err(|e| OsError::new("reading a pipe", e))?;
                }
                *ahead = bytes;
                Ok(Some(bytes))
            }
            WayBack::Position { read, .. } => {
                let bytes = self.stream.read(into)?;
                *read += bytes.unwrap_or(0) as u64;
                Ok(bytes)
            }
            WayBack::Gone => self.stream.read(into),
        }
    }

    /// Records that the other reader has taken so many bytes.
    ///
    /// # Errors
    /// A pipe cannot be read.
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        match &mut self.way {
            WayBack::Copies { ahead, .. } => {
                let mut piece = vec![0; bytes.min(*ahead)];
                let mut left = piece.len();
                while left > 0 && self.stream.wait(std::time::Duration::ZERO)? {
                    match self.stream.read(&mut piece[..left])? {
                        Some(0) => break,
                        read => left -= read.unwrap_or(0),
                    }
                }
                *ahead -= piece.len();
            }
            WayBack::Position { read, taken, .. } => {
                *taken = taken.saturating_add(bytes as u64).min(*read);
            }
            WayBack::Gone => {}
        }
        Ok(())
    }
}

impl Drop for Lookahead {
    fn drop(&mut self) {
        if let WayBack::Position { start, read, taken } = self.way
            && rustix::fs::tell(&self.stream) == Ok(start + read)
        {
            // If another process has moved the position since, it stays.
            let _ = rustix::fs::seek(&self.stream, SeekFrom::Start(start + taken));
        }
    }
}

/// A pipe to a reader, which holds one piece at a time: when there is room, all has been read.
#[derive(Debug)]
pub struct PieceWriter {
    pipe: OwnedFd,
    /// Bytes of the piece that is in the pipe.
    given: usize,
}

/// Longest piece: any page holds one.
const MAX_PIECE: usize = 4096;

impl PieceWriter {
    /// Writes into `pipe`, which must not block. Where it cannot be made short, more than a piece
    /// looks read.
    pub fn new(pipe: OwnedFd) -> Self {
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, MAX_PIECE);
        Self { pipe, given: 0 }
    }

    /// Returns true while a piece is in the pipe.
    pub fn is_waiting(&self) -> bool {
        self.given > 0
    }

    /// Returns the bytes that have been read since the last call, whole pieces of them.
    pub fn poll_read(&mut self) -> usize {
        if self.unread() > 0 { 0 } else { std::mem::take(&mut self.given) }
    }

    /// Returns the bytes of the piece in the pipe that have been read: nothing more is written.
    pub fn finish(&mut self) -> usize {
        let given = std::mem::take(&mut self.given);
        given.saturating_sub(self.unread())
    }

    fn unread(&self) -> usize {
        rustix::io::ioctl_fionread(&self.pipe)
            .map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns true if the read end is closed.
    pub fn is_closed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.pipe, PollFlags::OUT)];
        poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && fds[0].revents().contains(PollFlags::ERR)
    }

    /// Writes the next piece of `bytes`, once the one before was read. Returns its length.
    ///
    /// # Errors
    /// The read end is closed, or there is no room yet.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        debug_assert!(!self.is_waiting(), "one piece at a time");
        let piece = &bytes[..bytes.len().min(MAX_PIECE)];
        self.given =
            rustix::io::write(&self.pipe, piece).map_err(|e| OsError::new("writing a pipe", e))?;
        Ok(self.given)
    }
}

impl AsFd for PieceWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;
    use std::path::Path;

    fn opened(fd: &impl AsRawFd) -> ByteStream {
        ByteStream::open(Path::new(&format!("/proc/self/fd/{}", fd.as_raw_fd()))).unwrap()
    }

    #[test]
    fn bytes_of_a_pipe_stay_in_it_until_they_are_taken() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let mut ahead = Lookahead::new(opened(&reader)).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(ahead.read(&mut bytes).unwrap(), None, "nothing is there yet");
        writer.write_all(b"one two three").unwrap();
        assert_eq!(ahead.read(&mut bytes).unwrap(), Some(13));
        assert_eq!(&bytes[..13], b"one two three");
        assert!(ahead.is_full());
        assert_eq!(ahead.read(&mut bytes).unwrap(), None, "not twice");
        ahead.take(4).unwrap();
        ahead.take(4).unwrap();
        drop((ahead, writer));
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "three");
    }

    #[test]
    fn the_end_of_a_pipe_is_seen_once_all_is_taken() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut ahead = Lookahead::new(opened(&reader)).unwrap();
        writer.write_all(b"abc").unwrap();
        drop(writer);
        let mut bytes = [0; 64];
        assert_eq!(ahead.read(&mut bytes).unwrap(), Some(3));
        ahead.take(3).unwrap();
        assert_eq!(ahead.read(&mut bytes).unwrap(), Some(0));
    }

    #[test]
    fn the_position_in_a_file_goes_back_to_what_was_taken() {
        let path = std::env::temp_dir().join(format!("lookahead-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").unwrap();
        let mut file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.seek(std::io::SeekFrom::Start(2)).unwrap();
        let name = "the file".to_owned();
        let stream = ByteStream::shared(&file, name).unwrap();
        let mut ahead = Lookahead::new(stream).unwrap();
        let mut bytes = [0; 64];
        assert_eq!(ahead.read(&mut bytes).unwrap(), Some(8));
        ahead.take(3).unwrap();
        drop(ahead);
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "56789");
    }

    #[test]
    fn a_writer_knows_how_much_was_read() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut writer = PieceWriter::new(writer.into());
        assert_eq!(writer.write(&[7; 10_000]).unwrap(), MAX_PIECE);
        assert_eq!((writer.poll_read(), writer.is_waiting()), (0, true));
        let mut bytes = [0; MAX_PIECE];
        reader.read_exact(&mut bytes[..100]).unwrap();
        assert_eq!(writer.poll_read(), 0, "a part of it");
        reader.read_exact(&mut bytes[100..]).unwrap();
        assert_eq!((writer.poll_read(), writer.is_waiting()), (MAX_PIECE, false));
        writer.write(b"rest").unwrap();
        reader.read_exact(&mut bytes[..1]).unwrap();
        assert!(!writer.is_closed());
        drop(reader);
        assert!(writer.is_closed());
        assert_eq!(writer.finish(), 1);
    }
}
