//! Errors of the global address space.

use clump_rma::SegmentName;

/// Error of this crate.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

impl Error {
    /// Returns what went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
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

impl From<clump_rma::Error> for Error {
    #[cold]
    fn from(error: clump_rma::Error) -> Self {
        ErrorKind::OneSided(error).into()
    }
}

impl From<clump_am::Error> for Error {
    #[cold]
    fn from(error: clump_am::Error) -> Self {
        ErrorKind::Messages(error).into()
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
    /// Ranks asked for different arrays in one collective.
    #[error("ranks ask for different arrays: all must give the same length, layout and type")]
    DifferentArrays,
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;
