//! One-sided operations: put, get, atomics on memory that another rank exports, executed without it.
//!
//! Layer 4: programs use it through the facade `clump`. Among the ranks of a node an operation is a load, a
//! store or an atomic on mapped memory. On another node the network interface executes it, a thread of
//! that node's agent, even while every rank there computes (papers 002, 003).
//!
//! Types to know: [`Rma`] (a thread's access), [`Segment`] (memory of one's own that is exported),
//! [`Target`] (somebody's segment, to operate on), [`Phase`] (gets that complete together); on the side of
//! the agent [`engine::Engine`], which network interfaces (`clump-ni`) run.
//!
//! # Ordering
//! 1. Operations are in no order, but for what follows.
//! 2. An operation whose result or handle was waited for has happened: whatever begins later comes after
//!    it, everywhere.
//! 3. [`Rma::fence`]: what this thread begins after it on a target comes after all that it began before it
//!    on targets of the same node.
//! 4. [`Rma::quiet`]: when it returns, everything that this thread began has happened, everywhere.
//! 5. A signal comes after the put that carries it; whoever waits for it, or reads it by
//!    [`Target::load`], sees what was put.
//! 6. An atomic operation is one with respect to all others on the same word, by whomever and from
//!    wherever. Aligned words of up to 8 bytes are never torn.
//!
//! # Invariants
//! 1. Every word of a request is checked at the node that executes it; nothing outside of segments that
//!    are exported now is read or written.
//! 2. What an interface keeps for a requester is bounded by the requester's credit.
//! 3. Every request to an interface is executed or refused exactly once, and counted, or it is known to be
//!    lost with its node.
//! 4. A buffer that a get writes to is borrowed until the get has ended, in whatever way.
//! 5. A claim on a lock is granted by its home, or by who has the lock just before it once the home has told that one
//!    of it. Who gives back decides which; until its home has heard that, it does not grant the claim.

mod atomic;
mod barrier;
pub mod engine;
mod error;
mod lock;
mod memory;
mod phase;
pub mod protocol;
mod requester;
mod rma;
mod segment;
mod target;

pub use clump_shm::export::SegmentName;

pub use atomic::{AtomicOp, Comparison, Width, Word};
pub use barrier::Barrier;
pub use error::{Error, ErrorKind, Result, Why};
pub use lock::{Flag, FlagWords, Guard, Lock, Look, Turn};
pub use memory::{Memory, NodeSegments};
pub use phase::{OpenPhase, Phase};
pub use requester::{Fate, Heir, Requester, Worded};
pub use rma::Rma;
pub use segment::Segment;
pub use target::{Pending, Signal, Strides, Target};
