//! The table of virtual time in the memory of a node.

use super::actor::Actor;
use super::table::TimeTable;
use super::{TimePlan, TimeSummary};
use crate::Result;
use crate::geometry::VIRTUAL_TIME_SPACE;
use crate::node::NodeMemory;
use clump_os::sync::Ordering;

/// Makes the time of the job virtual that has this memory; before ranks start.
///
/// # Errors
/// Address space has run out.
pub fn begin(node: &NodeMemory, plan: &TimePlan) -> Result<()> {
    debug_assert_eq!(plan.node_of.len(), node.ranks(), "each rank has a virtual node");
    debug_assert_eq!(node.nnodes(), 1, "one machine has all of them");
    TimeTable::create(&node.map(node.geometry().virtual_time(), VIRTUAL_TIME_SPACE)?, plan)?;
    let nodes = plan.node_of.iter().max().map_or(1, |last| last + 1);
    debug_assert_eq!(node.job().virtual_nodes.load(Ordering::Relaxed), nodes, "as it was created");
    debug_assert!(nodes as usize <= node.ranks(), "each virtual node has a rank");
    Ok(())
}

/// Returns the actor of a rank, if the time of the job is virtual; it has to join.
///
/// # Errors
/// Address space has run out.
pub fn actor(node: &NodeMemory, rank: u32) -> Result<Option<Actor>> {
    debug_assert!(node.is_local(rank), "one machine has all virtual nodes");
    Ok(open(node)?.map(|table| Actor::new(table, node.clone(), rank as usize)))
}

/// Returns the executor of one-sided operations that runs beside a rank, if there is one: beside
/// the first rank of each of several virtual nodes. It has to join, too.
///
/// # Errors
/// Address space has run out.
pub fn executor(node: &NodeMemory, rank: u32) -> Result<Option<Actor>> {
    debug_assert!(node.is_local(rank), "one machine has all virtual nodes");
    let Some(table) = open(node)?.filter(|table| table.nodes > 1) else { return Ok(None) };
    let Some(of) = table.node_of_actor(rank as usize) else { return Ok(None) };
    if table.first_of(of) != rank as usize {
        return Ok(None);
    }
    let number = table.executor_of(of);
    debug_assert!(number >= node.ranks(), "executors are numbered behind ranks");
    Ok(Some(Actor::new(table, node.clone(), number)))
}

/// Returns the results of the job so far, if its time is virtual.
///
/// # Errors
/// Address space has run out.
pub fn summary(node: &NodeMemory) -> Result<Option<TimeSummary>> {
    let sum = open(node)?.map(|table| table.summary());
    debug_assert!(sum.is_none_or(|sum| sum.ns != u64::MAX), "clocks end before");
    Ok(sum)
}

fn open(node: &NodeMemory) -> Result<Option<TimeTable>> {
    if node.job().virtual_nodes.load(Ordering::Acquire) == 0 {
        return Ok(None);
    }
    debug_assert_eq!(node.nnodes(), 1, "one machine has all virtual nodes");
    let map = node.map(node.geometry().virtual_time(), VIRTUAL_TIME_SPACE)?;
    TimeTable::open(&map, node.ranks()).map(Some)
}
