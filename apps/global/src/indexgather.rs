//! Random reads of a table that is spread over all ranks.
//!
//! A program (`clump app indexgather`) mounts [`command`]. Each word of the table is a function of
//! its index alone, so every value that is read can be checked without the table.
//!
//! Main types: [`command::IndexgatherArgs`].
//!
//! # Invariants
//! 1. Every value that is read is checked.

pub mod command;
