//! Counters of all events of the messaging layers, and the reports made from them.
//!
//! Low layer: the messaging crates bump counters here on every path, `clump stats` and the summary
//! at the end of a run read them, also from another process while the job runs. The memory comes
//! from outside (the node's shared memory): this crate only gives its cells a meaning.
//!
//! Main types: [`Counter`] (the one table of names), [`Counters`] (a view of one rank's cells that
//! writes and reads them), [`Snapshot`] (numbers read from the cells, to add, subtract, print and
//! send), [`summary::NetworkSummary, Summary`] (paper 001, table 4: how a program communicates),
//! [`Profile`] (all that is known of a finished run, in a file), [`LineTimes`] (the distance of the
//! processors meanwhile).
//!
//! # Invariants
//! 1. One block has one writer at a time. A bump is a load and a store, never a locked instruction;
//!    two writers at once lose counts, but tear nothing.
//! 2. A block of zeroes is a valid block in which nothing has happened.
//! 3. [`LAYOUT`] changes whenever the meaning of any cell changes, so a reader of another build
//!    detects that it must not interpret the cells.
//!
//! The reason for a load and a store: a locked add costs 9.5 ns on the machines measured, as much
//! as the whole of a short send may; with one writer per block the plain pair gives the same
//! numbers for 1 ns.
//!
//! ```
//! use clump_trace::{Block, Counter, Snapshot};
//! let block = Block::new();
//! block.counters().bump(Counter::RequestShortSent);
//! assert_eq!(Snapshot::of(block.counters())[Counter::RequestShortSent], 1);
//! ```
#![forbid(unsafe_code)]

pub mod block;
pub mod counter;
pub mod event;
pub mod gauge;
pub mod histogram;
pub mod line_state;
pub mod monitor;
pub mod openmetrics;
pub mod profile;
pub mod recorder;
pub mod sampler;
pub mod shared_memory;
pub mod snapshot;
pub mod summary;
pub mod text;
pub mod trace_file;
pub mod trace_reader;

pub use block::{Block, CAPACITY, Counters};
pub use counter::{Counter, CounterUnit, Flow, LAYOUT, Role, Size};
pub use event::{EventKind, MessageClass, PhaseName, TraceEvent};
pub use gauge::{GAUGES, Gauge, Gauges, Stage, Timed};
pub use histogram::Histogram;
pub use line_state::LineTimes;
pub use monitor::{Monitor, SMALL};
pub use profile::{Intervals, PairTraffic, Profile};
pub use recorder::Recorder;
pub use sampler::Sampler;
pub use snapshot::Snapshot;
pub use summary::Summary;
pub use trace_file::{TraceError, TraceFault, TraceHeader};
pub use trace_reader::{FileReader, TraceReader};
