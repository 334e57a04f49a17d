//! Parts that applications share: sizes of inputs, random numbers, times of phases, reports.
//!
//! Layer 7: beside the facade, below the applications. It knows nothing of ranks: applications
//! hand in what all ranks have agreed on.
//!
//! Types to know: [`InputSize`] and [`Manner`] (options), [`Lap`] (times), [`AppReport`] (what a
//! run prints), [`random::Random`] (numbers that every rank can make for any other).
//!
//! # Invariants
//! 1. A report says `verified` only if the application's own check has passed on all ranks; the
//!    exit code says the same.
#![forbid(unsafe_code)]

mod lap;
mod options;
pub mod random;
mod report;

pub use lap::Lap;
pub use options::{InputSize, Manner};
pub use report::AppReport;
