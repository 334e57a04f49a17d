//! Factorisation of a dense matrix in shared virtual memory, by blocks, without pivoting
//! (the kernel LU of paper 003, in the layout with contiguous blocks).
//!
//! A program (`clump app lu`) mounts [`command`]. [`kernels`] works on blocks, [`layout`] has their
//! owners and addresses, [`matrix`] makes the input; [`check`] factorises serially, row by row, and
//! shares no code with the kernels.
//!
//! Main types: [`command::LuArgs`], [`layout::BlockLayout`].
//!
//! # Invariants
//! 1. Each element sees the same operations in the same order for any number of ranks, and as in
//!    the
//!    serial factorisation: results are equal bit by bit.

pub mod check;
pub mod command;
pub mod kernels;
pub mod layout;
pub mod matrix;
