//! The reliable channel between two stacks, as a pure state machine.
//!
//! # Invariants
//! 1. No clock, socket, thread or random source: time and input are arguments, output is polled.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod channel;
mod config;
mod sack;
mod stats;
mod time;

pub use channel::{Arrival, Channel, Unit};
pub use config::{Config, Congestion};
pub use sack::SackBuf;
pub use stats::Stats;
pub use time::Nanos;
