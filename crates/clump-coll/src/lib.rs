//! Collectives: barrier, broadcast, gather, all-gather, scatter, all-to-all, reduce, all-reduce and
//! scan.
//!
//! Layer 5: the facade, and later the shared-memory and global-address-space layers, use it; it
//! communicates through one endpoint per rank (`clump-am`) and the barrier lines of the node
//! (`clump-shm`). It is a layer of its own because both layers above need it and do not know each
//! other (docs/adr/0003).
//!
//! Types to know: [`Team`] (ranks that execute collectives together), [`Op`] with [`Sum`], [`Min`],
//! [`Max`] and the like, [`Number`].
//!
//! # Invariants
//! 1. Collectives of a team are numbered; all ranks call the same ones in the same order. One
//!    thread of a rank calls them at a time (ensured by a lock).
//! 2. All ranks get the same bits: operands are combined in rank order, whatever arrives first.
//! 3. A collective that cannot end because a rank died or left fails and names it, at all ranks;
//!    where a rank left, all later ones fail alike.
//! 4. A rank that sees a contribution to another operation than its own, or of another size, fails
//!    its collective and tells all others; later collectives go on.
//! 5. Nothing depends on the order of messages: between nodes they overtake each other. A fragment
//!    of a contribution says where it belongs, and barriers are numbered.
//! 6. A failure that is not the collective's own (a handler of another endpoint fails meanwhile)
//!    does not end it at one rank alone: the next barrier reports it behind its own end, or the
//!    next call that polls.
//! 7. A message that comes back from a rank that lives ends all collectives, at all ranks, with an
//!    error that names it.
#![forbid(unsafe_code)]

mod all_gather;
mod all_reduce;
mod all_to_all;
mod arguments;
mod awaited_part;
mod barrier;
mod broadcast;
pub mod choice;
mod fold;
mod gather;
mod layout;
mod mailbox;
mod meeting;
mod members;
mod op;
mod parcel;
mod parts_memory;
mod pending_collective;
mod post;
mod reduce;
mod scan;
mod scatter;
mod schedule;
mod signature;
mod split_phase;
mod stage;
mod staged_parts;
mod staged_values;
mod team;
mod team_disagreements;
mod team_state;
mod timed_phase;

pub use op::{And, Max, Min, Number, Op, Or, Product, Sum, Xor};
pub use pending_collective::PendingCollective;
pub use team::Team;
pub use timed_phase::TimedPhase;

/// Type whose values travel as they lie in memory.
pub trait Plain: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {}
impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy> Plain for T {}

/// Steps of a collective, which identify its contributions.
mod step {
    /// From one rank of a node to another, as equals.
    pub(crate) const WITHIN: u64 = 0;
    /// From the ranks of a node to its lowest.
    pub(crate) const UP: u64 = 1;
    /// From the lowest rank of a node to its others.
    pub(crate) const DOWN: u64 = 2;
    /// The first round between nodes, or between all ranks; others follow.
    pub(crate) const BETWEEN: u64 = 3;
    /// The first round in which nodes tell each other lengths.
    pub(crate) const LENGTHS: u64 = 64;
}
