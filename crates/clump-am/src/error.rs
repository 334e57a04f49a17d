//! Errors of active messages, and their causes.

use clump_shm::job::Death;
use clump_shm::name::Name;

crate::layer_error!(Memory(clump_shm::Error));

impl ErrorKind {
    /// Returns true if every error of this kind is of a collective that this rank took part in.
    fn took_part(&self) -> bool {
        matches!(self, Self::TookPart(_))
    }
}

impl From<clump_transport::Error> for Error {
    #[cold]
    fn from(error: clump_transport::Error) -> Self {
        match error {
            clump_transport::Error::Memory(error) => error.into(),
            clump_transport::Error::Unusable(why) => ErrorKind::Network(why).into(),
        }
    }
}

/// Errors of this crate. Refusals by a *peer* are not among them: such messages are returned to
/// handler 0 ([`crate::Returned`]).
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// Shared memory could not be had.
    #[error(transparent)]
    Memory(clump_shm::Error),
    /// A rank of the job died, so what this call waits for may never come.
    #[error("{0}; this rank cannot go on without it")]
    RankDied(Death),
    /// A rank has as many registered regions as it may.
    #[error(
        "this rank has registered {0} regions, segments of endpoints among them, and no rank has more"
    )]
    TooManyRegions(usize),
    /// A region cannot grow to the requested length.
    #[error(
        "a region with address space for {reserved} bytes cannot grow to {asked}; reserve more"
    )]
    CannotGrow {
        /// Requested bytes.
        asked: u64,
        /// Bytes that it may grow to.
        reserved: u64,
    },
    /// The entry of a region does not say what this rank wrote there.
    #[error("another process overwrote an entry of this rank's table of regions")]
    Overwritten,
    /// A region of another rank was given.
    #[error("a region of rank {0} was given; an endpoint takes deposits in its own rank's memory")]
    ForeignRegion(u32),
    /// A segment without bytes was requested.
    #[error("a segment of no bytes takes no deposits; export at least one")]
    EmptySegment,
    /// A collective was given a root that the team does not have.
    #[error("there is no rank {rank} in a team of {ranks}")]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// Ranks of the team.
        ranks: usize,
    },
    /// A collective was not given one value for each rank.
    #[error("{given} values were given to a team of {ranks} ranks; give one for each")]
    NotOneEach {
        /// Number of values.
        given: usize,
        /// Ranks of the team.
        ranks: usize,
    },
    /// A rank ended its part in the job, so what this call waits for will never come.
    #[error(
        "rank {0} has finalized without taking part; all ranks must make the same collective calls"
    )]
    RankLeft(u32),
    /// The process is a child by `fork` of a rank.
    #[error(
        "this process is a child by fork of a rank, and no rank itself: nothing of clump works in it; let it \
         call exec or end"
    )]
    Forked,
    /// A wait that was given up by what polls along with it ([`crate::poll_also`]): the program's
    /// time limit has passed, or a signal came.
    #[error("the wait was given up: {0}")]
    Interrupted(&'static str),
    /// An endpoint was used from one of its own handlers.
    #[error(
        "an endpoint was used from inside one of its handlers: answer with Token::reply, or queue a \
         request with Token::defer"
    )]
    InHandler,
    /// A collective was called inside a handler.
    #[error(
        "a collective was called inside a handler, which may not wait for other ranks; call it when the \
         handler has returned"
    )]
    CollectiveInHandler,
    /// An endpoint was used from a thread that is not its own.
    #[error("an endpoint was used from a thread while it is another's, or busy there")]
    OtherThread,
    /// An endpoint was used after it was closed.
    #[error("there is no endpoint: it was closed")]
    NoEndpoint,
    /// Memory for a copy could not be allocated.
    #[error("there is no memory for a copy of {0} bytes; move less at one time")]
    NoMemory(usize),
    /// A second endpoint was opened in one cell.
    #[error("an endpoint is open there already; close it first")]
    Occupied,
    /// In virtual time all ranks wait for each other.
    #[error("deadlock: all ranks wait, and no message is on its way: {0}")]
    Deadlock(String),
    /// Something that virtual time does not carry out.
    #[error("in virtual time {0}; docs/virtual.md says what is carried out")]
    NotInVirtualTime(&'static str),
    /// Too many words for one message.
    #[error("a message carries at most 8 words, not {0}; put more into the payload")]
    TooManyWords(usize),
    /// A medium message is too long.
    #[error(
        "a medium message carries at most {most} bytes, not {given}; use request_long or split it"
    )]
    PayloadTooLong {
        /// Requested bytes.
        given: usize,
        /// The limit on this node.
        most: usize,
    },
    /// More than a deposit or a collective moves at one time.
    #[error("{given} bytes are more than can be moved at one time, which is {most}; split them")]
    TooMuch {
        /// Requested bytes.
        given: u64,
        /// The limit.
        most: u64,
    },
    /// No destination was mapped under that index.
    #[error("destination {0} is not in this endpoint's translation table; map() it first")]
    NoSuchDestination(u32),
    /// Handler 0 is for returned messages.
    #[error("handler 0 is reserved for returned messages; set it with on_returned")]
    HandlerReserved,
    /// A handler replied to a reply, or a second time.
    #[error("there is nothing to reply to: the message is a reply, or was replied to")]
    NotRequested,
    /// The endpoint has a segment.
    #[error("this endpoint has a segment of {0} bytes already")]
    HasSegment(u64),
    /// Handlers queued more requests than the endpoint keeps.
    #[error("handlers deferred {0} requests that could not be sent yet; let them wait for replies")]
    TooManyDeferred(usize),
    /// A message was returned and no handler for returned messages is set.
    #[error("a message to {dest} came back ({reason}) and no on_returned handler is set")]
    Unclaimed {
        /// The endpoint it was sent to.
        dest: Name,
        /// Reason for the return.
        reason: crate::Reason,
    },
    /// A peer wrote something that no correct sender writes.
    #[error("shared memory written by {0} is damaged: a program error there overwrote a queue")]
    Corrupt(Name),
    /// A peer sent something that no correct sender sends.
    #[error("{0} sent a message that no clump of this version sends; are all ranks of one build?")]
    CorruptPacket(Name),
    /// The network between nodes cannot be used.
    #[error("the network between nodes cannot be used: {0}")]
    Network(String),
    /// A message of a collective came back from a rank that lives.
    #[error(
        "rank {rank} lives, but a message of a collective to it came back ({reason}): this rank and \
         it cannot go on together"
    )]
    CollectiveReturned {
        /// The rank it was sent to.
        rank: u32,
        /// Reason for the return.
        reason: crate::Reason,
    },
    /// An error that does not belong to the collective that reports it.
    #[error("this rank took part in the collective, which is over; before, or meanwhile: {0}")]
    TookPart(Error),
    /// Ranks call different collectives, or give values of different sizes to one.
    #[error("the ranks do not execute the same collective: {0}")]
    Disagreement(String),
    /// A handler failed.
    #[error("handler {handler} failed: {why}")]
    HandlerFailed {
        /// Number of the handler.
        handler: u8,
        /// The handler's error message.
        why: String,
    },
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
