//! Ranks that an engine starts (MPICH's `mpiexec`, Open MPI's `mpirun`, Slurm's `srun`): how they
//! become ranks of a job.
//!
//! Called by the facade where no agent has started this process ([`join`]); calls `clump-boot`, for
//! what a rank gets, and `clump-os`. The ranks exchange cards through the engine's own store of
//! keys; the lowest of each machine starts the agent (`clump engine`), which adopts all of them
//! over a socket.
//!
//! Types to know: [`wire::Dialogue`] (PMI-1 and PMI-2, pure), [`Card`] (what a rank says of
//! itself), [`Roster`] (ranks by machine), [`EngineJob`] (the job as an agent receives it).
//!
//! # Invariants
//! 1. Nothing that an engine or another rank says can make this process panic, or use more than
//!    bounded memory.
//! 2. An agent that is gone takes its ranks with it: each holds a lifeline.
//! 3. Unsafe code is in `pmix.rs` and `loaded_mpi.rs` alone.
//! 4. An engine is asked for nothing after the start; its processes stay its own. Where MPI runs in
//!    the same process, the connection to the engine is MPI's.
//!
//! ```no_run
//! let boot = clump_engines::join()?;
//! assert!(boot.is_none(), "a program started by hand is a job of its own");
//! # Ok::<(), clump_engines::Error>(())
//! ```
#![deny(unsafe_code)]

mod agent_start;
mod card;
mod engine_job;
mod error;
mod joining;
mod key_store;
#[allow(unsafe_code, reason = "two functions of MPI are called")]
mod loaded_mpi;
mod pmi_store;
#[allow(unsafe_code, reason = "functions of a library that is loaded at run time")]
mod pmix;
mod roster;
pub mod slurm_lists;
mod slurm_step;
mod started_by;
pub mod wire;

pub use card::Card;
pub use engine_job::{EngineJob, EngineNode};
pub use error::{Error, Result};
pub use joining::{BOOT_MESSAGE, join};
pub use roster::Roster;
pub use slurm_step::SlurmStep;
pub use started_by::{StartedBy, started_as_rank};
