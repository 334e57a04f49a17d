//! Parts that applications share: sizes of inputs, random numbers, keys, runs with their phases,
//! traffic and checks, reports.
//!
//! Layer 7: beside the facade, below the applications; it uses the global address space and the
//! collectives that applications are handed by the facade.
//!
//! Types to know: [`InputSize`] and [`Manner`] (options), [`AppRun`] (a run: phases, traffic,
//! report), [`SharedRun`] (the same in shared virtual memory), [`TaskQueues`] (tasks that ranks
//! steal there), [`write_picture`] (files of pictures), [`Traffic`] (messages as the
//! algorithm makes them), [`AppReport`] (what a run prints),
//! [`random::Random`] (numbers that every rank can make for any other), [`keys::Keys`].
//!
//! # Invariants
//! 1. A report says `verified` only if the application's own check has passed on all ranks; the
//!    exit code says the same.
//! 2. Inputs are functions of parameters and place alone, so that any rank can make any part again.
#![forbid(unsafe_code)]

pub mod buckets;
mod key_sort;
pub mod keys;
mod lap;
mod options;
mod picture;
pub mod random;
mod report;
mod run;
mod shared_run;
mod sorted;
mod task_queues;
mod touched;
mod traffic;

pub use key_sort::sort_keys;
pub use lap::Lap;
pub use options::{InputSize, Manner};
pub use picture::{Channels, write_picture};
pub use report::AppReport;
pub use run::{AppRun, MAX_SERIAL_WORDS};
pub use shared_run::SharedRun;
pub use sorted::wrong_keys;
pub use task_queues::{TakenTask, TaskQueues};
pub use touched::spread_touched;
pub use traffic::Traffic;
