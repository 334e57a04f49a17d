//! Unix sockets between related processes: pairs, and descriptors passed along.
//!
//! Only unnamed pairs: nothing is bound to a path, so no other process can connect and nothing is
//! left behind. A process gets an end only by inheritance.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

/// Creates a pair that keeps message boundaries (`SOCK_SEQPACKET`). Closed on exec unless passed
/// on.
///
/// # Errors
/// No more descriptors are allowed.
pub fn message_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET)
}

/// Creates a pair that carries a stream of bytes. Closed on exec unless passed on.
///
/// # Errors
/// No more descriptors are allowed.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM)
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|e| OsError::new("socketpair", e))
}

/// Sends one message, with a descriptor if one is given.
///
/// # Errors
/// The other end is closed, or the message is too long.
pub fn send(socket: impl AsFd, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let carried = descriptor.as_slice();
    if !carried.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(carried));
    }
    let parts = [IoSlice::new(message)];
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)
        .map_err(|e| OsError::new("sending on a unix socket", e))?;
    Ok(())
}

/// Result of [`receive`].
#[derive(Debug)]
pub enum Received {
    /// A message of this many bytes, and the descriptor that came with it.
    Message(usize, Option<OwnedFd>),
    /// No message is there now.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// Takes the next message if one is there; never blocks. The descriptor is closed on exec.
///
/// # Errors
/// The kernel refuses.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags);
    let bytes = match got {
        Ok(message) => message.bytes,
        Err(Errno::AGAIN) => return Ok(Received::Nothing),
        Err(Errno::CONNRESET) => return Ok(Received::Closed),
        Err(e) => return Err(OsError::new("receiving from a unix socket", e)),
    };
    let mut descriptor = None;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            descriptor = descriptors.into_iter().next().or(descriptor);
        }
    }
    if bytes == 0 && descriptor.is_none() {
        return Ok(Received::Closed);
    }
    Ok(Received::Message(bytes, descriptor))
}

/// Reads the beginning of the next message without taking it; returns `None` when none is there.
pub fn peek(socket: impl AsFd, into: &mut [u8]) -> Option<usize> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let (bytes, _) = rustix::net::recv(socket, into, flags).ok()?;
    (bytes > 0).then_some(bytes)
}

/// Returns true if the other end of `socket` is closed.
pub fn is_closed(socket: impl AsFd) -> bool {
    let mut one = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut one, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Returns true if `socket` is one end of a [`message_pair`].
pub fn is_message_socket(socket: impl AsFd) -> bool {
    let socket = socket.as_fd();
    sockopt::socket_domain(socket).is_ok_and(|d| d == AddressFamily::UNIX)
        && sockopt::socket_type(socket).is_ok_and(|t| t == SocketType::SEQPACKET)
}

/// Returns a descriptor of its own for the one that this process inherited under `number`; the
/// inherited one will be closed on exec from now on. Returns `None` when nothing is open there.
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    if number < 0 {
        return None;
    }
    // SAFETY: only used for two fcntl calls, which answer EBADF when nothing is open there; the
    // descriptor handed out is a new one.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    let own = rustix::io::fcntl_dupfd_cloexec(there, 3).ok()?;
    rustix::io::fcntl_setfd(there, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(own)
}

/// Returns true if this process has something open under `number`.
pub fn is_open(number: RawFd) -> bool {
    // SAFETY: only used for a question, which is answered EBADF when nothing is open there.
    let there = (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) });
    there.is_some_and(|there| rustix::io::fcntl_getfd(there).is_ok())
}

/// Waits until `socket` has something to read, at most for `limit`; without a socket, for `limit`.
pub fn wait_readable(socket: Option<BorrowedFd<'_>>, limit: std::time::Duration) {
    let timeout = rustix::event::Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    let mut waits: Vec<_> = socket
        .iter()
        .map(|fd| rustix::event::PollFd::new(fd, rustix::event::PollFlags::IN))
        .collect();
    // Interrupted or refused: the caller polls, and calls again.
    let _ = rustix::event::poll(&mut waits, Some(&timeout));
}

/// Lets programs that this process starts inherit `descriptor` (clears close-on-exec).
///
/// # Errors
/// The kernel refuses, which it does not for an open descriptor.
pub fn pass_on(descriptor: impl AsFd) -> Result<()> {
    rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())
        .map_err(|e| OsError::new("clearing close-on-exec", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_message_carries_a_descriptor() {
        let (a, b) = message_pair().unwrap();
        let memory = crate::map::sealed_memory("x", 4096).unwrap();
        send(&a, b"hello", Some(memory.as_fd())).unwrap();
        send(&a, b"again", None).unwrap();
        let mut into = [0; 16];
        assert_eq!(peek(&b, &mut into), Some(5));
        let Received::Message(5, Some(got)) = receive(&b, &mut into).unwrap() else { panic!() };
        assert_eq!(&into[..5], b"hello");
        assert_eq!(crate::map::sealed_size(got.as_fd()).unwrap(), Some(4096));
        assert!(matches!(receive(&b, &mut into).unwrap(), Received::Message(5, None)));
        assert!(matches!(receive(&b, &mut into).unwrap(), Received::Nothing));
        drop(a);
        // A program that another test starts has the other end, too, until it is executed.
        wait_readable(Some(b.as_fd()), std::time::Duration::from_secs(10));
        assert!(matches!(receive(&b, &mut into).unwrap(), Received::Closed));
        assert_eq!(peek(&b, &mut into), None);
    }

    #[test]
    fn an_inherited_descriptor_is_found_and_a_missing_one_is_not() {
        let (a, _b) = message_pair().unwrap();
        assert!(is_message_socket(inherited(a.as_raw_fd()).unwrap()));
        assert!(inherited(-1).is_none());
        assert!(inherited(1 << 20).is_none());
        assert!(!is_message_socket(crate::map::sealed_memory("x", 1).unwrap()));
    }
}
