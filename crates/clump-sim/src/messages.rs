//! Ranks that send messages through stacks of their own: all kinds of messages, under all kinds of
//! faults, with an oracle that checks every one.

mod content;
mod endpoint;
mod endpoints;
mod ledger;
mod plan;
mod rank;
mod stale_stack;
mod world;

pub(crate) use endpoint::{SimOutlet, name_of};
pub(crate) use endpoints::offset_of;
pub use plan::{ClusterPlan, ProgramDemand};
pub(crate) use rank::config_of;

use crate::kernel;
use crate::summary::{RunFailure, RunSummary};

/// Runs a plan to its end. With `trace` it prints its steps on standard error.
///
/// # Errors
/// Fails if the oracle found a violation, or if the run never ends.
pub fn run(plan: ClusterPlan, trace: bool) -> Result<RunSummary, Box<RunFailure>> {
    let seed = plan.base.seed;
    let mut world = world::Cluster::new(plan, trace)
        .map_err(|error| RunFailure::at_start(String::new(), seed, error.to_string()))?;
    Ok(kernel::run(&mut world)?)
}
