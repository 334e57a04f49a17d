//! Protocol of the two sides of a connection: numbers of handlers, and the words of each.
//!
//! `to` is the number that the receiver of a message gave the connection, `from` the sender's.
//! Between jobs a connection has a stack of its own, and both are 0. Counts only grow, so
//! reordering does no harm.

/// Requests. Lower numbers belong to network interfaces ([`clump_onesided::protocol`]).
pub(crate) mod ask {
    /// `port from order`: answered by [`super::tell`].
    pub(crate) const CONNECT: u8 = 16;
    /// `to from number bytes offset` and a payload: a fragment of message `number`, which has
    /// `bytes` bytes.
    pub(crate) const FRAGMENT: u8 = 17;
    /// `to from cost window`: total cost of the data that the program has received, and of what may
    /// be sent beyond it.
    pub(crate) const CREDIT: u8 = 18;
    /// `to from messages`: total number of messages that the sender sends.
    pub(crate) const FINISH: u8 = 19;
    /// `to from messages broken`: as FINISH, and the sender receives no more; broken: the rest of
    /// the last message does not come.
    pub(crate) const CLOSE: u8 = 20;
    /// `to from`: the sender has the key.
    pub(crate) const BEAT: u8 = 21;
}

/// Answers.
pub(crate) mod tell {
    /// `to from`: the connection waits to be accepted.
    pub(crate) const QUEUED: u8 = 32;
    /// `to why`: the connection is refused, with a number of [`super::refusal`].
    pub(crate) const REFUSED: u8 = 33;
}

/// Numbers of refusals.
pub(crate) mod refusal {
    pub(crate) const NO_LISTENER: u64 = 0;
    pub(crate) const QUEUE_FULL: u64 = 1;
}

/// Cost of a fragment in the window besides its bytes, for the memory that it takes.
pub(crate) const FRAGMENT_COST: u64 = 64;

/// Position of a fragment in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    /// Number of the message, from 0.
    pub(crate) number: u64,
    /// Bytes of the message.
    pub(crate) bytes: u64,
    /// Offset of the fragment in it.
    pub(crate) offset: u64,
}

impl FragmentHeader {
    /// Reads the words after `to` and `from`.
    pub(crate) fn of(words: &[u64]) -> Option<Self> {
        let &[_, _, number, bytes, offset] = words else { return None };
        Some(Self { number, bytes, offset })
    }
}
