//! Bodies that attract each other, by the method of Barnes and Hut: the parts that do not depend
//! on where the tree of all ranks is.
//!
//! [`body`] makes a sphere of Plummer's model, [`key`] computes the cell of a body, [`moments`]
//! sums cells up and has the force of one, [`walk`] the force of all. [`serial`] is the serial
//! version, and has the forces without any tree; [`judge`] compares a run with both. [`shape`] has
//! the options of a run.
//!
//! # Invariants
//! 1. The cells of a tree are those cubes that hold two bodies or more, and the root: the tree does
//!    not depend on the rank that builds it, nor on the order.
//! 2. A cell is summed up octant by octant, and a force cell by cell in the order of the tree:
//!    places and motions are equal bit by bit for any number of ranks.

pub mod body;
pub mod judge;
pub mod key;
pub mod moments;
pub mod serial;
pub mod shape;
pub mod walk;

use body::{BodyMotion, PlacedMass};

/// Numbers of a tree and of the forces found with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeCounts {
    /// Cells.
    pub cells: u64,
    /// Levels below the root.
    pub depth: u64,
    /// Bodies and cells that forces were made of.
    pub interactions: u64,
}

/// Counts and energies of motion and place, evaluation by evaluation.
pub type GalaxyLog = Vec<(TreeCounts, [f64; 2])>;

/// Result of a run, serial or not.
#[derive(Debug)]
pub struct GalaxyRun {
    /// Places behind the last step.
    pub placed: Vec<PlacedMass>,
    /// Motions behind the last step.
    pub motions: Vec<BodyMotion>,
    /// Counts and energies of each evaluation.
    pub log: GalaxyLog,
}
