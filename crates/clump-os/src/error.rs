//! One error type: the call that failed, and the kernel's reason.

use crate::refusal::remedy;
pub use rustix::io::Errno;

/// A system call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {errno}{}", remedy(*errno))]
pub struct OsError {
    /// The call, with the argument that matters, in words.
    pub call: String,
    /// The kernel's reason.
    pub errno: Errno,
}

impl OsError {
    /// Creates an error of the call that returned `errno`.
    pub fn new(call: impl Into<String>, errno: Errno) -> Self {
        Self { call: call.into(), errno }
    }

    /// Creates an error of the call that libc reported as failed, reading `errno` of this thread.
    pub fn last(call: impl Into<String>) -> Self {
        let raw = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self::new(call, Errno::from_raw_os_error(raw))
    }

    /// Creates an error of the call that returned `error`.
    pub fn of(call: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(call, error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }

    /// Returns the error as `std::io::Error`, for callers that use that type.
    pub fn io(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.errno.raw_os_error())
    }
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, OsError>;

/// Sets `errno` of this thread, for calls from C.
pub fn set_errno(raw: i32) {
    // SAFETY: the place of this thread's `errno`, which lives as long as the thread.
    unsafe { *libc::__errno_location() = raw };
}
