//! One-sided operations in virtual time: the real requesters ([`clump_onesided::Requester`]), the
//! real interfaces ([`clump_interface::Server`]) and the real memory of nodes, on simulated links.
//!
//! Ranks drive stacks of their own, or hand messages to the proxies of their nodes, which are the
//! real ones too.
//!
//! Ranks on some nodes do random operations: additions with and without a reply, puts, strided and
//! long ones, gets, mailbox slots with signals, locks, flags, fences, quiets, requests to all
//! services, and additions that are collected in batches, which travel over the grid of nodes.
//! Links lose, duplicate, delay and corrupt, nodes are cut off, ranks compute, freeze and die,
//! interfaces freeze, nodes are lost. After the faults everything heals, nothing new is begun, and
//! all ranks that live must come to an end; memory must then equal [`model`].

mod activity;
mod batches;
mod caller;
mod collected;
mod gets;
mod guards;
mod layout;
mod line;
mod mailbox;
mod model;
mod plan;
mod program;
mod quiet;
mod services;
mod summary;
mod world;

use crate::kernel;
use crate::summary::RunFailure;
pub use gets::goodput_of_gets;
pub use model::ModelCounts;
pub use plan::{NetworkMode, OneSidedPlan, OneSidedSize};
pub use summary::OneSidedSummary;

/// Runs a plan to its end. With `trace` it prints its steps on standard error.
///
/// # Errors
/// Fails if the model found a violation, or if the run never ends.
pub fn run(plan: OneSidedPlan, trace: bool) -> Result<OneSidedSummary, Box<RunFailure>> {
    let (seed, task) = (plan.base.seed, plan.network_mode().task());
    let mut world = world::OneSidedCluster::new(plan, trace)
        .map_err(|error| RunFailure::at_start(task.to_owned(), seed, format!("{error:#}")))?;
    Ok(kernel::run(&mut world)?)
}
