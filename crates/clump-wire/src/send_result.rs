//! The result of every call that hands a message on.

use crate::reason::Reason;

/// Result of sending a message. Endpoints, transports and stacks give the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendResult {
    /// It is on its way.
    Sent,
    /// There is no room now: poll, and try again.
    Full,
    /// It can never arrive.
    Refused(Reason),
}
