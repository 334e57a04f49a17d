//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod close_handshakes;
mod collectives;
mod connection_programs;
mod connections;
mod flag_barrier;
mod locks;
mod onesided;
mod onesided_programs;
mod pgas;
mod regions;
mod services;
