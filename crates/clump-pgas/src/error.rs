//! Errors of the global address space.

use clump_rma::SegmentName;

clump_am::layer_error!(OneSided(clump_rma::Error), Messages(clump_am::Error));

impl Error {
    /// Returns true if a poll has this error of one message that it handled, or of something that
    /// was begun before: the next poll continues behind it.
    pub(crate) fn is_of_a_message(&self) -> bool {
        use clump_am::ErrorKind::{HandlerFailed, TookPart, Unclaimed};
        let of_message = |error: &clump_am::Error| {
            matches!(error.kind(), HandlerFailed { .. } | TookPart(_) | Unclaimed { .. })
        };
        match self.kind() {
            ErrorKind::Messages(error) => of_message(error),
            ErrorKind::OneSided(error) => error.why().is_some(),
            _ => true,
        }
    }
}

impl ErrorKind {
    /// Returns true if every error of this kind is of a collective that this rank took part in.
    fn took_part(&self) -> bool {
        match self {
            Self::TookPart(_) | Self::DifferentFunctions { .. } => true,
            Self::Messages(error) => error.took_part(),
            _ => false,
        }
    }
}

/// Kind of an error.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// An error of a one-sided operation.
    #[error(transparent)]
    OneSided(clump_rma::Error),
    /// An error of a message or a collective.
    #[error(transparent)]
    Messages(clump_am::Error),
    /// An error that does not belong to the collective that reports it.
    #[error("this rank took part in the collective, which is over; before, or meanwhile: {0}")]
    TookPart(Error),
    /// A rank that could not do its part of a collective, and reported that to all others.
    #[error("rank {rank} could not do its part of the collective: its own error has the reason")]
    RankFailed {
        /// The first such rank.
        rank: usize,
    },
    /// An index beyond the end of an array.
    #[error("element {index} was accessed of an array that has {len}")]
    NoSuchElement {
        /// The index.
        index: usize,
        /// Elements of the array.
        len: usize,
    },
    /// A pointer outside of the memory that it was made of, or not at a multiple of its type's
    /// size.
    #[error(
        "a pointer to {bytes} bytes at offset {offset} of {segment} was used: its memory has {end} \
         bytes, and elements lie at multiples of their size"
    )]
    BadPointer {
        /// Segment of the memory.
        segment: SegmentName,
        /// Offset in it.
        offset: u64,
        /// Bytes that were to be accessed.
        bytes: u64,
        /// Bytes of the memory.
        end: u64,
    },
    /// Slices of different lengths, of which each element of one belongs to one of the other.
    #[error("{given} values were given for {wanted} elements")]
    WrongLength {
        /// Values given.
        given: usize,
        /// Elements that need one each.
        wanted: usize,
    },
    /// An array that no memory can hold, or of elements without size, or in blocks of none.
    #[error("an array of {len} elements of {bytes} bytes, in blocks of {block}, cannot be spread")]
    BadArray {
        /// Elements.
        len: usize,
        /// Bytes of each.
        bytes: usize,
        /// Elements of a block.
        block: usize,
    },
    /// A rank that has no memory for its part of an array.
    #[error(
        "rank {rank} has no memory for its {bytes} bytes of an array; its own error has the reason"
    )]
    NoMemoryAt {
        /// The rank.
        rank: usize,
        /// Bytes of its part.
        bytes: u64,
    },
    /// Ranks requested different arrays in one collective.
    #[error("ranks ask for different arrays: all must give the same length, layout and type")]
    DifferentArrays,
    /// Neighbours do not agree about an exchange of boundaries.
    #[error(
        "rank {rank} and a neighbour of it do not name each other, at these positions and with one \
         length, in an exchange of boundaries"
    )]
    DifferentHalos {
        /// The first such rank.
        rank: usize,
    },
    /// A rank that the job does not have.
    #[error("rank {rank} was called, which the job does not have")]
    NoSuchRank {
        /// The rank.
        rank: usize,
    },
    /// Ranks have registered different functions, or made different objects.
    #[error(
        "rank {rank} has registered something else than `{name}`: all ranks register the same \
         functions and objects in the same order, and run the same build"
    )]
    DifferentFunctions {
        /// Name of the function here.
        name: String,
        /// The first rank that differs.
        rank: usize,
    },
    /// Arguments or a result longer than a message.
    #[error("{bytes} bytes of arguments or of a result do not fit into a message of {most}")]
    CallTooLong {
        /// Bytes of it.
        bytes: usize,
        /// Most that fit.
        most: usize,
    },
    /// Arguments or a result that cannot be written as bytes, or read from them.
    #[error("arguments or a result cannot be written as bytes, or read from them")]
    BadArguments,
    /// A function that this rank has not registered.
    #[error("function number {number} was called, which this rank has not registered")]
    NoSuchFunction {
        /// Number of the function.
        number: u64,
    },
    /// An object that this rank has not, or of another type.
    #[error("this rank has no such object (any more)")]
    NoSuchObject,
    /// An object that is in use.
    #[error("this object is in use: what uses it polls, or calls itself")]
    ObjectInUse,
    /// Attempts at a lock without an end.
    #[error(
        "livelock: {attempts} attempts at locks of this rank on end, and no progress; {failed} of its \
         own have failed so far. Ranks that wait in queues send none"
    )]
    Livelock {
        /// Calls that were served on end.
        attempts: u64,
        /// Attempts of this rank that have failed since the array was created.
        failed: u64,
    },
    /// The failure of a function, in its own words.
    #[error("{text}")]
    FunctionFailed {
        /// Text of the failure.
        text: String,
    },
    /// A call that failed where it was executed.
    #[error("a call at rank {rank} failed: {text}")]
    CallFailed {
        /// The rank.
        rank: usize,
        /// Text of its error.
        text: String,
    },
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;
