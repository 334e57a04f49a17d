//! Electromagnetic waves on an irregular bipartite graph. In turns, each node of the
//! electric field takes a weighted sum of its neighbours of the magnetic field, and the other way
//! round.
//!
//! A program (`clump app em3d`) mounts [`command`]. Values of other ranks come by stores of their
//! owners ([`by_stores`]) or by blocking reads ([`by_reads`]). Rank 0 compares all values with
//! those of the serial version ([`serial`]), bit for bit, and the messages of each rank with those
//! that the graph makes necessary.
//!
//! Main types: [`command::Em3dArgs`], [`graph::Graph`], [`blocks::BlockMap`].
//!
//! # Invariants
//! 1. The graph is a function of its parameters and the number of ranks: neither the layout of
//!    ranks nor the way of values changes it.
//! 2. Sums are in the order of edges, whatever the way of values, so results are the same bits.

pub mod blocks;
pub mod by_reads;
pub mod by_stores;
pub mod command;
pub mod graph;
pub mod serial;
pub mod value_way;
