//! A barrier of all ranks of a job: flags in shared memory within a node, messages between nodes.
//!
//! Within the node every rank writes its own line and reads the others' (docs/adr/0007). Two ranks
//! need one line transfer each way at once. With more ranks than cores no rank has to be scheduled
//! to release the others: a running rank that sees all arrivals continues, and has arrived at the
//! next barrier before it yields, so a rotation of the scheduler is a barrier.
//!
//! Between nodes the rank that sees its node complete first claims the task of notifying the others
//! ([`BarrierMessage`]). The message is sent to the lowest rank of a node, whose handler writes it
//! into that node's memory ([`Listener::handle_message`]), where all read it. This module sends
//! nothing: `clump-coll` does.
//!
//! Types to know: [`Barrier`], and its parts, which do not use node memory and can be
//! model-checked: [`Lines`], [`BarrierProgress`], [`Listener`], [`Round`].
//!
//! # Invariants
//! 1. Barriers are numbered from 1; a line only grows. So a message may come late, early or after
//!    its successor, and lines are never reset.
//! 2. A rank leaves a barrier only after the messages that it claimed are handed over for sending.
//! 3. A rank announces only what it has seen: all lines of its node, and all rounds before.

mod lines;
mod progress;
mod rounds;

#[cfg(test)]
mod tests;

pub use lines::Lines;
pub use progress::{BarrierMessage, BarrierProgress, Listener, Missing};
pub use rounds::{DIRECT, Round, rounds};

#[cfg(not(loom))]
pub use whole::{Barrier, BarrierListener};

#[cfg(not(loom))]
mod whole;
