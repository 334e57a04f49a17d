//! Studies of programs: the machine's parameters, profiles and sweeps as read from their files, and
//! the points of the sweeps beside what the models predict for them.

pub mod application;
#[cfg(test)]
pub(crate) mod browser;
pub mod communication;
#[cfg(test)]
pub(crate) mod fake;
pub mod findings;
pub mod input;
pub mod instrument;
pub mod interfaces;
pub mod points;
pub mod replay_table;
pub mod replays;
pub mod sections;
pub mod shared_memory;
pub mod study_plan;
pub mod tables;

pub use input::{StudiedProgram, Study};
pub use points::{Knob, SweepPoint, points};
pub use study_plan::{PlannedProgram, StudyPlan};
