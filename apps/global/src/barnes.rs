//! Bodies that attract each other, in global memory, by the method of Barnes and Hut (the
//! application Barnes of paper 001).
//!
//! A program (`clump app barnes`) mounts [`command`]. [`body_store`] has the bodies of each rank,
//! [`global_octree`] the tree of all ranks, which they build by inserting bodies under the locks
//! of cells ([`insertion`]). [`zone`] deals bodies out by their costs, [`forces`] walks through
//! the tree for many bodies at a time, by way of private copies of what its node has
//! ([`near_tree`]) and a cache; [`galaxy`] makes the steps. [`snapshot`]
//! reads and writes files of bodies, and draws them. Bodies, sums, walks and the serial version
//! are those of `clump_app_frame::barnes`, with its invariants.
//!
//! An object of the tree is in the memory of one rank: a body at the rank that moves it, a cell at
//! the rank that made it. Its index says which: ranks have equal parts of each array.
//!
//! Main types: [`command::GlobalBarnesArgs`], [`galaxy::GlobalGalaxy`],
//! [`global_octree::GlobalOctree`].
//!
//! # Invariants
//! 1. While bodies are inserted, the octants of a cell are read and written under its lock; a rank
//!    remembers which of them have become cells, because those never change.
//! 2. Objects are looked up in the cache only while they do not change: bodies from the end of a
//!    step to the end of the next, cells once they are summed up. It is emptied in between.
//! 3. A rank holds one lock at a time, so several cells may share one.
//! 4. A step writes bodies to the other of two arrays: what the tree refers to stays until all
//!    forces are found.

pub mod body_store;
pub mod command;
pub mod forces;
pub mod galaxy;
pub mod global_octree;
pub mod insertion;
pub mod near_tree;
pub mod npy;
pub mod snapshot;
pub mod zone;

use clap::ValueEnum;

/// Manner in which ranks wait for the locks of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CellLocks {
    /// In a queue at the lock, without messages
    Queue,
    /// By remote atomics, again and again, that interfaces execute
    Spin,
    /// By messages, again and again, that the rank of the cell serves: the paper's livelock
    Naive,
}

impl CellLocks {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Spin => "spin",
            Self::Naive => "naive",
        }
    }
}
