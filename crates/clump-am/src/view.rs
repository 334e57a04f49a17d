//! Addresses that inline code of other languages reads instead of calling: the state that shows if
//! a poll would find anything, and the lane of a short message to an endpoint of the same node.
//!
//! Such code runs in the endpoint's thread while nothing of the endpoint runs, and does what
//! `Core::poll` and `Core::attempt_short` do in their best cases; in all others it calls.
//! docs/adr/0023.

use crate::core::Core;
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::peer::Dest;
use crate::reply_queue::ReplyQueue;
use clump_os::sync::AtomicU64;
use clump_shm::inbox::InLane;
use clump_shm::lane::InlineLane;
use clump_shm::path::Path;
use clump_shm::polled_lanes::PolledLanes;
use clump_trace::Counter;

/// Addresses that a poll reads and that a send counts in. Valid while the endpoint is open.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct View {
    /// Not zero: the doorbell was rung.
    pub bell: *const AtomicU64,
    /// Points to two words: the address of the first hot lane, and the number of hot lanes, of
    /// `LANE_STRIDE` bytes each.
    pub hot: *const (),
    /// Two bytes, either not zero: the shared queues may hold messages.
    pub pending: *const [bool; 2],
    /// True if handlers have left deferred work.
    pub busy: *const bool,
    /// Number of polls so far, and number of the next poll that does more; `u32` each. A poll that
    /// finds nothing counts itself.
    pub schedule: *mut [u32; 2],
    /// Counters of short requests sent and of their bytes; only the owner writes them.
    pub sent: [*const AtomicU64; 2],
}

/// Bytes from one hot lane to the next.
pub const LANE_STRIDE: usize = size_of::<InLane<ReplyQueue>>();

/// The lane to a destination on this node, while it is mapped.
#[derive(Debug, Clone, Copy)]
pub struct LocalRoute {
    /// The lane to push to.
    pub door: InlineLane,
    /// An address, and the value there while the endpoint is open.
    pub state: (*const AtomicU64, u64),
    /// An address, and the value there while this sender is admitted.
    pub tag: (*const AtomicU64, u64),
    /// Set by each push: the endpoint then checks whether the target dies or closes.
    pub unchecked: *mut bool,
}

impl Core {
    fn local_route(&mut self, dest: Dest) -> Option<LocalRoute> {
        let peer = self.sender.translation.get_mut(dest)?;
        let (door, state, tag) = peer.route.path_mut()?.inline_lane()?;
        debug_assert!(peer.route.flow().is_none(), "a lane to another node");
        let (tag, unchecked) = ((tag, peer.tag), &raw mut peer.unchecked);
        debug_assert!(peer.reply_lane.is_some(), "a lane for requests and none for their replies");
        Some(LocalRoute { door, state, tag, unchecked })
    }
}

impl Endpoint {
    /// Returns the addresses that a poll reads. They stay valid until the endpoint is closed.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn view(&self) -> Result<View> {
        let mut core = self.borrow()?;
        let cells = core.handler_context.block.counters();
        let cell = |counter| &raw const cells[counter as usize];
        let sent = [cell(Counter::RequestShortSent), cell(Counter::RequestShortSentBytes)];
        let hot: *const PolledLanes<ReplyQueue> = &raw const core.receiver.inbox.hot;
        Ok(View {
            bell: core.receiver.inbox.block().doorbell().summary(),
            hot: hot.cast(),
            pending: &raw const core.receiver.inbox.pending,
            busy: &raw const core.handler_context.backlog.busy,
            schedule: (&raw mut core.schedule).cast(),
            sent,
        })
    }

    /// Returns the translation table's address and length. When these change, every [`LocalRoute`]
    /// is stale.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn table_at(&self) -> Result<(usize, usize)> {
        let core = self.borrow()?;
        Ok((core.sender.translation.address(), core.sender.translation.len()))
    }

    /// Returns the lane to `dest`; `None` if it is not mapped, or if messages go there by other
    /// means than a lane.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn local_route(&self, dest: Dest) -> Result<Option<LocalRoute>> {
        Ok(self.borrow()?.local_route(dest))
    }

    /// Completes a push through an [`InlineLane`]: rings the target's doorbell (`ring`), and polls
    /// (`poll`). Returns how many messages were handled. Errors of that poll are kept for the next
    /// one, as in [`Endpoint::request`].
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    #[cold]
    pub fn after_push(&self, dest: Dest, ring: bool, poll: bool) -> Result<usize> {
        let mut core = self.borrow()?;
        if ring {
            let path = core.sender.translation.get(dest).and_then(|peer| peer.route.path());
            debug_assert!(path.is_some_and(Path::has_lane), "a push to {} without a lane", dest.0);
            if let Some(path) = path {
                path.ring_doorbell();
            }
        }
        Ok(if poll { core.poll_after_send() } else { 0 })
    }
}
