//! clump: active messages, and libraries built on them, for clusters of ordinary machines.
//!
//! Layer 7, the facade that a program imports. Start a program under `clump run -n N`; started
//! alone, it is a job of one rank.
//!
//! Types to know: [`Clump`] (the runtime object, one per process), [`am::Endpoint`] and
//! [`am::SharedEndpoint`], [`Error`].
//!
//! # Invariants
//! 1. A process joins at most once, as the rank its agent told it to be.
//! 2. Dropping the last [`Clump`] finalizes the rank, unless the thread is panicking.
//!
//! ```
//! use clump::am::{Endpoint, Handler, Tag};
//! use std::{cell::Cell, rc::Rc};
//! # fn main() -> clump::Result<()> {
//! let cl = clump::init()?;
//! let ep = Endpoint::open(&cl, Tag(0x5eed))?;
//! let seen = Rc::new(Cell::new(0));
//! ep.set_handler(Handler(1), |token, words, _| token.reply(Handler(2), &[words[0] + 1]));
//! let pong = seen.clone();
//! ep.set_handler(Handler(2), move |_, words, _| pong.set(words[0]));
//! let names = cl.all_gather(ep.name())?;
//! let next = ep.map(&names[(cl.rank() + 1) % cl.nranks()], Tag(0x5eed))?;
//! ep.request(next, Handler(1), &[41])?;
//! ep.poll_until(|| seen.get() == 42)?;
//! cl.barrier()
//! # }
//! ```
#![forbid(unsafe_code)]

mod error;
mod runtime;

pub use error::{Error, Result};
pub use runtime::{Clump, init};

/// Active messages.
pub mod am {
    pub use clump_am::{
        Dest, Endpoint, Error, ErrorKind, Events, Handler, Name, Payload, Reason, Returned,
        Segment, SendAttempt, SharedEndpoint, Tag, Token,
    };
}

/// Connections, within a job and between jobs.
pub mod conn {
    pub use clump_conn::{
        Between, ConnectTarget, Connection, End, Error, Listener, MAX_WAITING, Order, Peer, Port,
        Received, Refusal, Security, SendAttempt, Source, Token, wait_any,
    };
}

/// One-sided operations.
pub mod rma {
    pub use clump_rma::{
        AtomicOp, Barrier, Comparison, Error, ErrorKind, Flag, Guard, Lock, Pending, Phase,
        Refusal, Rma, Segment, SegmentName, Signal, Strides, Target, Word,
    };
}

/// Operations of all-reduce, and their operand types.
pub mod op {
    pub use clump_coll::{And, Max, Min, Number, Op, Or, Plain, Product, Sum, Xor};
}

pub use clump_coll::{Max, Min, Sum};
