//! Currents in a square basin, in shared virtual memory: equations of Poisson, solved
//! by multigrid with red-black relaxation (the application Ocean of papers 002 and 003).
//!
//! A program (`clump app ocean`) mounts [`command`]. Each rank has rows of every grid
//! ([`grid`]), and reads its neighbours' rows behind barriers; the residual is found under a lock.
//! [`cycle`] are the cycles; [`check`] is the same solver on plain arrays, and the exact solution.
//!
//! Main types: [`command::OceanArgs`], [`cycle::Basin`].
//!
//! # Invariants
//! 1. Each cell sees the same operations in the same order for any number of ranks: residuals are
//!    equal bit by bit to those of one.

pub mod check;
pub mod command;
pub mod cycle;
pub mod grid;
