//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

#[path = "../examples/am2_calls/text.rs"]
mod text;

mod am2_header;
