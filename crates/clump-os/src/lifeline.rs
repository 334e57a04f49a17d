//! A connection whose end kills this process: its supervisor, which is not its parent, has ended.

use crate::error::{OsError, Result};
use crate::process;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `F_SETSIG` of the kernel's `fcntl.h`, all architectures.
const SET_SIGNAL: i32 = 10;

/// Has the kernel kill this process when the other end of `socket` closes, or sends anything. A
/// message that was received before may kill it too: the kernel announces a message after it can
/// be received. So nothing is ever sent on a lifeline. A child by `fork` lives on; the socket has
/// to stay open.
///
/// # Errors
/// The kernel refuses.
pub fn hold(socket: impl AsFd) -> Result<()> {
    let number = socket.as_fd().as_raw_fd();
    let pid = i32::try_from(process::own_pid()).unwrap_or(i32::MAX);
    let set = |what, value: i32| {
        // SAFETY: `fcntl` with these commands takes a number, and touches no memory of this
        // program.
        match unsafe { libc::fcntl(number, what, value) } {
            -1 => Err(OsError::of("fcntl on a lifeline", &io::Error::last_os_error())),
            flags => Ok(flags),
        }
    };
    set(libc::F_SETOWN, pid)?;
    set(SET_SIGNAL, libc::SIGKILL)?;
    let flags = set(libc::F_GETFL, 0)?;
    set(libc::F_SETFL, flags | libc::O_ASYNC)?;
    // Its other end may have closed before.
    if crate::socket::is_closed(socket) {
        process::signal(process::own_pid(), crate::signal::KILL)?;
    }
    Ok(())
}
