//! Picture of a scene of mirrors and balls, traced ray by ray, in shared virtual
//! memory, with task queues that ranks steal from (the application Raytrace of papers 002 and 003).
//!
//! A program (`clump app raytrace`) mounts [`command`]. [`scene`] makes the scene, which is in
//! shared memory, and [`trace`] follows rays; tasks are tiles of the picture.
//!
//! Main types: [`command::RaytraceArgs`], [`scene::Ball`], [`trace::Scene`].
//!
//! # Invariants
//! 1. A pixel is a function of scene and place alone: pictures are equal bit by bit, whichever rank
//!    traces a tile.

pub mod command;
pub mod scene;
pub mod trace;
