//! Listening sockets of this machine without a file: names that end with their socket, and callers
//! that the kernel names.

use crate::error::{OsError, Result};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Creates a socket that listens under `name`.
///
/// # Errors
/// The name is taken, or too long.
pub fn listen(name: &str) -> Result<UnixListener> {
    let listener = SocketAddr::from_abstract_name(name).and_then(|at| UnixListener::bind_addr(&at));
    listener.map_err(|e| OsError::of(format!("listening as {name}"), &e))
}

/// Connects to the socket that listens under `name`. Its owner must be of this process's user.
///
/// # Errors
/// No socket listens there, or one of another user does.
pub fn connect(name: &str) -> Result<UnixStream> {
    let stream = SocketAddr::from_abstract_name(name).and_then(|at| UnixStream::connect_addr(&at));
    let stream = stream.map_err(|e| OsError::of(format!("connecting to {name}"), &e))?;
    peer_of(&stream).map(|_| stream)
}

/// Returns the number of the process at the other end.
///
/// # Errors
/// It belongs to another user, or is outside this process's PID namespace.
pub fn peer_of(stream: impl AsFd) -> Result<u32> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|e| OsError::new("asking for a caller", e))?;
    if peer.uid != rustix::process::getuid() {
        let what = format!("a connection with user {}", peer.uid.as_raw());
        return Err(OsError::new(what, rustix::io::Errno::PERM));
    }
    Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn callers_are_known_and_names_are_taken_once() {
        let name = format!("clump-test-{:016x}", process::random().unwrap());
        assert!(connect(&name).is_err(), "no process listens");
        let listener = listen(&name).unwrap();
        assert!(listen(&name).is_err(), "it is taken");
        let caller = connect(&name).unwrap();
        let (taken, _) = listener.accept().unwrap();
        assert_eq!(peer_of(&taken).unwrap(), process::own_pid());
        assert_eq!(peer_of(&caller).unwrap(), process::own_pid());
        drop((listener, taken));
        assert!(connect(&name).is_err(), "a name ends with its socket");
    }
}
