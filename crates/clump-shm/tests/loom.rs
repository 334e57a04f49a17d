//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

#[cfg(loom)]
mod model;

mod loom_access;
mod loom_barrier;
mod loom_doorbell;
mod loom_lane;
mod loom_park;
mod loom_queue;
mod loom_queue_lock;
