//! Opening an index again once no sender can reach its last endpoint any more.
//!
//! A sender frees its lane at a closed endpoint when it notices ([`crate::path::Path::abandon`]),
//! or is dead or closed itself. A lane set aside for replies that was never taken up is withdrawn.
//! Until then the index is skipped and the next one is used.

use crate::Result;
use crate::block::{EndpointBlock, Openness};
use crate::endpoint_parts::{lane_parts, queue_parts};
use crate::lane::LaneControl;
use crate::name::Name;
use crate::node::{NodeMemory, place};
use crate::shared::Shared;
use clump_os::map::Mapping;

/// Clears the block of a closed endpoint for its next; returns false while a sender may still write
/// to it.
pub(crate) fn clear(
    node: &NodeMemory,
    map: &Mapping,
    block: &Shared<EndpointBlock>,
) -> Result<bool> {
    let g = node.geometry();
    debug_assert_eq!(map.bytes(), g.endpoint_bytes(), "all queues and lanes are looked at");
    for which in 0..2 {
        let queue = queue_parts(map, block, which, g)?;
        if !queue.is_unused(|rank| node.death_of(rank).is_some()) {
            return Ok(false);
        }
    }
    for lane in 0..g.lanes() {
        let control: Shared<LaneControl> = place(map, g.lane_in_block(lane))?;
        let owner = control.owner();
        if owner != 0 && !is_let_go(node, &control, Name::from_bits(owner)) {
            return Ok(false);
        }
    }
    for lane in 0..g.lanes() {
        let (control, slots, _) = lane_parts(map, g.lane_in_block(lane), g)?;
        if control.was_used() {
            control.reset(&slots);
        }
    }
    Ok(true)
}

/// Returns true if `owner` will never again write to the lane that it has.
fn is_let_go(node: &NodeMemory, control: &LaneControl, owner: Name) -> bool {
    debug_assert!(owner.to_bits() != 0, "a free lane has no owner");
    let replies = control.link().is_none();
    if node.death_of(owner.rank()).is_some() || (replies && control.withdraw()) {
        return true;
    }
    // A name that no endpoint of this node can have is no sender's.
    let block = node.endpoint_block(owner.rank(), usize::from(owner.index()));
    block.map_or(true, |block| block.openness(owner.generation()) != Openness::Open)
}
