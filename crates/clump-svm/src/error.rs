//! Errors of shared virtual memory.

use clump_shm::job::Death;

clump_am::layer_error!(
    Messages(clump_am::Error),
    Memory(clump_shm::Error),
    System(clump_os::OsError),
    Settings(clump_boot::Error),
    Operations(clump_rma::Error),
);

impl ErrorKind {
    /// Returns true if every error of this kind is of a collective that this rank took part in.
    fn took_part(&self) -> bool {
        match self {
            Self::Messages(error) => error.took_part(),
            Self::Different | Self::OtherRankFailed => true,
            _ => false,
        }
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
    /// A one-sided operation failed.
    #[error(transparent)]
    Operations(clump_rma::Error),
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
    /// An operation on the memory of another node was refused.
    #[error("the memory of another node cannot be reached: its interface refuses, or is lost")]
    Unreachable,
    /// A thread cannot take part by itself.
    #[error(
        "this thread has no endpoint left for shared virtual memory: a rank has a bounded number of \
         them, one of which each thread takes that uses the heap"
    )]
    NoPort,
    /// A thread has no time of its own.
    #[error("in virtual time only the thread that has joined uses the shared heap")]
    OtherThread,
    /// Nodes do not understand each other.
    #[error("a message of another node's interface made no sense: are all nodes of one build?")]
    BadMessage,
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
