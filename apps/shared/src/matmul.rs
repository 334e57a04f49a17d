//! Product of two matrices in shared virtual memory, block by block (the application
//! Matmul of paper 002).
//!
//! A program (`clump app matmul`) mounts [`command`]. Each rank makes rows of the product, and all
//! read the whole second factor; elements are small integers, so that sums are exact in any order.
//! [`check`] is the serial version, and a check that multiplies no matrices.
//!
//! Main types: [`command::MatmulArgs`].
//!
//! # Invariants
//! 1. All sums are integers below 2^53: the product is exact.

pub mod check;
pub mod command;
