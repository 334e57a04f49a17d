//! The receiver's record of a lane.

use crate::lane::LaneReceiver;
use crate::name::Name;

/// A lane of its receiver, with the state (`L`) that the layer above keeps for it.
#[derive(Debug)]
#[repr(C)]
pub struct InLane<L> {
    /// Receiving half of the lane.
    pub receiver: LaneReceiver,
    /// Index in the block.
    pub index: usize,
    /// The sending endpoint.
    pub from: Name,
    /// For a lane of requests: the lane at the sender that takes replies; `None` for a lane of
    /// replies.
    pub reply_lane: Option<usize>,
    /// Messages read since notification was last armed for idle lanes.
    pub recent: u32,
    /// Queue of replies to `from`, kept by the layer above; `None` at first.
    pub reply_queue: Option<L>,
}
