//! A cluster in virtual time: real stacks (`clump-net`), channels (`clump-proto`), network
//! interfaces (`clump-interface`) and requesters of one-sided operations (`clump-onesided`) on a
//! simulated network.
//!
//! Layer 8: no crate depends on it. A seed determines everything ([`ClusterPlan`], for example):
//! the ranks, the messages of programs, and the faults of the network. A run is one thread and one
//! queue of events, so a seed determines it fully: a failure is repeated with `cargo run --release
//! -p clump-sim --bin soak -- --seed N --seeds 1 --trace`.
//!
//! A run begins with a period of faults. Then everything heals, and every message must be handled
//! or returned; then all ranks close. An oracle without access to packets checks every message as
//! it is handled or returned.
//!
//! One kernel ([`kernel`]) has the queue of events, the clock, the network and its faults. Worlds
//! run on it: [`messages`], [`onesided`], [`shared_heap`], [`proxies`] (paper 002's experiment),
//! [`throughput`].
//!
//! Plans can be read from TOML files ([`NamedPlan`]); `plans/` has those of the tests.
//!
//! Main types: [`NamedPlan`], [`ClusterPlan`], [`PlannedFault`], [`run`], [`RunSummary`],
//! [`RunFailure`].
//!
//! # Invariants
//! 1. Two runs of one seed are the same, on every machine.
//! 2. Ranks do what `clump-am` and the backstop (progress thread) of `clump-transport` do; nothing
//!    here reaches into a stack.
//! 3. Once healed, all messages are handled or returned within a minute of virtual time.
//!
//! ```
//! let outcome = clump_sim::run(clump_sim::ClusterPlan::new(1), false).unwrap();
//! assert!(outcome.handled > 0);
//! ```
#![forbid(unsafe_code)]

mod alarms;
mod interface;
pub mod kernel;
pub mod messages;
mod network;
pub mod onesided;
mod plan_file;
pub mod proxies;
mod proxy_client_rank;
pub mod shared_heap;
mod sleeper;
mod summary;
pub mod throughput;
mod time;

pub use kernel::{
    BasePlan, Departure, LinkFaults, MICROSECOND, MILLISECOND, NetCounts, PlannedFault, Port,
    Random, SECOND,
};
pub use messages::{ClusterPlan, ProgramDemand, run};
pub use plan_file::{NamedPlan, PlanError, WorldPlan};
pub use summary::{RunFailure, RunSummary};
