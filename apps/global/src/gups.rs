//! Random updates of a table that is spread over all ranks, as HPCC RandomAccess has
//! them: each update is an exclusive or of a random number with the word that its lower bits name.
//!
//! A program (`clump app gups`) mounts [`command`]. [`stream`] makes the numbers, [`check`] makes
//! the table serially and compares; the two share no code, and the check none with clump.
//!
//! Main types: [`command::GupsArgs`].
//!
//! # Invariants
//! 1. Every update happens exactly once: no error is tolerated, although HPCC allows 1 %.

pub mod check;
pub mod command;
pub mod stream;
