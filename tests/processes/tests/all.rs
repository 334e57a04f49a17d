//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod applications;
mod built_in;
mod c_errors;
mod c_job;
mod cables;
mod connections;
mod contention;
mod death;
mod ending;
mod examples;
mod lock_storm;
mod loopback;
mod metrics;
mod nodes;
mod onesided;
mod out_of_memory;
mod profile;
mod proxies;
mod regions;
mod running;
mod several_cables;
mod shared_applications;
mod silence;
mod slower;
mod sorting;
mod starting;
mod storm;
mod svm;
mod svm_accesses;
mod svm_parts;
mod sweeps;
mod temporary;
mod terminal;
mod traces;
mod update_storm;
