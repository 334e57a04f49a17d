//! Errors of shared virtual memory.

use clump_shm::job::Death;

/// Error of this crate.
pub struct Error {
    kind: Box<ErrorKind>,
    took_part: bool,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.kind, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl Error {
    /// Returns what went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns true if a collective returns the error and this rank took part in it
    /// ([`clump_am::Error::took_part`]): its next collective is the next one of all.
    pub fn took_part(&self) -> bool {
        match &*self.kind {
            ErrorKind::Messages(error) => self.took_part || error.took_part(),
            ErrorKind::Different | ErrorKind::OtherRankFailed => true,
            _ => self.took_part,
        }
    }

    /// Returns the error as one of a collective that this rank took part in.
    pub(crate) fn having_taken_part(mut self) -> Self {
        self.took_part = true;
        self
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
        Self { kind: Box::new(kind), took_part: false }
    }
}

impl From<clump_am::Error> for Error {
    #[cold]
    fn from(error: clump_am::Error) -> Self {
        ErrorKind::Messages(error).into()
    }
}

impl From<clump_shm::Error> for Error {
    #[cold]
    fn from(error: clump_shm::Error) -> Self {
        ErrorKind::Memory(error).into()
    }
}

impl From<clump_os::OsError> for Error {
    #[cold]
    fn from(error: clump_os::OsError) -> Self {
        ErrorKind::System(error).into()
    }
}

impl From<clump_boot::Error> for Error {
    #[cold]
    fn from(error: clump_boot::Error) -> Self {
        ErrorKind::Settings(error).into()
    }
}

/// Kind of an error.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// An error of a message or a collective.
    #[error(transparent)]
    Messages(clump_am::Error),
    /// An error of the job's memory.
    #[error(transparent)]
    Memory(clump_shm::Error),
    /// A system call failed.
    #[error(transparent)]
    System(clump_os::OsError),
    /// A setting has a value that it cannot have.
    #[error(transparent)]
    Settings(clump_boot::Error),
    /// A rank died, and the pages, locks or arrivals that this call waits for with it.
    #[error("{0}; shared virtual memory cannot go on without it")]
    RankDied(Death),
    /// The heap was opened before in this process.
    #[error("shared virtual memory was opened before in this process; clone the Svm")]
    AlreadyOpen,
    /// No address is free in all ranks.
    #[error(
        "no range of {0} bytes of address space is free at the same place in all ranks; open a \
         smaller heap"
    )]
    NoAddress(u64),
    /// The heap cannot begin with the program's variables.
    #[error(
        "the heap does not fit behind the program's globals, at some rank at least: link the \
         program with `clump-cc --clump-threads`, or open a smaller heap"
    )]
    GlobalsEnclosed,
    /// The heap has no room for an allocation.
    #[error(
        "{asked} bytes were asked of a heap of {heap} bytes that has {left} left; open a larger one"
    )]
    HeapFull {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes of the heap.
        heap: u64,
        /// Bytes left.
        left: u64,
    },
    /// An allocation was given a node that the job does not have.
    #[error("node {0} was given as a home, and the job has no such node")]
    NoSuchNode(usize),
    /// The heap was opened without a part for allocations of single ranks.
    #[error("the heap has no dynamic part: open it with SvmOptions::dynamic_bytes")]
    NotDynamic,
    /// Memory was to be made ready that was not allocated, or not all of it.
    #[error(
        "{bytes} bytes of the shared heap at {address:#x} were named, and not all of them were \
         allocated"
    )]
    BeyondAllocated {
        /// The first of them.
        address: usize,
        /// Their number.
        bytes: usize,
    },
    /// An address was given back that is no allocation of a single rank.
    #[error("{0:#x} was given back, and is no memory that a rank has allocated alone")]
    NotAllocated(usize),
    /// A number was used as a lock, flag or condition variable.
    #[error("{0} is the number of no lock, flag or condition variable: was it initialised?")]
    NoObject(u64),
    /// Ranks gave different settings or homes.
    #[error(
        "ranks opened the heap, or allocated in it, with different arguments: all must pass the same"
    )]
    Different,
    /// Another rank could not do its part of a collective.
    #[error(
        "another rank could not do its part of opening the shared heap, or of allocating in it: \
         its own error says why"
    )]
    OtherRankFailed,
    /// The interface of the node has no memory for a page.
    #[error("the machine has no memory left for a page of the shared heap")]
    NoMemory,
    /// A call made no sense.
    #[error(
        "a lock was released that this rank does not hold, or acquired twice by one thread, or \
         several threads of this rank are in one collective of shared virtual memory"
    )]
    Misuse,
    /// The protocol thread of the node cannot be started.
    #[error(
        "the agent of this node may not start the thread that CLUMP_SVM asks for: the limit of \
         processes (ulimit -u) is reached"
    )]
    NoThread,
    /// Nodes do not understand each other.
    #[error("a message of another node's interface made no sense: are all nodes of one build?")]
    BadMessage,
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
