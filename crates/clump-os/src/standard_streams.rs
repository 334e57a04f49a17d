//! Standard input and output of this process, taken over as two streams for one purpose.

use crate::error::{OsError, Result};
use crate::socket;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Takes standard input and output away: returns them under other numbers, closed on exec, and
/// leaves an empty input and the error stream in their places. So nothing that this process prints
/// by accident gets between the bytes of the streams.
///
/// # Errors
/// Fails if one of them is closed, or if no more descriptors are allowed.
pub fn take() -> Result<(OwnedFd, OwnedFd)> {
    let closed = |name| move || OsError::new(format!("standard {name} is closed"), Errno::BADF);
    let input = socket::inherited(0).ok_or_else(closed("input"))?;
    let output = socket::inherited(1).ok_or_else(closed("output"))?;
    let empty = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| OsError::new("opening /dev/null", e))?;
    replace(0, empty.as_raw_fd())?;
    // An error stream that is closed takes nothing, and neither does the empty file.
    replace(1, 2).or_else(|_| replace(1, empty.as_raw_fd()))?;
    Ok((input, output))
}

fn replace(number: RawFd, by: RawFd) -> Result<()> {
    // SAFETY: standard streams belong to the whole process, and nothing here owns them; the kernel
    // answers EBADF where `by` is not open.
    if unsafe { libc::dup2(by, number) } == -1 {
        return Err(OsError::of("replacing a standard stream", &io::Error::last_os_error()));
    }
    Ok(())
}
