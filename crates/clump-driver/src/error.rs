//! Errors of drivers, and the datagrams that they are about.

use crate::refusal::ReceiveFailure;
use clump_os::OsError;
use std::net::SocketAddr;

/// Reason why a driver refused. Loss on the way is no error (invariant 5).
#[derive(Debug, Clone, thiserror::Error)]
pub enum DriverError {
    /// Error of the caller: the local interface carries no datagram of this size to that address.
    /// Datagrams before `index` were taken.
    #[error(
        "datagram {index} of {bytes} bytes to {to} is larger than the local interface carries; \
         send at most what path_hint says"
    )]
    Oversized {
        /// Index in the batch, from 0.
        index: usize,
        /// Its size in bytes.
        bytes: usize,
        /// Its destination.
        to: SocketAddr,
    },
    /// The operating system refused datagram `index` for a permanent reason. Datagrams before
    /// `index` were taken.
    #[error("the operating system does not send datagram {index} to {to}: {source}")]
    Send {
        /// Index in the batch, from 0.
        index: usize,
        /// Its destination.
        to: SocketAddr,
        /// The kernel's reason.
        source: OsError,
    },
    /// The operating system does not receive. It may do so again
    /// ([`ReceiveFailures`](crate::ReceiveFailures)).
    #[error("the operating system receives no datagrams: {0}")]
    Receive(ReceiveFailure),
    /// The operating system failed to set a driver up.
    #[error(transparent)]
    Os(#[from] OsError),
    /// Error of the caller: another driver is attached to the hub under this address.
    #[error("{0} is attached to this hub already; choose another address")]
    AddressTaken(SocketAddr),
    /// Error of the caller: no socket was given, or one of the wrong kind.
    #[error("not usable as a driver: {0}")]
    Socket(&'static str),
}

/// Joins the results of two receptions: a failure counts only if neither received anything.
pub(crate) fn or_received(
    one: Result<usize, DriverError>,
    other: Result<usize, DriverError>,
) -> Result<usize, DriverError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one + other),
        (Ok(received @ 1..), Err(_)) | (Err(_), Ok(received @ 1..)) => Ok(received),
        (Err(e), _) | (Ok(0), Err(e)) => Err(e),
    }
}

impl DriverError {
    /// Shifts the index of the error, whose batch was the part of a larger one after the first
    /// `before` datagrams.
    #[must_use]
    pub fn behind(mut self, before: usize) -> Self {
        if let Self::Oversized { index, .. } | Self::Send { index, .. } = &mut self {
            *index += before;
        }
        self
    }

    /// Replaces the destination by `name`, to which the caller had addressed the datagram.
    pub(crate) fn about(mut self, name: SocketAddr) -> Self {
        if let Self::Oversized { to, .. } | Self::Send { to, .. } = &mut self {
            *to = name;
        }
        self
    }

    /// Returns the index in the batch of the datagram that was refused; those before it were taken.
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Oversized { index, .. } | Self::Send { index, .. } => Some(*index),
            Self::Os(_) | Self::Receive(_) | Self::AddressTaken(_) | Self::Socket(_) => None,
        }
    }
}
