//! Holders of locks, read from the words of the locks at their homes.

use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use clump_shm::queue_lock::{QueueLock, lock_words};
use clump_shm::rank::{HeapWait, WaitReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most ranks that are listed as waiting for a lock.
const MAX_WAITING: usize = 64;

/// A lock that ranks wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockState {
    /// Its name, in words.
    pub lock: String,
    /// The rank that holds it; none if it is not known here.
    pub holder: Option<u32>,
    /// Ranks that wait for it, in the order of their claims where that is known.
    pub waiting: Vec<u32>,
}

/// A lock, as ranks name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LockName {
    OfSegment(SegmentName, u64),
    OfHeap(u64),
}

impl std::fmt::Display for LockName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OfSegment(segment, offset) => write!(f, "lock at byte {offset} of {segment}"),
            Self::OfHeap(number) => write!(f, "lock {number} of shared memory"),
        }
    }
}

/// Reads the locks that ranks of these nodes wait for.
pub(super) fn read(nodes: &[NodeMemory]) -> Vec<LockState> {
    let mut found: BTreeMap<LockName, LockState> = BTreeMap::new();
    for node in nodes {
        for rank in node.local_ranks() {
            let waits = node
                .rank(rank)
                .into_iter()
                .flat_map(|block| block.waits().map(|wait| wait.reason).collect::<Vec<_>>());
            for reason in waits {
                let (name, holder) = match reason {
                    WaitReason::Lock { segment, offset, holder } => {
                        (LockName::OfSegment(segment, offset), holder)
                    }
                    WaitReason::Heap { what: HeapWait::Lock, number, holder } => {
                        (LockName::OfHeap(number), holder)
                    }
                    _ => continue,
                };
                let lock = || LockState { lock: name.to_string(), holder, waiting: Vec::new() };
                let state = found.entry(name).or_insert_with(lock);
                state.holder = state.holder.or(holder);
                if state.waiting.last() != Some(&rank) && state.waiting.len() < MAX_WAITING {
                    state.waiting.push(rank);
                }
            }
        }
    }
    for (name, state) in &mut found {
        if let LockName::OfSegment(segment, offset) = *name
            && let Some((holder, waiting)) =
                nodes.iter().find_map(|node| claims(node, segment, offset))
        {
            // Claims in their order; a rank whose claim is not made yet waits all the same.
            let late = state.waiting.iter().filter(|rank| !waiting.contains(rank));
            state.waiting = waiting.iter().chain(late).copied().take(MAX_WAITING).collect();
            state.holder = holder;
        }
        if let LockName::OfHeap(number) = *name {
            let known = nodes.iter().find_map(|node| clump_svm::lock_holder(node, number));
            state.holder = state.holder.or(known);
        }
    }
    found.into_values().collect()
}

/// Reads holder and claims of a lock, if it lies on this node.
fn claims(node: &NodeMemory, segment: SegmentName, offset: u64) -> Option<(Option<u32>, Vec<u32>)> {
    if node.home_of(segment) != node.node() {
        return None;
    }
    let count = lock_words(node.ranks());
    let (cells, place) = node.map_part(segment, (offset, count as u64 * 8)).ok()??;
    let lock = QueueLock::over(cells.words(place, count)?)?;
    let of_job = |rank: &u32| (*rank as usize) < node.ranks();
    let holder = lock.holder().filter(of_job);
    let waiting = lock.claims().filter(|(_, _, held)| !held).map(|(_, rank, _)| rank);
    Some((holder, waiting.filter(of_job).take(MAX_WAITING).collect()))
}

/// Joins what several nodes have read of the same locks.
pub(super) fn joined(all: Vec<LockState>) -> Vec<LockState> {
    let mut found: BTreeMap<String, LockState> = BTreeMap::new();
    for state in all {
        match found.get_mut(&state.lock) {
            Some(known) => {
                known.holder = known.holder.or(state.holder);
                let new = state.waiting.into_iter().filter(|rank| !known.waiting.contains(rank));
                let new: Vec<u32> = new.collect();
                known.waiting.extend(new);
                known.waiting.truncate(MAX_WAITING);
            }
            None => drop(found.insert(state.lock.clone(), state)),
        }
    }
    found.into_values().collect()
}
