//! One error type: which call failed, and why.

use crate::limit::remedy;
pub use rustix::io::Errno;

/// A system call that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {errno}{}", remedy(*errno))]
pub struct OsError {
    /// The call, with the argument that matters, as a person would say it.
    pub call: String,
    /// The kernel's reason.
    pub errno: Errno,
}

impl OsError {
    /// Names the call that gave `errno`.
    pub fn new(call: impl Into<String>, errno: Errno) -> Self {
        Self { call: call.into(), errno }
    }

    /// Names the call that libc reported as failed, reading `errno` of this thread.
    pub fn last(call: impl Into<String>) -> Self {
        let raw = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self::new(call, Errno::from_raw_os_error(raw))
    }

    /// Names the call that gave `error`.
    pub fn of(call: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(call, error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }

    /// The same as `std::io::Error`, for callers that already speak it.
    pub fn io(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.errno.raw_os_error())
    }
}

/// What calls of this crate return.
pub type Result<T> = std::result::Result<T, OsError>;
