//! Relaxation of a square grid in shared virtual memory (the application Jacobi of
//! paper 002).
//!
//! A program (`clump app jacobi`) mounts [`command`]. [`rows`] has the owner and the address of
//! each row: contiguous, so that ranks share pages that they write, or each on pages of its own.
//! [`check`] is the serial version, and what relaxation must do to a wave.
//!
//! Main types: [`command::JacobiArgs`], [`rows::GridRows`].
//!
//! # Invariants
//! 1. A cell is a function of the iteration before: grids are equal bit by bit for any number of
//!    ranks.

pub mod check;
pub mod command;
pub mod rows;
