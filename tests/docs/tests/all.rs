//! Tests of this package, one module a subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod c_snippets;
mod commands;
mod facade;
mod files;
mod rust_snippets;
