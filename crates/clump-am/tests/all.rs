//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod waiting;
mod world;

mod attacker;
mod endpoint_cells;
mod hostile;
mod interrupted;
mod messages;
mod misuse;
mod programs;
mod rare;
mod sharing;
mod slower;
mod threads;
mod typed;
mod unhandled;
