//! Errors of transports.

/// An error of this crate. Refusals by a peer are not among them: such messages are returned to
/// their senders.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Shared memory could not be had.
    #[error(transparent)]
    Memory(#[from] clump_shm::Error),
    /// The network between nodes cannot be used.
    #[error("the network between nodes cannot be used: {0}")]
    Unusable(String),
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
