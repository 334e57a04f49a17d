//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod close_handshakes;
mod collective_algorithms;
mod collective_disagreements;
mod collectives;
mod collectives_in_handlers;
mod connection_programs;
mod connections;
mod flag_barrier;
mod global_memory;
mod halo;
mod hidden_credit;
mod irregular;
mod locks;
mod onesided;
mod onesided_programs;
mod pending_errors;
mod pgas;
mod pgas_grid;
mod pgas_vectors;
mod regions;
mod remote_calls;
mod services;
mod split_phase;
