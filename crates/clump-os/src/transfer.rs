//! System calls that move bytes between a descriptor and memory that other processes may use at the
//! same time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Piece of memory that a call reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TransferPart {
    /// First byte.
    pub first: *mut u8,
    /// Length in bytes.
    pub bytes: usize,
}

const _: () = assert!(size_of::<TransferPart>() == size_of::<libc::iovec>());

/// System call that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferCall {
    /// `readv`.
    Read,
    /// `writev`.
    Write,
    /// `preadv`, from this byte of the file on.
    ReadAt(u64),
    /// `pwritev`, from this byte of the file on.
    WriteAt(u64),
    /// `recvmsg`, with these flags (`MSG_...`).
    Receive(i32),
    /// `sendmsg`, with these flags (`MSG_...`). A closed peer is an error, never a signal.
    Send(i32),
}

impl TransferCall {
    /// Returns true if the call stores to memory.
    pub fn stores(self) -> bool {
        matches!(self, Self::Read | Self::ReadAt(_) | Self::Receive(_))
    }

    /// Returns the call for what follows `moved` bytes.
    #[must_use]
    pub fn behind(self, moved: usize) -> Self {
        match self {
            Self::ReadAt(at) => Self::ReadAt(at.saturating_add(moved as u64)),
            Self::WriteAt(at) => Self::WriteAt(at.saturating_add(moved as u64)),
            other => other,
        }
    }

    /// Returns true if a call may be made in pieces: if the next one, after a whole piece was
    /// moved, neither waits where one call would have returned nor finds other bytes.
    pub fn goes_on(self, fd: BorrowedFd<'_>) -> bool {
        match self {
            Self::ReadAt(_) | Self::WriteAt(_) | Self::Write | Self::Send(_) => true,
            Self::Receive(flags) => flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0,
            Self::Read => rustix::fs::fstat(fd)
                .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()),
        }
    }

    /// Makes the call once. Returns the bytes that were moved.
    ///
    /// # Errors
    /// Fails as the call does.
    ///
    /// # Safety
    /// The parts are memory that the caller may read, and write if the call [`Self::stores`]. No
    /// reference to it exists meanwhile.
    pub unsafe fn make(self, fd: BorrowedFd<'_>, parts: &[TransferPart]) -> io::Result<usize> {
        let fd = fd.as_raw_fd();
        let (first, count) = (parts.as_ptr().cast::<libc::iovec>(), parts.len());
        let number = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
        let place = |at: u64| libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX);
        // SAFETY: all zeroes are a message without address and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = first.cast_mut();
        message.msg_iovlen = count as _;
        // SAFETY: a part has the layout of an iovec; the caller vouches for the memory, and the
        // kernel checks that it is mapped.
        let moved = unsafe {
            match self {
                Self::Read => libc::readv(fd, first, number),
                Self::Write => libc::writev(fd, first, number),
                Self::ReadAt(at) => libc::preadv(fd, first, number, place(at)),
                Self::WriteAt(at) => libc::pwritev(fd, first, number, place(at)),
                Self::Receive(flags) => libc::recvmsg(fd, &raw mut message, flags),
                Self::Send(flags) => {
                    libc::sendmsg(fd, &raw const message, flags | libc::MSG_NOSIGNAL)
                }
            }
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

/// Returns true if a call has failed because its memory was not mapped.
pub fn is_unmapped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Mapping, PAGE, Rights, sealed_memory};
    use std::os::fd::AsFd;

    #[test]
    fn bytes_move_in_parts_and_unmapped_memory_is_told() {
        let fd = sealed_memory("of a test", 2 * PAGE as u64).unwrap();
        let memory = Mapping::shared(&fd, 0, 2 * PAGE).unwrap();
        let part = |first: usize, bytes: usize| TransferPart {
            first: memory.base().as_ptr().wrapping_add(first),
            bytes,
        };
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        // SAFETY: parts of the mapping, which nothing else uses.
        let make = |how: TransferCall, fd: BorrowedFd<'_>, parts: &[TransferPart]| unsafe {
            how.make(fd, parts)
        };
        let file = fd.as_fd();
        assert_eq!(
            make(TransferCall::Send(0), writer.as_fd(), &[part(0, 3), part(9, 4)]).unwrap(),
            7
        );
        assert_eq!(make(TransferCall::Receive(0), reader.as_fd(), &[part(20, 9)]).unwrap(), 7);
        assert_eq!(make(TransferCall::WriteAt(PAGE as u64), file, &[part(0, 8)]).unwrap(), 8);
        assert_eq!(make(TransferCall::ReadAt(PAGE as u64), file, &[part(40, 8)]).unwrap(), 8);
        memory.protect(PAGE, PAGE, Rights::None).unwrap();
        let refused = make(TransferCall::Write, writer.as_fd(), &[part(PAGE, 8)]).unwrap_err();
        assert!(is_unmapped(&refused), "{refused}");
        drop(reader);
        let gone = make(TransferCall::Send(0), writer.as_fd(), &[part(0, 1)]).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        assert!(!is_unmapped(&gone));
    }
}
