//! Molecular dynamics of flexible water in shared virtual memory, within a cut-off, by
//! all pairs (the application Water-nsquared of papers 002 and 003) or by cubes (Water-spatial).
//!
//! A program mounts [`command`] (`clump app water-nsq` and `clump app water-spatial`). [`molecule`]
//! has the forces, [`gear`] the integrator, [`check`] the energy alone, and the serial run;
//! [`verdict`] compares. In [`box_of_water`] each rank owns some molecules, calculates half of the
//! pairs that they are in, and adds forces to molecules of other ranks under a lock for each
//! molecule. In [`spatial_box`] it owns the cubes of a [`cube_grid`], and molecules move from cube
//! to cube; [`serial_cubes`] is the serial version of that.
//!
//! Main types: [`command::WaterArgs`], [`command::WaterSpatialArgs`], [`box_of_water::WaterBox`],
//! [`spatial_box::SpatialBox`].
//!
//! # Invariants
//! 1. A pair is calculated by one rank; sums differ from the serial ones by rounding alone.
//! 2. A molecule is in the list of one cube, the one that its oxygen lies in, whenever forces are
//!    calculated.

pub mod box_of_water;
pub mod check;
pub mod command;
pub mod cube_grid;
pub mod energy_sum;
pub mod gear;
pub mod molecule;
pub mod serial_cubes;
pub mod spatial_box;
pub mod verdict;
