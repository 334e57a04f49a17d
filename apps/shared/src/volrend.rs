//! Pictures of a volume from several sides, by casting rays through it, in shared
//! virtual memory, with task queues that ranks steal from (the application Volrend of paper 003).
//!
//! A program (`clump app volrend`) mounts [`command`]. [`phantom`] makes the volume, a head of
//! ellipsoids, unless a file has one; [`voxel`] computes opacity and steepness at each place,
//! [`pyramid`] where it is empty, and [`cast`] follows rays. [`scan`] are these in shared memory;
//! [`check`] are the serial version, and rays that do not skip empty space.
//!
//! Main types: [`command::VolrendArgs`], [`scan::SharedScan`], [`cast::Viewpoint`].
//!
//! # Invariants
//! 1. A pixel is a function of volume and viewpoint alone: pictures are equal bit by bit, whichever
//!    rank casts a ray.
//! 2. Samples of a ray lie at multiples of [`cast::STEP`] from the plane of the picture, so that a
//!    leap over empty space leaves out only samples that add nothing.

pub mod cast;
pub mod check;
pub mod command;
pub mod phantom;
pub mod pyramid;
pub mod scan;
pub mod voxel;
