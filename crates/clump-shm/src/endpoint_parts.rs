//! Parts of an endpoint's block: addresses of lanes and the shared queue.

use crate::block::EndpointBlock;
use crate::bulk::Bulk;
use crate::geometry::{
    ENDPOINT_HEADER, Geometry, LANE_CONTROL, LANE_FRONT, LANE_SLOTS, QUEUE_BLOCKS, QUEUE_SLOTS,
};
use crate::lane::LaneControl;
use crate::node::{place, place_slice};
use crate::queue::{Blocks, Queue, QueueTail};
use crate::shared::{Shared, SharedSlice};
use crate::slot::Slot;
use crate::{Error, Result};
use clump_os::map::{Mapping, PAGE};

/// Returns the parts of the lane that begins at `offset` of `map`.
pub(crate) fn lane_parts(
    map: &Mapping,
    offset: usize,
    g: &Geometry,
) -> Result<(Shared<LaneControl>, SharedSlice<Slot>, Bulk)> {
    debug_assert!(offset.is_multiple_of(PAGE), "lanes begin on pages");
    let control = place(map, offset)?;
    let slots = place_slice(map, offset + LANE_CONTROL, LANE_SLOTS)?;
    if offset + g.lane_bytes() > map.bytes() {
        return Err(Error::NotANode("a lane lies outside of it"));
    }
    // SAFETY: in bounds (just checked); `slots` keeps the same mapping mapped.
    let bulk = unsafe { Bulk::new(map.base().add(offset + LANE_FRONT), g.bulk()) };
    Ok((control, slots, bulk))
}

/// Returns the parts of shared queue `which` (0 requests, 1 replies) of an endpoint block.
pub(crate) fn queue_parts(
    map: &Mapping,
    block: &Shared<EndpointBlock>,
    which: usize,
    g: &Geometry,
) -> Result<Queue> {
    debug_assert!(which < block.tails.len(), "an endpoint has two queues");
    let offset = ENDPOINT_HEADER + which * g.queue_bytes();
    debug_assert!(offset + g.queue_bytes() <= g.lane_in_block(0), "queues end before the lanes");
    if offset + g.queue_bytes() > map.bytes() {
        return Err(Error::NotANode("a queue lies outside of it"));
    }
    let slots = place_slice(map, offset, QUEUE_SLOTS)?;
    let states = place_slice(map, offset + QUEUE_SLOTS * 64, QUEUE_BLOCKS)?;
    let tail = block.part(|b: &EndpointBlock| -> &QueueTail { &b.tails[which.min(1)] });
    let first = offset + QUEUE_SLOTS * 64 + PAGE;
    debug_assert_eq!(
        first + QUEUE_BLOCKS * g.block_bytes(),
        offset + g.queue_bytes(),
        "the blocks end with the queue"
    );
    // SAFETY: in bounds (just checked); `states` keeps the same mapping mapped.
    let blocks = unsafe { Blocks::new(states, map.base().add(first), g.block_bytes()) };
    Ok(Queue::new(slots, tail, blocks))
}
