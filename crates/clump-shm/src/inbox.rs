//! The receiver's side of an endpoint: its block, its lanes, polled or armed, and its shared
//! queues.
//!
//! The inbox finds messages; the layer above (clump-am) handles them. A lane is either *polled*
//! (notification disarmed) or *armed* (its sender rings the doorbell). A lane that is new or armed
//! becomes polled when its doorbell rings. Notification is armed again for a polled lane that
//! stayed empty for long, so that a poll costs one load per lane that is really used and one for
//! the doorbell.

use crate::block::EndpointBlock;
use crate::doorbell::{NETWORK_ARRIVALS, REPLY_QUEUE, REQUEST_QUEUE};
use crate::endpoint_parts::{lane_parts, queue_parts};
use crate::geometry::{ENDPOINT_HEADER, ENDPOINTS, LANE_CONTROL};
pub use crate::in_lane::InLane;
use crate::lane::{Creditor, LaneControl, LaneReceiver};
use crate::name::Name;
use crate::node::{NodeMemory, place, place_slice};
use crate::polled_lanes::PolledLanes;
use crate::queue::QueueReceiver;
use crate::rank::RankBlock;
use crate::shared::Shared;
use crate::traffic::{TrafficCell, TrafficRow};
use crate::{Error, Result, reuse};
use clump_os::fence;
use clump_os::map::{Mapping, PAGE};
use std::collections::BTreeSet;
use std::ops::Range;

mod hold;
#[cfg(test)]
mod tests;

/// Ticks after which notification is armed for lanes that stayed empty, when more than
/// [`KEEP_POLLED`] are polled.
const ARM_AFTER: u32 = 4;
/// Number of lanes that stay polled even when idle: a load each is cheaper than ringing.
const KEEP_POLLED: usize = 8;

/// The receiver's side of an endpoint.
#[derive(Debug)]
pub struct Inbox<L> {
    node: NodeMemory,
    name: Name,
    map: Mapping,
    block: Shared<EndpointBlock>,
    /// Polled lanes, in turn.
    pub hot: PolledLanes<L>,
    cold: Vec<InLane<L>>,
    /// Lanes of requests that would be polled, while requests are held back. Senders need not ring
    /// for them.
    held: Vec<InLane<L>>,
    holding: bool,
    /// The shared queue of requests.
    pub requests: QueueReceiver,
    /// The shared queue of replies.
    pub replies: QueueReceiver,
    /// True if a queue's doorbell rang and it has not been seen empty since: requests, replies.
    pub pending: [bool; 2],
    /// True if the network has rung since this was last cleared.
    pub queued: bool,
    /// True if lanes were armed and not checked since: one may hold a message for which no doorbell
    /// rang.
    unread_armed: bool,
    ticks: u32,
}

impl<L> Inbox<L> {
    /// Opens an endpoint of `rank` with `tag`, at the first index that is not in use any more. One
    /// thread of the rank at a time: the caller sees to that.
    ///
    /// # Errors
    /// All indices are in use, or address space has run out.
    pub fn open(node: &NodeMemory, rank: u32, tag: u64) -> Result<Self> {
        Self::open_among(node, rank, tag, 0..ENDPOINTS)
    }

    /// Opens the endpoint at the first free one of these indices.
    ///
    /// # Errors
    /// As for [`Inbox::open`].
    pub fn open_among(
        node: &NodeMemory,
        rank: u32,
        tag: u64,
        indices: Range<usize>,
    ) -> Result<Self> {
        debug_assert!(node.geometry().slot_of(rank).is_some(), "a rank or interface of this node");
        let (most, mut open) = (indices.len(), 0);
        for index in indices {
            let g = *node.geometry();
            let offset = node.endpoint_offset(rank, index)?;
            let header = node.map(offset, ENDPOINT_HEADER)?;
            let block: Shared<EndpointBlock> = place(&header, 0)?;
            let (generation, is_open) = block.last_opened();
            if is_open {
                open += 1;
                continue;
            }
            let map = node.map(offset, g.endpoint_bytes())?;
            if generation != 0 && !reuse::clear(node, &map, &block)? {
                continue;
            }
            return Self::take(node, rank, index, tag, map);
        }
        Err(Error::NoFreeEndpoint { most, open })
    }

    fn take(node: &NodeMemory, rank: u32, index: usize, tag: u64, map: Mapping) -> Result<Self> {
        let block: Shared<EndpointBlock> = place(&map, 0)?;
        let g = node.geometry();
        debug_assert_eq!(map.bytes(), g.endpoint_bytes(), "all queues and lanes are mapped");
        let requests = QueueReceiver::new(queue_parts(&map, &block, 0, g)?);
        let replies = QueueReceiver::new(queue_parts(&map, &block, 1, g)?);
        let generation = block.last_opened().0 + 1;
        let name = Name::new(rank, index as u8, generation);
        debug_assert_eq!((name.rank(), usize::from(name.index())), (rank, index), "nothing is cut");
        block.open(generation, tag);
        let (hot, cold) = (PolledLanes::default(), Vec::new());
        let (node, pending) = (node.clone(), [true; 2]);
        Ok(Self {
            node,
            name,
            map,
            block,
            hot,
            cold,
            held: Vec::new(),
            holding: false,
            requests,
            replies,
            pending,
            queued: false,
            unread_armed: false,
            ticks: 0,
        })
    }

    /// Returns the endpoint's name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the endpoint's block.
    pub fn block(&self) -> &Shared<EndpointBlock> {
        &self.block
    }

    /// Returns the row in which the endpoint counts its traffic by destination.
    ///
    /// # Errors
    /// The row is outside of the endpoint's block.
    pub fn traffic(&self) -> Result<TrafficRow> {
        let g = self.node.geometry();
        let cells = place_slice(&self.map, g.traffic_in_block(), g.ids())?;
        Ok(TrafficRow::new(self.block.clone(), cells))
    }

    /// Returns the memory of its node.
    pub fn node(&self) -> &NodeMemory {
        &self.node
    }

    /// Claims a lane of this endpoint for replies of `peer`; returns `None` when all are taken.
    pub fn claim_reply_lane(&self, peer: Name) -> Option<usize> {
        let g = self.node.geometry();
        debug_assert!(g.slot_of(peer.rank()).is_some(), "a peer of this node");
        let start = (peer.rank() as usize * 2 + 1) % g.lanes();
        (0..g.lanes()).map(|i| (start + i) % g.lanes()).find(|&lane| {
            place::<LaneControl>(&self.map, g.lane_in_block(lane))
                .is_ok_and(|control| control.claim(peer.to_bits(), 0))
        })
    }

    /// Returns this side's lanes, shared.
    fn known(&self) -> impl Iterator<Item = &InLane<L>> {
        self.hot.iter().chain(&self.cold).chain(&self.held)
    }

    /// Asserts the relations between the fields, for tests and after rare steps.
    pub fn check_invariants(&self) {
        self.hot.check_invariants();
        debug_assert!(
            self.known().map(|lane| lane.index).collect::<BTreeSet<_>>().len()
                == self.known().count(),
            "a lane is polled, armed or held back"
        );
        let lanes = self.node.geometry().lanes();
        debug_assert!(self.known().all(|lane| lane.index < lanes), "lanes of this endpoint");
        debug_assert!(
            self.known().all(|lane| lane.reply_lane.is_none_or(|reply| reply < lanes)),
            "replies have lanes at the sender"
        );
        self.known().for_each(|lane| lane.receiver.check_invariants());
        debug_assert!(
            self.holding || self.held.is_empty(),
            "lanes are held back while requests are"
        );
        debug_assert!(
            self.held.iter().all(|lane| self.carries_local_requests(lane)),
            "only lanes of requests of this node are held back"
        );
        debug_assert!(
            !self.holding || !self.hot.iter().any(|lane| self.carries_local_requests(lane)),
            "no poll finds a request that is held back"
        );
        debug_assert!(!self.holding || !self.pending[0], "no request counts as pending meanwhile");
        debug_assert!(!self.unread_armed || self.pending[1], "the next poll looks at armed lanes");
    }

    /// Returns all lanes of this side.
    pub fn lanes(&mut self) -> impl Iterator<Item = &mut InLane<L>> {
        self.hot.iter_mut().chain(self.cold.iter_mut()).chain(self.held.iter_mut())
    }

    fn is_proxy(&self, from: Name) -> bool {
        from.rank() as usize >= self.node.ranks()
    }

    /// Returns true if requests of a rank of this node come over the lane.
    fn carries_local_requests(&self, lane: &InLane<L>) -> bool {
        lane.reply_lane.is_some() && !self.is_proxy(lane.from)
    }

    /// Adds a lane whose notification is disarmed to the polled lanes, or to those held back.
    fn admit(&mut self, lane: InLane<L>) {
        debug_assert!(!self.hot.iter().any(|hot| hot.index == lane.index), "a lane is polled once");
        let requests = self.carries_local_requests(&lane);
        if self.holding && requests { self.held.push(lane) } else { self.hot.push(lane) }
    }

    /// Returns true if a reply lane has nothing unread.
    pub fn reply_lane_is_idle(&self, lane: usize) -> bool {
        debug_assert!(!self.held.iter().any(|held| held.index == lane), "replies are never held");
        let mut known = self.hot.iter().chain(&self.cold);
        known.find(|l| l.index == lane).is_none_or(|l| !l.receiver.has_message())
    }

    /// Frees a reply lane on which nothing will be sent any more.
    pub fn free_reply_lane(&mut self, lane: usize) {
        let hot = self.hot.iter().position(|l| l.index == lane).map(|at| self.hot.swap_remove(at));
        let at = self.cold.iter().position(|l| l.index == lane);
        let cold = at.map(|at| self.cold.swap_remove(at));
        debug_assert!(hot.is_none() || cold.is_none(), "a lane is polled or armed");
        debug_assert!(!self.held.iter().any(|held| held.index == lane), "replies are never held");
        for mut gone in hot.into_iter().chain(cold) {
            gone.receiver.give_back();
            gone.receiver.arm_notification();
        }
        let control = place::<LaneControl>(&self.map, self.node.geometry().lane_in_block(lane));
        debug_assert!(control.is_ok(), "this endpoint claimed the lane, which lies in its block");
        if let Ok(control) = control {
            control.free();
        }
        self.check_invariants();
    }

    /// Returns true if a shared queue, or a lane that [`Inbox::recheck_after_arming`] finds, may
    /// hold messages.
    #[inline(always)]
    pub fn anything_pending(&self) -> bool {
        self.pending[0] | self.pending[1]
    }

    /// Disarms notification for the lanes whose doorbells rang. Returns how many lanes became
    /// polled.
    ///
    /// # Errors
    /// A lane that rang is outside of the endpoint's block.
    pub fn process_doorbells(&mut self) -> Result<u32> {
        if !self.block.doorbell().rung() {
            return Ok(0);
        }
        let mut rang = Vec::new();
        self.block.doorbell().collect(|bit| rang.push(bit));
        let mut disarmed = 0;
        let most = self.hot.len() + self.held.len() + rang.len();
        for bit in rang {
            match bit {
                REQUEST_QUEUE => self.pending[0] = !self.holding,
                REPLY_QUEUE => self.pending[1] = true,
                NETWORK_ARRIVALS => self.queued = true,
                lane => {
                    disarmed += u32::from(self.disarm_notification(lane as usize)?);
                    self.answer_credit_request(lane as usize);
                }
            }
        }
        debug_assert!(self.hot.len() + self.held.len() <= most, "a doorbell disarms one lane");
        self.check_invariants();
        Ok(disarmed)
    }

    /// Answers the credit request of a polled lane whose doorbell rang: its sender waits until it
    /// is woken.
    fn answer_credit_request(&mut self, index: usize) {
        let Self { node, hot, .. } = self;
        let Some(lane) = hot.iter_mut().find(|lane| lane.index == index) else { return };
        let from = lane.from.rank();
        lane.receiver.take_request(|| {
            let park = node.rank(from)?.part(RankBlock::park);
            Some(Creditor::new(park, node.alarm(from).cloned(), node.fence()))
        });
    }

    /// Wakes ranks that wait for room in the shared queues, or for them to be read. To be called
    /// after messages were taken from them, and after their doorbells rang. Returns how many system
    /// calls that took.
    pub fn wake_queue_senders(&self) -> u32 {
        let waiting = self.requests.take_waiting() | self.replies.take_waiting();
        if waiting == 0 { 0 } else { self.node.wake_marked(waiting) }
    }

    fn disarm_notification(&mut self, index: usize) -> Result<bool> {
        if self.hot.iter().chain(&self.held).any(|lane| lane.index == index) {
            return Ok(false);
        }
        if let Some(at) = self.cold.iter().position(|lane| lane.index == index) {
            let lane = self.cold.swap_remove(at);
            lane.receiver.disarm_notification();
            self.admit(lane);
            return Ok(true);
        }
        let g = self.node.geometry();
        if index >= g.lanes() {
            return Ok(false);
        }
        let (control, slots, bulk) = lane_parts(&self.map, g.lane_in_block(index), g)?;
        let owner = control.owner();
        if owner == 0 {
            return Ok(false);
        }
        debug_assert!(!self.known().any(|lane| lane.index == index), "the lane is new");
        let lanes = g.lanes() as u64;
        let reply_lane = control.link().filter(|&l| l < lanes).map(|l| l as usize);
        let receiver = LaneReceiver::new(control, slots, bulk);
        receiver.disarm_notification();
        let from = Name::from_bits(owner);
        self.admit(InLane { index, from, reply_lane, receiver, recent: 0, reply_queue: None });
        Ok(true)
    }

    /// Arms notification for lanes that stayed empty. To be called every thousand polls or so.
    /// Returns the number of lanes.
    pub fn tick(&mut self) -> u32 {
        self.ticks += 1;
        if self.ticks < ARM_AFTER || self.hot.len() <= KEEP_POLLED {
            return 0;
        }
        self.ticks = 0;
        let before = self.known().count();
        let mut idle = Vec::new();
        let mut at = 0;
        while at < self.hot.len() {
            if std::mem::take(&mut self.hot[at].recent) == 0 {
                idle.push(self.hot.swap_remove(at));
            } else {
                at += 1;
            }
        }
        idle.iter().for_each(|lane| lane.receiver.arm_notification());
        if !idle.is_empty() {
            fence::heavy(self.node.fence());
        }
        let armed = self.recheck_armed(idle);
        debug_assert_eq!(self.known().count(), before, "no lane is forgotten");
        self.check_invariants();
        armed
    }

    /// Returns credit for everything read to the senders; otherwise that happens in quarters of a
    /// ring.
    pub fn give_back_all(&mut self) {
        for lane in &mut self.hot {
            lane.receiver.give_back();
        }
    }

    /// Arms notification for all lanes, for a receiver that is about to announce itself asleep
    /// (which fences). Until [`Inbox::anything_waiting`] the queues count as pending. So the next
    /// poll, if one comes before that call or the call never comes, runs
    /// [`Inbox::recheck_after_arming`].
    pub fn arm_all_notifications(&mut self) {
        self.give_back_all();
        self.unread_armed = true;
        self.pending = [!self.holding, true];
        for lane in self.hot.take_all() {
            lane.receiver.arm_notification();
            self.cold.push(lane);
        }
        debug_assert!(self.hot.is_empty(), "a sleeper polls nothing");
        self.check_invariants();
    }

    /// Returns true if anything came in since [`Inbox::arm_all_notifications`]. To be called after
    /// the fence that follows it.
    pub fn anything_waiting(&mut self) -> bool {
        let before = self.known().count();
        let lanes = std::mem::take(&mut self.cold);
        self.recheck_armed(lanes);
        debug_assert_eq!(self.known().count(), before, "no lane is forgotten");
        self.unread_armed = false;
        let requests = !self.holding && self.requests.has_message();
        self.pending = [requests, self.replies.has_message()];
        !self.hot.is_empty() || self.block.doorbell().rung() || self.anything_pending()
    }

    /// Polls again the lanes that were armed for a sleep that did not come about, if they hold
    /// messages. Every poll that finds something pending calls this first.
    #[inline]
    pub fn recheck_after_arming(&mut self) {
        if self.unread_armed {
            fence::heavy(self.node.fence());
            self.anything_waiting();
        }
    }

    /// Keeps lanes armed only if nothing was published before the fence. Returns how many stay
    /// armed.
    fn recheck_armed(&mut self, lanes: Vec<InLane<L>>) -> u32 {
        let mut armed = 0;
        let all = self.known().count() + lanes.len();
        for lane in lanes {
            if lane.receiver.has_message() {
                lane.receiver.disarm_notification();
                self.admit(lane);
            } else {
                self.cold.push(lane);
                armed += 1;
            }
        }
        debug_assert_eq!(self.known().count(), all, "a lane is polled, held back or armed again");
        armed
    }

    /// Frees lanes of requests whose sender retired and left nothing unread, with the state of the
    /// layer above, if it is `done` with it.
    pub fn free_retired(&mut self, mut done: impl FnMut(&mut L) -> bool) {
        let mut retired = |lane: &mut InLane<L>| {
            lane.reply_lane.is_some()
                && lane.receiver.control().retired()
                && !lane.receiver.has_message()
                && lane.reply_queue.as_mut().is_none_or(&mut done)
        };
        let before = self.known().count();
        let mut gone = Vec::new();
        for at in (0..self.hot.len()).rev() {
            if retired(&mut self.hot[at]) {
                gone.push(self.hot.swap_remove(at));
            }
        }
        gone.extend(self.cold.extract_if(.., |lane| retired(lane)));
        gone.extend(self.held.extract_if(.., |lane| retired(lane)));
        debug_assert!(gone.iter().all(|lane| lane.reply_lane.is_some()), "replies are kept");
        debug_assert_eq!(self.known().count() + gone.len(), before, "no lane is forgotten");
        for mut lane in gone {
            lane.receiver.give_back();
            // The receiver does not poll it from now on: its next sender has to ring.
            lane.receiver.arm_notification();
            lane.receiver.control().free();
        }
    }

    /// Closes the endpoint: from now on nothing is read. Unread messages are returned to their
    /// senders.
    pub fn close(&mut self) {
        // Senders of lanes that this side never polled have rung and may wait; they are woken
        // below.
        let _ = self.process_doorbells();
        for lane in self.lanes() {
            lane.receiver.give_back();
            lane.receiver.arm_notification();
        }
        self.block.close(self.name.generation());
        // A sender that waits for an unread message takes it back. A sender that announces itself
        // asleep after this fence sees that the endpoint is closed.
        fence::light(self.node.fence());
        for lane in self.hot.iter().chain(&self.cold).filter(|lane| lane.receiver.has_message()) {
            self.node.wake_sleeper(lane.from.rank());
        }
        self.wake_queue_senders();
    }
}

const _: () = assert!(size_of::<LaneControl>() == LANE_CONTROL);

/// Returns the row of the traffic of a network interface of this node, for its thread.
///
/// # Errors
/// There is no such interface on this node, or address space has run out.
pub fn interface_traffic(memory: &NodeMemory, id: u32) -> Result<TrafficRow> {
    debug_assert!(memory.own_interfaces().contains(&id), "ranks have rows of their own");
    let (block, g) = (memory.endpoint_block(id, 0)?, memory.geometry());
    let row = memory.endpoint_offset(id, 0)? + g.traffic_in_block() as u64;
    let bytes = (g.ids() * size_of::<TrafficCell>()).next_multiple_of(PAGE);
    debug_assert!(row.is_multiple_of(PAGE as u64), "a row begins on a page");
    Ok(TrafficRow::new(block, place_slice(&memory.map(row, bytes)?, 0, g.ids())?))
}
