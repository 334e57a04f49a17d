//! One error type for programs.

/// An error of this crate or a layer below. Its `Debug` form is the message too, since `main`
/// prints the `Debug` form of an error that it returns.
#[derive(thiserror::Error)]
pub enum Error {
    /// A message, or a collective.
    #[error(transparent)]
    Messages(#[from] clump_am::Error),
    /// A one-sided operation.
    #[error(transparent)]
    OneSided(#[from] clump_rma::Error),
    /// An operation on the global address space.
    #[error(transparent)]
    GlobalMemory(#[from] clump_pgas::Error),
    /// Shared virtual memory.
    #[error(transparent)]
    SharedMemory(#[from] clump_svm::Error),
    /// A connection.
    #[error(transparent)]
    Connections(#[from] clump_conn::Error),
    /// Starting as a rank.
    #[error(transparent)]
    Boot(#[from] clump_boot::Error),
    /// Starting as a rank of an engine.
    #[error(transparent)]
    Engine(#[from] clump_engines::Error),
    /// The job's memory.
    #[error(transparent)]
    Memory(#[from] clump_shm::Error),
    /// A rank that has no memory for what all ranks allocate.
    #[error("rank {rank} has no memory for what all ranks allocate, and says why itself")]
    NoMemoryAt {
        /// The rank.
        rank: usize,
    },
    /// The rank's trace cannot be written.
    #[error("the trace of this rank cannot be written: {0}; choose another folder (CLUMP_TRACE)")]
    Trace(clump_os::error::OsError),
    /// A rank that could not do its part of a collective, which it said to all others.
    #[error("rank {rank} could not do its part of the collective: its own error says why")]
    RankFailed {
        /// The first such rank.
        rank: usize,
    },
    /// Another process joined as this rank.
    #[error(
        "process {0} has already joined as this rank; only one process of a rank may call init"
    )]
    AlreadyJoined(u32),
    /// The runtime of this process exists.
    #[error("init was called before in this process; clone the Clump it returned instead")]
    AlreadyRunning,
}

impl Error {
    /// Returns true if a collective returns the error and this rank took part in it
    /// ([`clump_am::Error::took_part`]): its next collective is the next one of all.
    pub fn took_part(&self) -> bool {
        match self {
            Self::Messages(error) => error.took_part(),
            Self::GlobalMemory(error) => error.took_part(),
            Self::SharedMemory(error) => error.took_part(),
            Self::NoMemoryAt { .. } | Self::RankFailed { .. } => true,
            _ => false,
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
