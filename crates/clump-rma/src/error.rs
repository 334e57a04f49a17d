//! Errors of one-sided operations, and their causes.

pub use clump_onesided::Refusal;
use clump_shm::export::SegmentName;

clump_am::layer_error!(Messages(clump_am::Error), Memory(clump_shm::Error));

impl Error {
    /// Returns the reason why an operation on a segment was not executed, if this error is about
    /// one.
    pub fn why(&self) -> Option<Refusal> {
        match *self.kind() {
            ErrorKind::Refused { why, .. } | ErrorKind::RefusedBefore { why, .. } => Some(why),
            ErrorKind::NodeLost { .. } => Some(Refusal::NodeLost),
            _ => None,
        }
    }
}

impl ErrorKind {
    /// Returns true if every error of this kind is of a collective that this rank took part in.
    fn took_part(&self) -> bool {
        matches!(self, Self::Messages(error) if error.took_part())
    }
}

impl From<clump_am::ErrorKind> for Error {
    #[cold]
    fn from(kind: clump_am::ErrorKind) -> Self {
        clump_am::Error::from(kind).into()
    }
}

/// Kind of an error.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// An error of the message layer below.
    #[error(transparent)]
    Messages(clump_am::Error),
    /// Shared memory could not be allocated or mapped.
    #[error(transparent)]
    Memory(clump_shm::Error),
    /// An operation was refused.
    #[error("an operation at offset {offset} of {segment} was refused: {why}")]
    Refused {
        /// The segment.
        segment: SegmentName,
        /// Offset in the segment.
        offset: u64,
        /// Reason.
        why: Refusal,
    },
    /// Operations without an answer were refused.
    #[error(
        "{count} operations since the last quiet were refused, the first at offset {offset} of {segment}: {why}"
    )]
    RefusedBefore {
        /// Number of refused operations.
        count: u64,
        /// The segment of the first.
        segment: SegmentName,
        /// Offset in that segment.
        offset: u64,
        /// Reason for the first.
        why: Refusal,
    },
    /// A node was lost with operations without an answer in flight.
    #[error(
        "node {node} is lost: what this thread began there since the last quiet may or may not have happened"
    )]
    NodeLost {
        /// The node.
        node: u32,
    },
    /// A barrier was given names that are not one for each rank.
    #[error("a barrier takes a name for each of {ranks} ranks, by rank, and was given {given}")]
    NotAllNamed {
        /// Number of names given.
        given: usize,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A barrier of more nodes than it has rounds for.
    #[error("a barrier over flags takes {limit} nodes at most, and the job has {nodes}")]
    TooManyNodes {
        /// Nodes of the job.
        nodes: u32,
        /// Nodes that it takes.
        limit: u32,
    },
    /// A phase was given a target that another [`crate::Rma`] has opened.
    #[error("{segment} was opened by another `Rma` than this phase, which cannot wait for it")]
    ForeignTarget {
        /// The segment.
        segment: SegmentName,
    },
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns the error for a refusal.
#[cold]
pub(crate) fn refused(segment: SegmentName, offset: u64, why: Refusal) -> Error {
    ErrorKind::Refused { segment, offset, why }.into()
}
