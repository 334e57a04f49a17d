//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod pair;
mod seal_vectors;

mod company;
mod full_driver;
mod idle;
mod peers;
mod seal;
mod seal_known;
mod sealed_buffers;
mod stories;
mod streams;
mod unit_fragments;
mod urgent;
