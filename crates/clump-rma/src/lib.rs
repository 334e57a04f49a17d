//! One-sided operations: put, get and atomics on memory that another rank exports, executed without
//! its taking part.
//!
//! Layer 5: programs use it through the facade `clump`. Among the ranks of a node an operation is a
//! load, a store or an atomic on mapped memory. On another node the network interface executes it,
//! a thread of that node's agent, even while every rank there computes (papers 002, 003).
//!
//! Main types: [`Rma`] (a thread's access), [`Segment`] (exported memory of this rank), [`Target`]
//! (any rank's segment, to operate on), [`NodeRegion`] (memory of a node, which outlives ranks),
//! [`Phase`] (gets that complete together); on the side of the agent [`engine::Engine`], which
//! network interfaces (`clump-ni`) run.
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
//! 1. Every word of a request is checked at the node that executes it; nothing outside currently
//!    exported segments is read or written.
//! 2. Memory that an interface keeps for a requester is bounded by the requester's credit.
//! 3. Every request to an interface is executed or refused exactly once, and counted, or it is
//!    known to be lost with its node.
//! 4. A buffer that a get writes to is borrowed until the get has ended, successfully or not.
//! 5. A claim on a lock is granted by its home, or by the rank of the claim before it once the home
//!    has notified that rank. The releasing rank decides which; until its report reaches the home,
//!    the home does not grant the claim.

mod atomic;
mod barrier;
pub mod engine;
mod error;
mod lock;
mod memory;
mod node_region;
mod phase;
pub mod protocol;
mod request_payload;
mod requester;
mod rma;
mod segment;
pub mod service;
mod service_read;
mod target;

pub use clump_shm::export::SegmentName;
pub use clump_shm::region::Pages;

pub use atomic::{AtomicOp, Comparison, Width, Word};
pub use barrier::Barrier;
pub use error::{Error, ErrorKind, Refusal, Result};
pub use lock::{Flag, FlagWords, Guard, Lock, LockTurn, TurnStatus};
pub use memory::{Memory, MemorySupply, NodeSegments, Shortage};
pub use node_region::{NodeRegion, RegionOptions, RegionView};
pub use phase::{OpenPhase, Phase};
pub use requester::{Completion, EncodedRequest, Requester, Successor};
pub use rma::Rma;
pub use segment::Segment;
pub use service::{AdvanceWord, Range, SpreadUpdate, Update};
pub use target::{Pending, Signal, Strides, Target};
