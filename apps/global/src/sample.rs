//! Sample sort. Every rank sends each of its keys straight to the rank that will hold
//! it, which sorts what it got.
//!
//! A program (`clump app sample`) mounts [`command`]. Splitters come from a sample of all keys
//! ([`splitters`]); rank 0 compares the result, key for key, with the input that the standard
//! library has sorted.
//!
//! Main types: [`command::SampleArgs`], [`splitters::Splitters`].
//!
//! # Invariants
//! 1. Every key is stored once, at a place that no other key has.
//! 2. Equal keys are distinguished by their index in the input, so that any input is divided
//!    evenly.

pub mod command;
pub mod outgoing;
pub mod splitters;
