//! The Fourier transform of a cuboid of complex numbers, spread over all ranks.
//!
//! A program (`clump app fft3d`) mounts [`command`]. Each rank has lines of one direction at a time
//! ([`decomposition`]); between directions, ranks exchange them by bulk stores of 4 KiB, each sent
//! as soon as its lines are transformed ([`transform`]). Lines are transformed by `rustfft`. Rank 0
//! compares the result with sums by definition ([`check`]).
//!
//! Main types: [`command::Fft3dArgs`], [`decomposition::Decomposition`].
//!
//! # Invariants
//! 1. Every number of an exchange is stored once, into a block that only its sender stores to.

pub mod check;
pub mod command;
pub mod decomposition;
pub mod input;
pub mod serial;
pub mod transform;
