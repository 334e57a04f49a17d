//! Tests of the C interface by whole programs, which are compiled first: a step of its own in
//! `cargo xtask ci`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod am2;
mod c_library;
mod c_programs;
mod c_threads;
mod c_workers;
