//! Picture of a scene of mirrors and balls, traced ray by ray, in shared virtual
//! memory, with task queues that ranks steal from (the application Raytrace of papers 002 and 003).
//!
//! A program (`clump app raytrace`) mounts [`command`]. The scene is in shared memory; rays are
//! followed by the tracer of `clump_app_frame::rays`, whose `balls` are the world. Tasks are tiles
//! of the picture.
//!
//! Main type: [`command::RaytraceArgs`].
//!
//! # Invariants
//! 1. A pixel is a function of scene and place alone: pictures are equal bit by bit, whichever rank
//!    traces a tile.

pub mod command;
