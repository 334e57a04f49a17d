//! TCP sockets that never block: for data beside datagrams.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto,
    sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;

/// Result of sending or receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTransfer {
    /// Number of bytes moved, at least one.
    Bytes(usize),
    /// Would block; perhaps the connection is not established yet.
    Blocked,
    /// The connection has ended, or there is none.
    Ended,
}

impl StreamTransfer {
    fn of(result: std::result::Result<usize, Errno>) -> Self {
        match result {
            Ok(0) => StreamTransfer::Ended,
            Ok(bytes) => StreamTransfer::Bytes(bytes),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => {
                StreamTransfer::Blocked
            }
            Err(_) => StreamTransfer::Ended,
        }
    }
}

fn socket(ip: IpAddr) -> std::result::Result<OwnedFd, Errno> {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    rustix::net::bind(&socket, &SocketAddr::new(ip, 0))?;
    Ok(socket)
}

/// Creates a socket that listens at a free port of `ip`; returns it with the port.
///
/// # Errors
/// The address is not of this machine, or no more descriptors are allowed.
pub fn listen(ip: IpAddr) -> Result<(OwnedFd, u16)> {
    let failed = |e| OsError::new(format!("listening at {ip}"), e);
    let socket = socket(ip).map_err(failed)?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
    let bound = rustix::net::getsockname(&socket).map_err(failed)?;
    let bound = SocketAddr::try_from(bound).map_err(failed)?;
    Ok((socket, bound.port()))
}

/// Takes a connection that has been made, if there is one.
pub fn accept(listener: impl AsFd) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::accept_with(listener, flags).ok()
}

/// Begins a connection from `ip` to `to`. [`send`] is blocked until it is made.
///
/// # Errors
/// The kernel refuses at once, or no more descriptors are allowed.
pub fn connect(ip: IpAddr, to: SocketAddr) -> Result<OwnedFd> {
    let failed = |e| OsError::new(format!("connecting to {to}"), e);
    let socket = socket(ip).map_err(failed)?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(failed)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(e) => Err(failed(e)),
    }
}

/// Sends the beginning of these parts, as much as there is room for.
pub fn send(socket: impl AsFd, parts: &[IoSlice<'_>]) -> StreamTransfer {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags);
    StreamTransfer::of(sent)
}

/// Receives what is there into these parts, one behind the other.
pub fn receive(socket: impl AsFd, parts: &mut [IoSliceMut<'_>]) -> StreamTransfer {
    if let [only] = parts {
        let got = rustix::net::recv(socket, &mut **only, RecvFlags::DONTWAIT);
        return StreamTransfer::of(got.map(|(bytes, _)| bytes));
    }
    StreamTransfer::of(rustix::io::readv(socket, parts))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn wait(fd: &OwnedFd, flags: PollFlags) {
        assert!(poll(&mut [PollFd::new(fd, flags)], None).unwrap() > 0);
    }

    #[test]
    fn bytes_go_through_and_the_end_is_seen() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let (listener, port) = listen(local).unwrap();
        assert!(accept(&listener).is_none(), "nobody has connected");
        let client = connect(local, SocketAddr::new(local, port)).unwrap();
        wait(&listener, PollFlags::IN);
        let server = accept(&listener).unwrap();
        let mut place = [0; 8];
        let nothing = receive(&server, &mut [IoSliceMut::new(&mut place)]);
        assert_eq!(nothing, StreamTransfer::Blocked);
        wait(&client, PollFlags::OUT);
        let sent = send(&client, &[IoSlice::new(b"ab"), IoSlice::new(b"cde")]);
        assert_eq!(sent, StreamTransfer::Bytes(5));
        wait(&server, PollFlags::IN);
        let (one, two) = place.split_at_mut(3);
        let parts = &mut [IoSliceMut::new(one), IoSliceMut::new(two)];
        assert_eq!(receive(&server, parts), StreamTransfer::Bytes(5));
        assert_eq!(&place[..5], b"abcde");
        drop(client);
        wait(&server, PollFlags::IN);
        assert_eq!(receive(&server, &mut [IoSliceMut::new(&mut place)]), StreamTransfer::Ended);
    }

    #[test]
    fn nobody_behind_a_port_is_the_end() {
        let local = IpAddr::from([127, 0, 0, 1]);
        let (listener, port) = listen(local).unwrap();
        drop(listener);
        if let Ok(client) = connect(local, SocketAddr::new(local, port)) {
            wait(&client, PollFlags::OUT);
            assert_eq!(send(&client, &[IoSlice::new(b"a")]), StreamTransfer::Ended);
        }
    }
}
