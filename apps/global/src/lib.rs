//! Applications in the global address space, a module each: random updates and reads, sorts, and
//! loops over graphs, cubes and trees.
//!
//! Layer 8: a program (`clump app NAME`) mounts the options and the `run` of an application's
//! `command`; all of them use the facade alone.
//!
//! Main types: [`run::AppRun`] (a run: phases, checks, report), [`run::Manner`] (an option),
//! [`traffic::Traffic`] (messages as the algorithm makes them), [`buckets::Buckets`] (elements
//! sorted by rank, by hand).
//!
//! # Invariants
//! 1. Each application's own are at the head of its module; those of reports in `clump-app-frame`.
#![forbid(unsafe_code)]

pub mod barnes;
pub mod buckets;
pub mod connect;
pub mod em3d;
pub mod fft3d;
pub mod gups;
pub mod histo;
pub mod indexgather;
pub mod murphi;
pub mod pray;
pub mod radix;
pub mod random_access;
pub mod recent_copies;
pub mod run;
pub mod sample;
mod sorted;
pub mod traffic;
