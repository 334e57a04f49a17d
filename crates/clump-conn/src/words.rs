//! What the two sides of a connection say to each other: numbers of handlers, and the words of each.
//!
//! `to` is the number that the receiver of a message gave the connection, `from` the sender's. Between jobs
//! a connection has a stack of its own, and both are 0. Counts only grow, so what overtakes does no harm.

/// Requests. Lower numbers are those of what network interfaces say ([`clump_rma::protocol`]).
pub(crate) mod ask {
    /// `port from order`: answered by [`super::tell`].
    pub(crate) const CONNECT: u8 = 16;
    /// `to from number bytes offset` and a payload: a piece of message `number`, which is so long.
    pub(crate) const PIECE: u8 = 17;
    /// `to from cost`: so much of what was sent has been received by the program, ever.
    pub(crate) const CREDIT: u8 = 18;
    /// `to from messages`: so many were sent, and no more will be.
    pub(crate) const FINISH: u8 = 19;
    /// `to from messages broken`: the same, and no more are taken; broken: nor does the rest of the last come.
    pub(crate) const CLOSE: u8 = 20;
    /// `to from`: the sender is there.
    pub(crate) const BEAT: u8 = 21;
}

/// Answers.
pub(crate) mod tell {
    /// `to from`: the connection waits to be accepted.
    pub(crate) const QUEUED: u8 = 32;
    /// `to why`: it is refused, see [`super::refusal`].
    pub(crate) const REFUSED: u8 = 33;
}

/// Numbers of refusals.
pub(crate) mod refusal {
    pub(crate) const NO_LISTENER: u64 = 0;
    pub(crate) const QUEUE_FULL: u64 = 1;
}

/// What a piece costs of the window besides its bytes: what it takes to keep it.
pub(crate) const PIECE_COST: u64 = 64;

/// Which piece of which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    /// Number of the message, from 0.
    pub(crate) number: u64,
    /// Bytes of the message.
    pub(crate) bytes: u64,
    /// Where the piece begins in it.
    pub(crate) offset: u64,
}

impl FragmentHeader {
    /// Reads what stands behind `to` and `from`.
    pub(crate) fn of(words: &[u64]) -> Option<Self> {
        let &[_, _, number, bytes, offset] = words else { return None };
        Some(Self { number, bytes, offset })
    }
}
