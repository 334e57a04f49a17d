//! Bare UDP calls, one function each, for measuring what the kernel alone can do.
//!
//! The laboratory compares the network path with these. They share no code with the driver that is
//! measured, so that a mistake in one does not hide in the other. Sockets are `std`'s; only what it
//! lacks is here.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// Most datagrams of one [`send_many`], [`receive_many`] or segmented send (`UDP_MAX_SEGMENTS` of
/// old kernels; newer ones take 128).
pub const BATCH: usize = 64;

/// Most bytes of one datagram, or of one segmented send, over IPv4.
pub const LARGEST: usize = 65_507;

/// Sends one datagram on a connected socket by `write`; returns `None` when there is no room.
///
/// # Errors
/// The kernel refuses the datagram.
pub fn write(socket: &UdpSocket, datagram: &[u8]) -> Result<Option<usize>> {
    unless_blocked("write", rustix::io::write(socket.as_fd(), datagram))
}

/// Receives the next datagram of a connected socket by `read`; returns `None` when there is none.
///
/// # Errors
/// The kernel refuses.
pub fn read(socket: &UdpSocket, into: &mut [u8]) -> Result<Option<usize>> {
    unless_blocked("read", rustix::io::read(socket.as_fd(), into))
}

fn unless_blocked(call: &str, outcome: rustix::io::Result<usize>) -> Result<Option<usize>> {
    match outcome {
        Ok(bytes) => Ok(Some(bytes)),
        // Refused: an earlier datagram arrived before the other side was open.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => Ok(None),
        Err(e) => Err(OsError::new(call, e)),
    }
}

/// Sends by `sendmmsg` on a connected socket: `datagrams` cut into parts of `each` bytes, at most
/// [`BATCH`] of them. Returns how many were taken; 0 when there is no room.
///
/// # Errors
/// The kernel refuses the first datagram.
pub fn send_many(socket: &UdpSocket, datagrams: &[u8], each: usize) -> Result<usize> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    let chunks = datagrams.chunks(each.max(1));
    let mut used = 0;
    for (part, chunk) in parts.iter_mut().zip(chunks) {
        *part = libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() };
        used += 1;
    }
    let mut messages = messages_of(&mut parts);
    // SAFETY: the first `used` messages each point at one initialized iovec of `parts`, which
    // points into `datagrams`; all outlive the call, and sendmmsg only reads through them.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), used, libc::MSG_DONTWAIT)
    };
    Ok(counted("sendmmsg", sent)?.unwrap_or(0))
}

/// Receives by `recvmmsg` into `into` cut into parts of `each` bytes, at most [`BATCH`] of them.
/// Returns the datagrams and bytes that came; 0 when there is nothing.
///
/// # Errors
/// The kernel refuses.
pub fn receive_many(socket: &UdpSocket, into: &mut [u8], each: usize) -> Result<(usize, usize)> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    let mut used = 0;
    for (part, chunk) in parts.iter_mut().zip(into.chunks_mut(each.max(1))) {
        *part = libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() };
        used += 1;
    }
    let mut messages = messages_of(&mut parts);
    // SAFETY: the first `used` messages each point at one iovec of `parts`, which covers a part of
    // `into` that nothing else refers to during the call.
    let got = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            used,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
        )
    };
    let got = counted("recvmmsg", got)?.unwrap_or(0);
    Ok((got, messages.iter().take(got).map(|m| m.msg_len as usize).sum()))
}

/// Returns one message for each part; those of unused parts are not passed to the kernel.
fn messages_of(parts: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    // SAFETY: mmsghdr is integers and pointers, for which zero is a valid value.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (message, part) in messages.iter_mut().zip(parts) {
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    messages
}

fn counted(call: &str, outcome: libc::c_int) -> Result<Option<usize>> {
    if let Ok(count) = usize::try_from(outcome) {
        return Ok(Some(count));
    }
    match io::Error::last_os_error().kind() {
        io::ErrorKind::WouldBlock
        | io::ErrorKind::Interrupted
        | io::ErrorKind::ConnectionRefused => Ok(None),
        _ => Err(OsError::last(call)),
    }
}

/// Sets the segment size into which the kernel cuts larger sends (`UDP_SEGMENT`); 0: nothing is
/// cut.
///
/// # Errors
/// The kernel does not have the option.
pub fn set_segment(socket: &UdpSocket, bytes: u16) -> Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into(), "setting UDP_SEGMENT")
}

/// Lets datagrams of one sender arrive joined (`UDP_GRO`), or not.
///
/// # Errors
/// The kernel does not have the option.
pub fn set_joining(socket: &UdpSocket, on: bool) -> Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, on.into(), "setting UDP_GRO")
}

/// Requests socket buffers of `bytes` bytes, past the machine's limit where that is allowed;
/// returns the bytes granted for receiving (the kernel counts its own overhead in it too).
///
/// # Errors
/// The kernel refuses.
pub fn set_buffers(socket: &UdpSocket, bytes: i32) -> Result<usize> {
    for (forced, plain, name) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "setting SO_RCVBUF"),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "setting SO_SNDBUF"),
    ] {
        if set(socket, libc::SOL_SOCKET, forced, bytes, name).is_err() {
            set(socket, libc::SOL_SOCKET, plain, bytes, name)?;
        }
    }
    let granted = value(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, "reading SO_RCVBUF")?;
    Ok(usize::try_from(granted).unwrap_or(0))
}

/// Returns the largest datagram that reaches the peer of a connected IPv4 socket unfragmented
/// (`IP_MTU` less the headers of IP and UDP).
///
/// # Errors
/// The socket is not connected.
pub fn path_datagram(socket: &UdpSocket) -> Result<usize> {
    const HEADERS: i32 = 28;
    let mtu = value(socket, libc::IPPROTO_IP, libc::IP_MTU, "reading IP_MTU")?;
    Ok(usize::try_from(mtu - HEADERS).unwrap_or(0).min(LARGEST))
}

fn set(socket: &UdpSocket, level: i32, option: i32, value: i32, what: &str) -> Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "four bytes")]
    const SIZE: libc::socklen_t = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads four bytes of a live integer.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), SIZE)
    };
    if outcome == 0 { Ok(()) } else { Err(OsError::last(what)) }
}

fn value(socket: &UdpSocket, level: i32, option: i32, what: &str) -> Result<i32> {
    let mut value = 0i32;
    #[expect(clippy::cast_possible_truncation, reason = "four bytes")]
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes, which is what `value` has.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut size)
    };
    if outcome == 0 { Ok(value) } else { Err(OsError::last(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> (UdpSocket, UdpSocket) {
        let open = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (a, b) = (open(), open());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (a, b)
    }

    /// Datagrams sent over loopback have arrived when the call returns.
    #[test]
    fn every_way_out_meets_every_way_in() {
        let (a, b) = connected();
        b.set_nonblocking(true).unwrap();
        let mut into = vec![0; LARGEST];
        assert_eq!(read(&b, &mut into).unwrap(), None);
        assert_eq!(write(&a, b"one").unwrap(), Some(3));
        assert_eq!(read(&b, &mut into).unwrap(), Some(3));
        assert_eq!(send_many(&a, &[7; 250], 100).unwrap(), 3);
        assert_eq!(receive_many(&b, &mut into, 1000).unwrap(), (3, 250));
        assert_eq!(receive_many(&b, &mut into, 1000).unwrap(), (0, 0));
        assert!(set_buffers(&b, 1 << 16).unwrap() >= 1 << 16);
        assert!(path_datagram(&a).unwrap() > 1000);
    }

    #[test]
    fn segments_arrive_cut_or_joined() {
        let (a, b) = connected();
        set_segment(&a, 100).unwrap();
        assert_eq!(a.send(&[7; 250]).unwrap(), 250);
        let mut into = vec![0; LARGEST];
        assert_eq!(receive_many(&b, &mut into, 1000).unwrap(), (3, 250));
        set_joining(&b, true).unwrap();
        a.send(&[7; 250]).unwrap();
        assert_eq!(b.recv(&mut into).unwrap(), 250);
        set_segment(&a, 0).unwrap();
        a.send(&[7; 250]).unwrap();
        assert_eq!(b.recv(&mut into).unwrap(), 250);
    }
}
