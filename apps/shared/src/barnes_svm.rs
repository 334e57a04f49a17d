//! Bodies that attract each other, in shared virtual memory, by the method of
//! Barnes and Hut (the applications Barnes-original and Barnes-spatial of paper 003).
//!
//! A program (`clump app barnes-svm`) mounts [`command`]. [`body`] makes a sphere of Plummer's
//! model, [`key`] computes the cell of a body, [`moments`] sums cells up and has the force of one,
//! [`walk`] the force of all. [`shared_octree`] is the tree of all ranks, which they build by
//! inserting bodies under the locks of cells ([`insertion`]), or without locks by subspaces
//! ([`subspaces`]). [`galaxy`] makes the steps; [`check`] is the serial version, and the forces
//! without any tree.
//!
//! Main types: [`command::BarnesArgs`], [`galaxy::Galaxy`], [`shared_octree::SharedOctree`].
//!
//! # Invariants
//! 1. The cells of a tree are those cubes that hold two bodies or more, and the root: the tree does
//!    not depend on the rank that builds it, nor on the order.
//! 2. A cell is summed up octant by octant, and a force cell by cell in the order of the tree:
//!    places and motions are equal bit by bit for any number of ranks.
//! 3. While bodies are inserted, the octants of a cell are read and written under its lock; a rank
//!    remembers which of them have become cells, because those never change.

pub mod body;
pub mod check;
pub mod command;
pub mod galaxy;
pub mod insertion;
pub mod key;
pub mod moments;
pub mod shared_octree;
pub mod subspaces;
pub mod walk;
