//! One-sided operations: put, get and atomics on memory that another rank exports, executed without
//! its taking part.
//!
//! Layer 5: programs use it through the facade `clump`. Among the ranks of a node an operation is a
//! load, a store or an atomic on mapped memory. On another node the network interface executes it,
//! a thread of that node's agent, even while every rank there computes (papers 002, 003).
//!
//! Main types: [`Rma`] (a thread's access), [`Segment`] (exported memory of this rank), [`Target`]
//! (any rank's segment, to operate on), [`NodeRegion`] (memory of a node, which outlives ranks),
//! [`Phase`] (gets that complete together). What ranks and interfaces share is in `clump-onesided`,
//! the interfaces are in `clump-interface`.
//!
//! # Ordering
//! 1. Operations are unordered, except as follows.
//! 2. An operation whose result or handle was waited for has been executed: operations begun later
//!    come after it, everywhere.
//! 3. [`Rma::fence`]: operations that this thread begins after it on a target come after all that
//!    it began before it on targets of the same node.
//! 4. [`Rma::quiet`]: when it returns, everything that this thread began has been executed,
//!    everywhere.
//! 5. A signal comes after the put that carries it; a rank that waits for it, or reads it by
//!    [`Target::load`], sees the data put.
//! 6. An atomic operation is atomic with respect to all others on the same word, from any rank and
//!    any node. Aligned words of up to 8 bytes are never torn.
//!
//! # Invariants
//! 1. Every request to an interface is known to be executed, refused, or lost with its node.
//! 2. A buffer that a get writes to is borrowed until the get has ended, successfully or not.

mod barrier;
mod error;
mod lock;
mod node_region;
mod phase;
mod request_payload;
mod rma;
mod segment;
mod services;
mod target;

pub use clump_onesided::{AdvanceWord, AtomicOp, Comparison, Range, SpreadUpdate, Update, Word};
pub use clump_shm::export::SegmentName;
pub use clump_shm::region::Pages;

pub use barrier::Barrier;
pub use error::{Error, ErrorKind, Refusal, Result};
pub use lock::{Flag, Guard, HeldClaim, Lock, LockTable};
pub use node_region::{NodeRegion, RegionOptions, RegionView};
pub use phase::{OpenPhase, Phase};
pub use rma::Rma;
pub use segment::Segment;
pub use target::{Pending, Signal, Strides, Target};
