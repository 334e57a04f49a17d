//! What a driver cannot do, and which datagram it was about.

use clump_os::OsError;
use std::net::SocketAddr;

/// Why a driver refused. What merely was lost on the way is no error (invariant 5).
#[derive(Debug, Clone, thiserror::Error)]
pub enum DriverError {
    /// The caller's fault: the local interface carries no datagram of this size to that address.
    /// Datagrams before `index` were taken.
    #[error(
        "datagram {index} of {bytes} bytes to {to} is larger than the local interface carries; \
         send at most what path_hint says"
    )]
    Oversized {
        /// Place in the batch, from 0.
        index: usize,
        /// Its size in bytes.
        bytes: usize,
        /// Where it should have gone.
        to: SocketAddr,
    },
    /// The operating system refused datagram `index` for a reason that waiting will not cure.
    /// Datagrams before `index` were taken.
    #[error("the operating system does not send datagram {index} to {to}: {source}")]
    Send {
        /// Place in the batch, from 0.
        index: usize,
        /// Where it should have gone.
        to: SocketAddr,
        /// The kernel's reason.
        source: OsError,
    },
    /// The operating system failed to receive or to set a driver up.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The caller's fault: somebody else is attached to the hub under this address.
    #[error("{0} is attached to this hub already; choose another address")]
    AddressTaken(SocketAddr),
    /// The caller's fault: no socket was given, or one that is not what it should be.
    #[error("not usable as a driver: {0}")]
    Socket(&'static str),
}

impl DriverError {
    /// The same about a batch of which the one refused was the part behind the first `before`.
    #[must_use]
    pub fn behind(mut self, before: usize) -> Self {
        if let Self::Oversized { index, .. } | Self::Send { index, .. } = &mut self {
            *index += before;
        }
        self
    }

    /// The same about a datagram that the caller had addressed to `name`.
    pub(crate) fn about(mut self, name: SocketAddr) -> Self {
        if let Self::Oversized { to, .. } | Self::Send { to, .. } = &mut self {
            *to = name;
        }
        self
    }

    /// The place in the batch of the datagram that was refused; those before it were taken.
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Oversized { index, .. } | Self::Send { index, .. } => Some(*index),
            Self::Os(_) | Self::AddressTaken(_) | Self::Socket(_) => None,
        }
    }
}
