//! Parts that applications share, whether they use global addresses or shared memory: sizes of
//! inputs, random numbers, keys, times, reports.
//!
//! Layer 7: beside the facade, below the applications; it uses no part of the runtime but the
//! console and the clock.
//!
//! Main types: [`InputSize`] (an option), [`AppReport`] (what a run prints), [`random::Random`]
//! (numbers that every rank can make for any other), [`keys::Keys`],
//! [`picture::write_picture`], [`diagnostic::Diagnostic`] (an error in a text); [`barnes`] (bodies,
//! sums of cells, and the serial version) and [`rays`] (scenes and the tracer), each for both
//! applications of its kind.
//!
//! # Invariants
//! 1. A report has `verified` only if the application's own check has passed on all ranks; the exit
//!    code agrees.
//! 2. Inputs are functions of parameters and place alone, so that any rank can make any part again.
#![forbid(unsafe_code)]

pub mod barnes;
pub mod diagnostic;
pub mod keys;
pub mod picture;
pub mod random;
pub mod rays;
mod report;
pub mod size;

pub use report::{AppReport, InputSize, Lap};
