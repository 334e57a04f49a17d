//! Errors of one-sided operations, and their causes.

use clump_shm::export::SegmentName;

/// Reason why an operation on a segment was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// No segment is exported under that name, or not any more.
    #[error("it is not exported (any more)")]
    NoSuchSegment = 1,
    /// The operation reaches beyond the segment's end.
    #[error("that is outside of it")]
    OutOfBounds = 2,
    /// A word is not at a multiple of its size.
    #[error("a word of 8 bytes must be at a multiple of 8, one of 4 at a multiple of 4")]
    Misaligned = 3,
    /// The rank that exported it is dead.
    #[error("its rank has died")]
    OwnerDead = 4,
    /// The node of the segment is lost.
    #[error("its node is lost")]
    NodeLost = 5,
    /// The node does not implement the operation.
    #[error("its node does not implement this operation: are launcher and program of one build?")]
    Unknown = 6,
    /// The rank that held the lock died with it.
    #[error("the rank that held this lock has died with it")]
    HolderDied = 7,
    /// The wait took longer than it was allowed to.
    #[error("it took longer than it was allowed to")]
    TimedOut = 8,
    /// Another rank holds the lock, or too many wait for it.
    #[error("somebody else has it, or too many wait for it")]
    LockBusy = 9,
    /// The rank that releases the lock does not hold it.
    #[error("this rank does not hold this lock")]
    NotHeld = 10,
    /// The machine of the memory has no page left for it.
    #[error("its machine has no memory left for that")]
    NoMemory = 11,
    /// The node's interface has too much under way for that.
    #[error("its node's interface has too much under way; ask for less, or again")]
    Overloaded = 16,
}

impl Refusal {
    /// Reads a reason from an answer; one unknown to this build is [`Refusal::Unknown`].
    pub fn from_bits(bits: u64) -> Self {
        let why = match bits {
            1 => Self::NoSuchSegment,
            2 => Self::OutOfBounds,
            3 => Self::Misaligned,
            4 => Self::OwnerDead,
            5 => Self::NodeLost,
            7 => Self::HolderDied,
            8 => Self::TimedOut,
            9 => Self::LockBusy,
            10 => Self::NotHeld,
            11 => Self::NoMemory,
            16 => Self::Overloaded,
            _ => Self::Unknown,
        };
        debug_assert!(why == Self::Unknown || why as u64 == bits, "answers carry its number");
        why
    }
}

/// Error of this crate.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

impl Error {
    /// Returns what went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// Returns the reason why an operation on a segment was not executed, if this error is about
    /// one.
    pub fn why(&self) -> Option<Refusal> {
        match *self.0 {
            ErrorKind::Refused { why, .. } | ErrorKind::RefusedBefore { why, .. } => Some(why),
            ErrorKind::NodeLost { .. } => Some(Refusal::NodeLost),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<clump_am::Error> for Error {
    #[cold]
    fn from(error: clump_am::Error) -> Self {
        ErrorKind::Messages(error).into()
    }
}

impl From<clump_am::ErrorKind> for Error {
    #[cold]
    fn from(kind: clump_am::ErrorKind) -> Self {
        clump_am::Error::from(kind).into()
    }
}

impl From<clump_shm::Error> for Error {
    #[cold]
    fn from(error: clump_shm::Error) -> Self {
        ErrorKind::Memory(error).into()
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
