//! A histogram whose bins are spread over all ranks. Every rank draws random bins and
//! adds one to each.
//!
//! A program (`clump app histo`) mounts [`command`]. The check ([`check`]) draws the numbers of all
//! ranks again, serially, and counts those of its own bins.
//!
//! Main types: [`command::HistoArgs`].
//!
//! # Invariants
//! 1. Counts are exact.

pub mod check;
pub mod command;
