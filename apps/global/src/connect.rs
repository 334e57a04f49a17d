//! Connected components of a graph that is spread over all ranks.
//!
//! A program (`clump app connect`) mounts [`command`]. Each rank finds the components of its own
//! vertices ([`local`]); ranks then merge those that edges between them connect ([`merge`]). Rank 0
//! compares every label with that of the serial version ([`serial`]), and the messages of each rank
//! with those that the rounds make necessary.
//!
//! Main types: [`command::ConnectArgs`], [`graph::EdgeSource`].
//!
//! # Invariants
//! 1. The label of a component is its lowest vertex.
//! 2. A vertex is only ever hooked to a lower one, so there are no circles.

pub mod command;
pub mod graph;
pub mod local;
pub mod merge;
mod necessary;
pub mod serial;
