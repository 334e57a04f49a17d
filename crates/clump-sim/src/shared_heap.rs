//! Shared virtual memory in virtual time: the real protocol of each node (`clump-svm`, which drives
//! `clump-hlrc`) as a service of the real interfaces, on simulated links.
//!
//! Ranks run random programs without races, with locks, barriers, flags and pages shared falsely.
//! They call the interfaces of their nodes through the real mailboxes, and read and write the pages
//! that they have a right on. Links lose, duplicate, delay and corrupt, nodes are cut off, ranks
//! and interfaces freeze, ranks die, nodes are lost.
//!
//! Each byte read is compared with one memory of all ranks ([`clump_hlrc::testing::Oracle`]); in
//! the end every rank reads every byte. If a rank has died, each of the others finishes, or ends
//! with an error that names a rank that died.

mod heap_rank;
mod message_counts;
mod plan;
mod summary;
mod world;

use crate::kernel;
use crate::summary::RunFailure;
pub use message_counts::HeapMessageCounts;
pub use plan::SharedHeapPlan;
use plan::TASK;
pub use summary::{HeapCounts, SharedHeapSummary};

/// Runs a plan to its end. With `trace` it prints its steps on standard error.
///
/// # Errors
/// Fails if a rank reads a byte that it must not see, if it waits for ever, or if the run never
/// ends.
pub fn run(plan: SharedHeapPlan, trace: bool) -> Result<SharedHeapSummary, Box<RunFailure>> {
    let seed = plan.base.seed;
    let mut world = world::HeapCluster::new(plan, trace)
        .map_err(|error| RunFailure::at_start(TASK.to_owned(), seed, format!("{error:#}")))?;
    Ok(kernel::run(&mut world)?)
}
