//! Rules of virtual time: machines as data, charging by LogGP, the choice of the next actor.
//!
//! Layer 0, pure: `clump-shm` keeps the state of a job in virtual time in the memory of its node
//! and applies these rules to it; the command line reads machines with it. Nothing here reads a
//! clock or shared memory (docs/adr/0062).
//!
//! Types to know: [`Machine`] (a machine that need not exist), [`PathCosts`] (what a message costs
//! on it), [`Compute`] (what computation costs), [`Recording`] and [`RecordedCosts`] (computation
//! that is recorded once), [`turn`] (the rank that runs next).
//!
//! # Invariants
//! 1. All times are whole nanoseconds; nothing is rounded twice.
//! 2. A message costs at least 1 ns at its sender, so a message that is sent later than another
//!    event is never visible at the time of that event.
#![forbid(unsafe_code)]

mod compute;
mod machine;
mod segments;
pub mod turn;

pub use compute::{Compute, ComputePlan};
pub use machine::{MACHINE_WORDS, Machine, MachineError, PageCosts, PathCosts};
pub use segments::{CallKind, RecordedCosts, Recording};
