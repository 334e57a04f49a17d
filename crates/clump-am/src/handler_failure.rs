//! Failures of handlers.

use clump_wire::Reason;

/// Reason for which a handler did not perform the request of a message.
#[derive(Debug)]
pub enum HandlerFailure {
    /// The handler failed; the poll that ran it returns this text as an error.
    Failed(String),
    /// The handler does not accept the message, which is returned to its sender for this reason.
    /// Only for requests, and only before a reply; for a reply it is an error of the poll.
    Refused(Reason),
}
