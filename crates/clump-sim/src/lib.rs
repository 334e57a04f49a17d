//! A cluster in virtual time: real stacks (`clump-net`), channels (`clump-proto`), network
//! interfaces (`clump-ni`) and requesters of one-sided operations (`clump-rma`) on a simulated
//! network.
//!
//! Layer 8: no crate depends on it. A seed decides everything ([`OneSidedPlan`]): the ranks, what
//! programs send, and what the network does to it. A run is one thread and one queue of events, so
//! a seed determines it fully: a failure is repeated with `cargo run --release -p clump-sim --bin
//! soak -- --seed N --seeds 1 --trace`.
//!
//! A run begins with a period of faults. Then everything heals, and all that was sent must be
//! settled; then all ranks close. An oracle that knows nothing of packets checks every message as
//! it is handled or returned.
//!
//! Types to know: [`OneSidedPlan`], [`run`], [`RunSummary`], [`RunFailure`]; [`onesided`], where
//! ranks use each other's memory; [`proxies`], paper 002's experiment.
//!
//! # Invariants
//! 1. Two runs of one seed are the same, on every machine.
//! 2. Ranks do what `clump-am` and the backstop (progress thread) of `clump-net` do; nothing here
//!    reaches into a stack.
//! 3. Once healed, everything is settled within a minute of virtual time.
//!
//! ```
//! let outcome = clump_sim::run(clump_sim::ClusterPlan::new(1), false).unwrap();
//! assert!(outcome.handled > 0);
//! ```
#![forbid(unsafe_code)]

mod content;
mod driver;
mod endpoint;
mod endpoints;
mod inflow;
mod interface;
mod ledger;
pub mod onesided;
mod plan;
pub mod proxies;
mod proxy_client_rank;
mod random;
mod rank;
mod sleeper;
mod stale_stack;
mod summary;
mod switch;
pub mod throughput;
mod time;
mod turns;
mod world;

pub use plan::{ClusterPlan, MICROSECOND, MILLISECOND, PlanStep, ProgramDemand, SECOND};
pub use random::Random;
pub use summary::{RunFailure, RunSummary};
pub use switch::{LinkFaults, NetCounts, Port};

/// Runs a plan to its end. With `trace` it prints its steps on standard error.
///
/// # Errors
/// Fails if the oracle found a violation, or if the run never settles.
pub fn run(plan: ClusterPlan, trace: bool) -> Result<RunSummary, Box<RunFailure>> {
    let seed = plan.seed;
    let world = world::Cluster::new(plan, trace).map_err(|error| RunFailure {
        task: "",
        seed,
        at_ns: 0,
        healed: false,
        what: error.to_string(),
        detail: String::new(),
    })?;
    Ok(world.run()?)
}
