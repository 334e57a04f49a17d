//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod built_in;
mod c_errors;
mod c_job;
mod cables;
mod connections;
mod death;
mod ending;
mod lock_storm;
mod loopback;
mod nodes;
mod onesided;
mod proxies;
mod regions;
mod running;
mod several_cables;
mod silence;
mod sorting;
mod starting;
mod storm;
mod temporary;
