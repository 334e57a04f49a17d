//! Lanes at the other end of a path: claimed for requests, or taken up for replies.

use crate::lane::LaneControl;
use crate::name::Name;
use crate::node::{NodeMemory, place};

/// Takes up the lane that `to` set aside for replies of `from`; returns true on success.
pub(super) fn take_up(node: &NodeMemory, from: Name, to: Name, lane: usize) -> bool {
    let g = node.geometry();
    debug_assert!(lane < g.lanes(), "a lane of `to`");
    debug_assert!(from.generation() != 0, "a free lane has no owner");
    let Ok(at) = node.endpoint_offset(to.rank(), usize::from(to.index())) else { return false };
    let Ok(map) = node.map(at + g.lane_in_block(lane) as u64, clump_os::map::PAGE) else {
        return false;
    };
    place::<LaneControl>(&map, 0)
        .is_ok_and(|control| control.owner() == from.to_bits() && control.take_up())
}

/// Claims a free lane at the target, starting where this rank is likely to find one.
pub(super) fn claim_lane(node: &NodeMemory, from: Name, to: Name, reply: usize) -> Option<usize> {
    let g = node.geometry();
    debug_assert!(reply < g.lanes(), "the lane for replies is one of the sender's");
    let at = node.endpoint_offset(to.rank(), usize::from(to.index())).ok()?;
    let start = (from.rank() as usize * 2) % g.lanes();
    (0..g.lanes()).map(|i| (start + i) % g.lanes()).find(|&lane| {
        let offset = at + g.lane_in_block(lane) as u64;
        let Ok(map) = node.map(offset, clump_os::map::PAGE) else { return false };
        let Ok(control) = place::<LaneControl>(&map, 0) else { return false };
        control.claim(from.to_bits(), reply as u64 + 1)
    })
}
