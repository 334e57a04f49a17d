//! Radix sort of 32-bit keys in two passes of 16 bits, each key stored at its place in
//! the whole array.
//!
//! A program mounts [`command`]: `clump app radix` stores each key as a message of its own, `clump
//! app radb` sends each rank its keys in one. A pass counts digits here, adds the counts up over
//! all ranks in a ring ([`ranking`]), and distributes ([`distribution`]). Rank 0 compares the
//! result, key for key, with the input that the standard library has sorted.
//!
//! Main types: [`command::RadixArgs`], [`ranking::DigitPlaces`].
//!
//! # Invariants
//! 1. A pass is stable: keys of one digit keep the order of ranks, and of keys within ranks.
//! 2. The phases of a pass are apart: stores are counted, and no other phase's may come in between.

pub mod command;
pub mod distribution;
pub mod ranking;
