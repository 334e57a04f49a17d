//! clump: active messages, and libraries built on them, for clusters of ordinary machines.
//!
//! Layer 7, the facade that a program imports. Start a program under `clump run -n N`; started
//! alone, it is a job of one rank.
//!
//! Types to know: [`Clump`] (the runtime object, one per process), [`Team`] (ranks that execute
//! collectives together), [`am::Endpoint`] and [`am::SharedEndpoint`], [`pgas::Pgas`], [`Error`].
//! Every type of a public signature is exported here, each under a name of its own, so a program
//! depends on no other crate of clump.
//!
//! # Invariants
//! 1. A process joins at most once, as the rank its agent told it to be.
//! 2. Dropping the last [`Clump`] finalizes the rank, unless the thread is panicking.
//!
//! ```
//! use clump::am::{Endpoint, Handler, Tag, Token};
//! use std::{cell::Cell, rc::Rc};
//! # fn main() -> clump::Result<()> {
//! let cl = clump::init()?;
//! let ep = Endpoint::open(&cl, Tag(0x5eed))?;
//! let seen = Rc::new(Cell::new(0));
//! ep.handler(Handler(1), |token: Token, i: u64| token.reply(Handler(2), i + 1))?;
//! let pong = seen.clone();
//! ep.handler(Handler(2), move |_, i: u64| pong.set(i))?;
//! let ranks = cl.map_ranks(&ep)?;
//! ep.request(ranks[(cl.rank() + 1) % cl.nranks()], Handler(1), 41_u64)?;
//! ep.poll_until(|| seen.get() == 42)?;
//! cl.barrier()
//! # }
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod error;
mod leave;
mod runtime;

pub use clump_boot::Error as BootError;
pub use clump_os::OsError;
pub use clump_os::limit::TooLow;
pub use clump_shm::Error as MemoryError;
pub use clump_shm::job::{Death, DeathCause};
pub use error::{Error, Result};
pub use runtime::{Clump, init};

/// Active messages.
pub mod am {
    pub use clump_am::{
        AsContext, Dest, Endpoint, Error as MessageError, ErrorKind as MessageErrorKind, Events,
        FromWords, Handler, HandlerFailure, HandlerResult, MultiThread, Name, Ownership, Payload,
        Reason, Returned, Segment as DepositSegment, SendAttempt, SharedEndpoint, SingleThread,
        Tag, Token, Word as MessageWord, Words,
    };
}

/// Connections, within a job and between jobs.
pub mod conn {
    pub use clump_conn::{
        Between, ConnectTarget, Connection, End, Error as ConnectionError, Listener, MAX_WAITING,
        Order, Peer, Port, Received, Refusal as ConnectionRefusal, Security, SendAttempt, Source,
        Token as ServiceToken, wait_any,
    };
}

/// The global address space.
pub mod pgas {
    pub use clump_pgas::{
        Aggregation, AtomicElement, Bits, BlockStride, BorrowedForm, Dist, DistName, Element,
        ElementFn, ElementPlace, Error as GlobalError, ErrorKind as GlobalErrorKind, GlobalGuard,
        GlobalMutex, GlobalPtr, GlobalRef, Halo, HaloNeighbour, Layout, LocalPart,
        Pending as PendingElement, PendingCall, Pgas, PgasOptions, Phase as GlobalPhase, RawBytes,
        RemoteCalls, RemoteContext, RemoteFn, Result as GlobalResult, Spread, SpreadLayout,
    };
}

/// One-sided operations.
pub mod rma {
    pub use clump_rma::{
        AdvanceWord, AtomicOp, Barrier, Comparison, Error as OneSidedError,
        ErrorKind as OneSidedErrorKind, Flag, Guard, Lock, NodeRegion, Pages, Pending, Phase,
        Range, Refusal, RegionOptions, RegionView, Rma, Segment, SegmentName, Signal, SpreadUpdate,
        Strides, Target, Update, Word,
    };
}

/// Shared virtual memory.
pub mod svm {
    pub use clump_svm::{
        Breakdown, Error as SharedMemoryError, ErrorKind as SharedMemoryErrorKind, HeldLock, Home,
        PartSum, ProgramGlobals, SentMessages, SharedArray, SharedCondvar, SharedFlags,
        SharedGuard, SharedLocks, SharedMatrix, SharedMutex, SharedPart, Svm, SvmOptions,
        SyncObject, ThreadBarrier, TransferCall, TransferPart, WokenRequests,
    };
}

/// Operations of all-reduce, and their operand types.
pub mod op {
    pub use clump_coll::{And, Max, Min, Number, Op, Or, Plain, Product, Sum, Xor};
}

pub use clump_coll::{Max, Min, PendingCollective, Sum, Team};
