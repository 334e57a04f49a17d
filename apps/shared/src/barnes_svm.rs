//! Bodies that attract each other, in shared virtual memory, by the method of
//! Barnes and Hut (the applications Barnes-original and Barnes-spatial of paper 003).
//!
//! A program (`clump app barnes-svm`) mounts [`command`]. [`shared_octree`] is the tree of all
//! ranks, which they build by inserting bodies under the locks of cells ([`insertion`]), or
//! without locks by subspaces ([`subspaces`]). [`galaxy`] makes the steps. Bodies, sums, walks and
//! the serial version are those of `clump_app_frame::barnes`, with its invariants.
//!
//! Main types: [`command::BarnesArgs`], [`galaxy::Galaxy`], [`shared_octree::SharedOctree`].
//!
//! # Invariants
//! 1. While bodies are inserted, the octants of a cell are read and written under its lock; a rank
//!    remembers which of them have become cells, because those never change.

pub mod command;
pub mod galaxy;
pub mod insertion;
pub mod shared_octree;
pub mod subspaces;
