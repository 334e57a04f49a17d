//! Reasons why an interface or a rank does not execute a one-sided operation.

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
