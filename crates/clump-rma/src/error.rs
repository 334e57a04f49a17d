//! What can go wrong with a one-sided operation, and whose fault it is.

use clump_shm::export::SegmentName;

/// Why an operation on a segment was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Why {
    /// Nothing is exported under that name, or not any more.
    #[error("it is not exported (any more)")]
    NoSuchSegment = 1,
    /// The operation reaches beyond the segment's end.
    #[error("that is outside of it")]
    OutOfBounds = 2,
    /// Words must lie at multiples of their size.
    #[error("a word of 8 bytes must lie at a multiple of 8, one of 4 at a multiple of 4")]
    Misaligned = 3,
    /// The rank that exported it is dead.
    #[error("its rank has died")]
    OwnerDead = 4,
    /// The node is lost.
    #[error("its node is lost")]
    NodeLost = 5,
    /// What was asked is not known there.
    #[error("its node does not know this operation: are launcher and program of one build?")]
    Unknown = 6,
    /// The rank that held the lock died with it.
    #[error("the rank that held this lock has died with it")]
    HolderDied = 7,
    /// The wait took longer than it was allowed to.
    #[error("it took longer than it was allowed to")]
    TimedOut = 8,
    /// Somebody else has it, or too many wait.
    #[error("somebody else has it, or too many wait for it")]
    LockBusy = 9,
    /// Whoever gives a lock back must hold it.
    #[error("this rank does not hold this lock")]
    NotHeld = 10,
}

impl Why {
    pub(crate) fn from_bits(bits: u64) -> Self {
        match bits {
            1 => Self::NoSuchSegment,
            2 => Self::OutOfBounds,
            3 => Self::Misaligned,
            4 => Self::OwnerDead,
            5 => Self::NodeLost,
            7 => Self::HolderDied,
            8 => Self::TimedOut,
            9 => Self::LockBusy,
            10 => Self::NotHeld,
            _ => Self::Unknown,
        }
    }
}

/// Errors of this crate.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// Why an operation on a segment was not executed, if that is what this is about.
    pub fn why(&self) -> Option<Why> {
        match *self.0 {
            ErrorKind::Refused { why, .. } | ErrorKind::RefusedBefore { why, .. } => Some(why),
            ErrorKind::NodeLost { .. } => Some(Why::NodeLost),
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

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The messages below.
    #[error(transparent)]
    Messages(clump_am::Error),
    /// Shared memory could not be had.
    #[error(transparent)]
    Memory(clump_shm::Error),
    /// An operation was refused.
    #[error("an operation at offset {offset} of {segment} was refused: {why}")]
    Refused {
        /// The segment.
        segment: SegmentName,
        /// Where in it.
        offset: u64,
        /// Why.
        why: Why,
    },
    /// Operations without an answer were refused.
    #[error(
        "{count} operations since the last quiet were refused, the first at offset {offset} of {segment}: {why}"
    )]
    RefusedBefore {
        /// How many.
        count: u64,
        /// The segment of the first.
        segment: SegmentName,
        /// Where in it.
        offset: u64,
        /// Why.
        why: Why,
    },
    /// A node was lost with operations without an answer under way.
    #[error(
        "node {node} is lost: what this thread began there since the last quiet may or may not have happened"
    )]
    NodeLost {
        /// The node.
        node: u32,
    },
    /// A rank exports too many segments.
    #[error("a rank exports at most {0} segments at one time; drop some, or make one larger one")]
    TooManySegments(usize),
    /// A barrier was given names that are not one for each rank.
    #[error("a barrier takes a name for each of {ranks} ranks, by rank, and was given {given}")]
    NotAllNamed {
        /// How many names it was given.
        given: usize,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A segment cannot become that long.
    #[error(
        "{segment} can grow to {reserved} bytes, not to {asked}; reserve more when it is exported"
    )]
    CannotGrow {
        /// The segment.
        segment: SegmentName,
        /// What was asked for.
        asked: u64,
        /// What was reserved.
        reserved: u64,
    },
}

/// What calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal.
#[cold]
pub(crate) fn refused(segment: SegmentName, offset: u64, why: Why) -> Error {
    ErrorKind::Refused { segment, offset, why }.into()
}
