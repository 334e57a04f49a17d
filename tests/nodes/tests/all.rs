//! Tests of this package, one module a subject: one binary, since each costs a link.

#[path = "../../../crates/clump-conn/tests/two/mod.rs"]
mod two;

mod collectives;
mod connection_programs;
mod connections;
mod farewells;
mod flag_barrier;
mod locks;
mod onesided;
mod onesided_programs;
