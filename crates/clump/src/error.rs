//! One error for programs.

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A message, or a collective.
    #[error(transparent)]
    Messages(#[from] clump_am::Error),
    /// Starting as a rank.
    #[error(transparent)]
    Boot(#[from] clump_boot::Error),
    /// The job's memory.
    #[error(transparent)]
    Memory(#[from] clump_shm::Error),
    /// Another process joined as this rank.
    #[error(
        "process {0} has already joined as this rank; only one process of a rank may call init"
    )]
    AlreadyJoined(u32),
    /// The runtime of this process exists.
    #[error("init was called before in this process; clone the Clump it returned instead")]
    AlreadyRunning,
}

/// What calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;
