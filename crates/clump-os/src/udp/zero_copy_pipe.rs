//! Zero-copy send: the kernel reads the pages of a datagram (vmsplice(2), splice(2)).

use super::errno;
use super::send::in_one_piece;
use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Bytes that the pipe must hold: the longest datagram in pages that it does not fill, and some
/// room (F_SETPIPE_SZ).
const PIPE_BYTES: libc::c_int = 1 << 17;

/// Pages that splice(2) hands to a socket at a time; below, the least size of a page.
const PIECE_PAGES: usize = 16;
const MIN_PAGE: usize = 4096;

/// A pipe that passes pages to sockets.
///
/// A datagram of 64 KiB over loopback, us a send: 12 to 14 by `send`, most of it the copy into the
/// kernel's pages; 5 to 7 by this path. Because of its two system calls it pays from some tens of
/// KiB.
#[derive(Debug)]
pub struct ZeroCopyPipe {
    entrance: OwnedFd,
    exit: OwnedFd,
}

impl ZeroCopyPipe {
    /// Creates an empty pipe.
    ///
    /// # Errors
    /// There are too many descriptors, or this user has too many pages in pipes.
    pub fn new() -> Result<Self> {
        let failed = |what| OsError::new(what, errno());
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors to `ends`.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(failed("making a pipe"));
        }
        // SAFETY: both are open, and have no other owner.
        let [exit, entrance] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // SAFETY: takes a number and gives one.
        let bytes = unsafe { libc::fcntl(entrance.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        if bytes < PIPE_BYTES {
            return Err(failed("making a pipe larger"));
        }
        Ok(Self { entrance, exit })
    }

    /// Sends one datagram, or a contiguous run of them that the socket is set to cut
    /// ([`set_segment`](super::set_segment)), by a connected socket; returns `None` if they are not
    /// contiguous. While they may be in flight the kernel reads them in place: changing them
    /// changes what arrives. Before memory is freed that may still be in flight, call [`withdraw`];
    /// otherwise its next contents may be sent.
    ///
    /// # Errors
    /// Nothing was sent. The pipe is not usable any more: drop it.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = &'a [u8]>,
    ) -> Option<std::result::Result<(), Errno>> {
        let (start, bytes) = in_one_piece(datagrams.map(|datagram| [datagram]))?;
        takes(start, bytes).then(|| self.lead(socket, start, bytes))
    }

    /// Passes pages through the pipe. `start` and `bytes` are of memory that is live and borrowed
    /// by the caller of [`ZeroCopyPipe::send`].
    fn lead(
        &mut self,
        socket: BorrowedFd<'_>,
        start: *const u8,
        bytes: usize,
    ) -> std::result::Result<(), Errno> {
        let flags = libc::SPLICE_F_NONBLOCK;
        let piece = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: bytes };
        // SAFETY: the range is live for the call, one borrow or several that touch; into a pipe the
        // kernel only reads it.
        let shown =
            unsafe { libc::vmsplice(self.entrance.as_raw_fd(), &raw const piece, 1, flags) };
        if shown < 0 {
            return Err(errno());
        }
        let mut left = bytes;
        if shown.unsigned_abs() != left {
            return Err(Errno::AGAIN);
        }
        while left > 0 {
            let (exit, socket) = (self.exit.as_raw_fd(), socket.as_raw_fd());
            // SAFETY: both are open; no offsets are given.
            let sent = unsafe {
                libc::splice(exit, ptr::null_mut(), socket, ptr::null_mut(), left, flags)
            };
            match usize::try_from(sent) {
                // A signal came between two parts of the datagram; the next call continues with it.
                Ok(sent) if sent > 0 => left = left.saturating_sub(sent),
                Ok(_) => return Err(Errno::PIPE),
                Err(_) if errno() == Errno::INTR => {}
                Err(_) => return Err(errno()),
            }
        }
        Ok(())
    }
}

/// Replaces the pages wholly inside of `memory`, which the kernel may still read for a zero-copy
/// send: it keeps the old pages with their contents as long as it needs them, and here there are
/// fresh pages of zeroes. Returns true if that was possible.
pub fn withdraw(memory: &mut [MaybeUninit<u8>]) -> bool {
    let skipped = memory.as_ptr().addr().wrapping_neg() % MIN_PAGE;
    let Some(pages) = memory.get_mut(skipped..).filter(|pages| pages.len() >= MIN_PAGE) else {
        return true;
    };
    let bytes = pages.len() / MIN_PAGE * MIN_PAGE;
    // SAFETY: these pages are inside of memory that is borrowed exclusively, and which may hold any
    // bytes.
    unsafe { madvise(pages.as_mut_ptr().cast(), bytes, Advice::LinuxDontNeed) }.is_ok()
}

/// Replaces the pages wholly inside of `memory` by pages of zeroes, which take no memory until they
/// are used. Returns true if that was possible.
pub fn give_back(memory: &mut [u8]) -> bool {
    // SAFETY: the layouts are equal, and all bytes stay initialized: they keep their values, or
    // become zeroes.
    withdraw(unsafe { &mut *(ptr::from_mut(memory) as *mut [MaybeUninit<u8>]) })
}

/// Returns true if this is in so few pages that the kernel passes it on at once. Otherwise it would
/// compute the checksum of UDP itself, slowly, and (seen with Linux 6.18) wrongly where its
/// fragments begin at odd addresses.
#[inline]
fn takes(start: *const u8, bytes: usize) -> bool {
    start.addr() % MIN_PAGE + bytes <= PIECE_PAGES * MIN_PAGE
}
