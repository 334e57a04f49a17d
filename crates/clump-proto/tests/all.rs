//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod pair;

mod congestion;
mod crowd;
mod distance;
mod hostile;
mod length;
mod loss;
mod model;
mod refused;
mod silence;
