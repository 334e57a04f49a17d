//! Tests of this package, one module a subject: one binary, since each costs a link.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails that way")]

mod evidence;

mod onesided;
mod plans;
mod proxies;
mod seeds;
mod shared_heap;
