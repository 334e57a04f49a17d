//! Fourier transform of a long vector in shared virtual memory, in six steps (the kernel
//! FFT of paper 003).
//!
//! A program (`clump app fft`) mounts [`command`]. The vector is a square matrix: three transposes,
//! in which each rank reads from all others, and transforms of whole rows between them
//! ([`six_steps`]). [`row`] transforms a row; [`check`] calculates values by the definition, and
//! shares no code with them.
//!
//! Main types: [`command::FftArgs`], [`six_steps::SixSteps`].
//!
//! # Invariants
//! 1. Each value sees the same operations in the same order for any number of ranks: results are
//!    equal bit by bit.

pub mod check;
pub mod command;
pub mod row;
pub mod six_steps;
