//! Virtual time of a job: the clocks of its ranks, and its messages in flight, in the memory of
//! their node (docs/virtual.md, docs/adr/0062).
//!
//! `clump-am` charges sends and receptions here, `clump-os` sends waits here, the agent creates the
//! table and reads the summary. The rules are `clump-virtual`'s.
//!
//! Types to know: [`TimePlan`] (the machine, and where its ranks are), [`Actor`] (the clock of a
//! rank, or of the executor of a node's one-sided operations), [`TimeSummary`].
//!
//! # Invariants
//! 1. One actor holds the token. Nothing but the word that hands it over is accessed by others, so
//!    relaxed accesses suffice: the hand-over is a release, its reception an acquire.
//! 2. An actor that waits is woken at a time that does not depend on the machine's time.
//! 3. A clock never goes back.

mod actor;
mod computation;
mod executor;
mod messages;
mod open;
mod own_line;
mod program_parts;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod thread;
mod turns;

pub use actor::Actor;
pub use computation::Computation;
pub use messages::{Arrival, MessageRole, PendingMessage};
pub use open::{actor, begin, executor, summary};
pub use own_line::OwnLine;
pub use summary::TimeSummary;
pub use thread::Call;
pub use turns::End;

pub use clump_virtual::{CallKind, PageCosts};
use clump_virtual::{Compute, Machine};

/// A job in virtual time: the machine, and where its ranks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimePlan {
    /// The machine.
    pub machine: Machine,
    /// Cost of computation.
    pub compute: Compute,
    /// The folder of its recording, if there is one.
    pub folder: String,
    /// The virtual node of each rank.
    pub node_of: Vec<u32>,
}
