//! The LogGP performance laboratory: the cost of messages on a machine, and the figures of other
//! implementations there.
//!
//! Top layer, below the command line only: `clump lab` hands a [`Command`] to [`main`]. The
//! commands start this program again as a job (`clump run`), measure through the same interface
//! that any program uses, and estimate with `clump-loggp`.
//!
//! [`command`] has the command lines; the other modules are the instruments, and know none. Each
//! gives its results as a [`schema::InstrumentReport`], and [`render`] prints all of them.
//!
//! Types to know: [`pair::Pair`] (two ranks as the measurements see them),
//! [`plan::MeasurementPlan`] (extent of a measurement), [`schema::InstrumentReport`] (results of
//! any instrument), [`contrast::Contrast`] (clump beside a baseline).
//!
//! # Invariants
//! 1. Every claim about speed is a ratio to something measured in turn with it, in slices of at
//!    most 100 ms, as a median of at least 21 slices; the report states the placement of the ranks.
//! 2. Measurements are written against [`pair::Pair`]; a machine with known parameters and a
//!    virtual clock tests them.
//! 3. Other programs run one at a time, within a time limit, and do not outlive the command.
#![forbid(unsafe_code)]

pub mod applications;
pub mod bare;
pub mod baseline;
pub mod brief;
pub mod calibrate;
pub mod change;
pub mod collectives;
pub mod columns;
pub mod command;
pub mod compare;
pub mod contrast;
pub mod costs;
pub mod csv;
pub mod figure;
pub mod flood;
pub mod goals;
#[cfg(test)]
mod golden;
pub mod knob_base;
pub mod launch;
pub mod logp;
pub mod logp_tables;
pub mod loss;
pub mod measure;
pub mod negative;
pub mod page;
pub mod pair;
pub mod path;
pub mod plan;
pub mod plot;
pub mod positive;
pub mod progress;
pub mod render;
pub mod report;
pub mod schema;
pub mod scratch_run;
pub mod steps;
pub mod study;
pub mod sweep;
pub mod sweep_job;
pub mod sweep_run;
pub mod time_limit;
pub mod traces;
pub mod urgent;
pub mod verify;
pub mod virtual_sweep;
pub mod wire;
pub mod wrong_command;

pub use command::{Command, main};
