//! Holders of locks of the shared heap, for observers of a job.

use crate::kept_locks::{self, word_offset};
use crate::mailbox::{CONTROL_REGION, control_bytes};
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;

/// Returns the rank of `node`, one of several, that has a lock of the shared heap; `None` if none
/// of it has, or for locks beyond those whose words the node keeps.
///
/// Ranks and the interface of the node write the word; it is read once, and checked.
pub fn lock_holder(node: &NodeMemory, lock: u64) -> Option<u32> {
    let ranks = node.local_ranks();
    let count = u32::try_from(ranks.len()).ok().filter(|_| node.nnodes() > 1)?;
    let at = control_bytes(count).checked_add(word_offset(lock)?)?;
    let region = SegmentName::of_node(node.node(), CONTROL_REGION);
    let part = (at, kept_locks::word_bytes());
    let (cells, place) = node.map_part(region, part).ok().flatten()?;
    let local = kept_locks::holder(cells.half(place)?)?;
    (local < count).then(|| ranks.start + local)
}
