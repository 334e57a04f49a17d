//! The receiver's side of an endpoint: its block, its lanes hot and cold, its shared queues.
//!
//! The inbox says where messages are; what happens to them is decided above (clump-am). A lane that
//! is new, or was cold, becomes hot when its bell rings; a hot lane that stayed empty for long is
//! cooled, so that a poll costs one load per lane that is really used and one for the doorbell.

use crate::block::EndpointBlock;
use crate::bulk::Bulk;
use crate::doorbell::{MAIL, REPLY_QUEUE, REQUEST_QUEUE};
use crate::geometry::{
    ENDPOINT_HEADER, ENDPOINTS, Geometry, LANE_CONTROL, LANE_FRONT, LANE_SLOTS, QUEUE_BLOCKS,
    QUEUE_SLOTS,
};
use crate::lane::{Creditor, LaneControl, LaneReceiver};
use crate::name::Name;
use crate::node::{NodeMemory, place, place_slice};
use crate::polled_lanes::PolledLanes;
use crate::queue::{Blocks, Queue, QueueReceiver, QueueTail};
use crate::rank::RankBlock;
use crate::shared::{Shared, SharedSlice};
use crate::slot::Slot;
use crate::{Error, Result, reuse};
use clump_os::fence;
use clump_os::map::{Mapping, PAGE};

/// Ticks after which lanes that stayed empty are cooled, when more than [`KEEP_HOT`] are hot.
const COOL_AFTER: u32 = 4;
/// Lanes that are never cooled by idling: a load each is cheaper than ringing.
const KEEP_HOT: usize = 8;

/// A lane that its receiver knows, with whatever (`L`) the layer above keeps for it.
#[derive(Debug)]
#[repr(C)]
pub struct InLane<L> {
    /// Its receiving half.
    pub receiver: LaneReceiver,
    /// Index in the block.
    pub index: usize,
    /// The sending endpoint.
    pub from: Name,
    /// For a lane of requests: where replies go at the sender; `None` for a lane of replies.
    pub reply_lane: Option<usize>,
    /// Messages read since lanes were last cooled.
    pub recent: u32,
    /// What the layer above keeps; nothing at first.
    pub link: Option<L>,
}

/// The receiver's side of an endpoint.
#[derive(Debug)]
pub struct Inbox<L> {
    node: NodeMemory,
    name: Name,
    map: Mapping,
    block: Shared<EndpointBlock>,
    /// Hot lanes, polled in turn.
    pub hot: PolledLanes<L>,
    cold: Vec<InLane<L>>,
    /// While requests are held back: lanes of requests that would be hot. Senders need not ring for
    /// them.
    held: Vec<InLane<L>>,
    holding: bool,
    /// The shared queue of requests.
    pub requests: QueueReceiver,
    /// The shared queue of replies.
    pub replies: QueueReceiver,
    /// True if a queue's bell rang and it has not been seen empty since: requests, replies.
    pub pending: [bool; 2],
    /// True if the network has rung since this was last cleared.
    pub queued: bool,
    /// True if lanes were cooled, and not looked at since: a message may lie in one that nobody
    /// rang for.
    unsettled: bool,
    ticks: u32,
}

impl<L> Inbox<L> {
    /// Opens an endpoint of `rank` with `tag`, at the first index that nobody uses any more.
    pub fn open(node: &NodeMemory, rank: u32, tag: u64) -> Result<Self> {
        let most = ENDPOINTS;
        for index in 0..most {
            let g = *node.geometry();
            let offset = g.endpoint(rank as usize, index);
            let header = node.map(offset, ENDPOINT_HEADER)?;
            let block: Shared<EndpointBlock> = place(&header, 0)?;
            if block.is_open() {
                continue;
            }
            let map = node.map(offset, g.endpoint_bytes())?;
            if block.generation() != 0 && !reuse::clear(node, &map, &block)? {
                continue;
            }
            return Self::take(node, rank, index, tag, map);
        }
        Err(Error::NoFreeEndpoint { most })
    }

    fn take(node: &NodeMemory, rank: u32, index: usize, tag: u64, map: Mapping) -> Result<Self> {
        let block: Shared<EndpointBlock> = place(&map, 0)?;
        let g = node.geometry();
        let requests = QueueReceiver::new(queue_parts(&map, &block, 0, g)?);
        let replies = QueueReceiver::new(queue_parts(&map, &block, 1, g)?);
        let generation = block.generation() + 1;
        let name = Name::new(rank, index as u8, generation);
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
            unsettled: false,
            ticks: 0,
        })
    }

    /// The endpoint's name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The endpoint's block.
    pub fn block(&self) -> &Shared<EndpointBlock> {
        &self.block
    }

    /// The node it lies on.
    pub fn node(&self) -> &NodeMemory {
        &self.node
    }

    /// Sets a lane of this endpoint aside for replies of `peer`; `None` when all are taken.
    pub fn claim_reply_lane(&self, peer: Name) -> Option<usize> {
        let g = self.node.geometry();
        let start = (peer.rank() as usize * 2 + 1) % g.lanes();
        (0..g.lanes()).map(|i| (start + i) % g.lanes()).find(|&lane| {
            place::<LaneControl>(&self.map, g.lane_in_block(lane))
                .is_ok_and(|control| control.claim(peer.to_bits(), 0))
        })
    }

    /// All lanes that this side knows.
    pub fn lanes(&mut self) -> impl Iterator<Item = &mut InLane<L>> {
        self.hot.iter_mut().chain(self.cold.iter_mut()).chain(self.held.iter_mut())
    }

    /// Holds requests back: until [`Inbox::release`] no poll finds one, and senders run out of room
    /// in the end. What proxies bring is found, replies or not: who reads it tells them apart.
    pub fn hold(&mut self) {
        self.holding = true;
        self.pending[0] = false;
        for at in (0..self.hot.len()).rev() {
            if self.hot[at].reply_lane.is_some() && !self.is_proxy(self.hot[at].from) {
                let mut lane = self.hot.swap_remove(at);
                lane.receiver.give_back();
                self.held.push(lane);
            }
        }
    }

    /// Lets polls find requests again.
    pub fn release(&mut self) {
        self.holding = false;
        self.pending = [true; 2];
        for lane in std::mem::take(&mut self.held) {
            self.hot.push(lane);
        }
    }

    /// Returns true if requests are held back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        self.holding
    }

    fn is_proxy(&self, from: Name) -> bool {
        from.rank() as usize >= self.node.ranks()
    }

    /// Puts a lane whose receiver is hot where it belongs.
    fn admit(&mut self, lane: InLane<L>) {
        let requests = lane.reply_lane.is_some() && !self.is_proxy(lane.from);
        if self.holding && requests { self.held.push(lane) } else { self.hot.push(lane) }
    }

    /// Returns true if a reply lane has nothing unread.
    pub fn reply_lane_is_idle(&self, lane: usize) -> bool {
        let mut known = self.hot.iter().chain(&self.cold);
        known.find(|l| l.index == lane).is_none_or(|l| !l.receiver.has_message())
    }

    /// Lets go of a reply lane that nothing will be sent on any more.
    pub fn free_reply_lane(&mut self, lane: usize) {
        let hot = self.hot.iter().position(|l| l.index == lane).map(|at| self.hot.swap_remove(at));
        let at = self.cold.iter().position(|l| l.index == lane);
        let cold = at.map(|at| self.cold.swap_remove(at));
        for mut gone in hot.into_iter().chain(cold) {
            gone.receiver.give_back();
            gone.receiver.arm_notification();
        }
        if let Ok(control) =
            place::<LaneControl>(&self.map, self.node.geometry().lane_in_block(lane))
        {
            control.free();
        }
    }

    /// Returns true if a shared queue, or a lane that [`Inbox::settle_late`] finds, may hold
    /// messages.
    #[inline(always)]
    pub fn anything_pending(&self) -> bool {
        self.pending[0] | self.pending[1]
    }

    /// Heats what rang. Returns how many lanes became hot.
    pub fn process_doorbells(&mut self) -> Result<u32> {
        if !self.block.doorbell().rung() {
            return Ok(0);
        }
        let mut rang = Vec::new();
        self.block.doorbell().collect(|bit| rang.push(bit));
        let mut heated = 0;
        for bit in rang {
            match bit {
                REQUEST_QUEUE => self.pending[0] = !self.holding,
                REPLY_QUEUE => self.pending[1] = true,
                MAIL => self.queued = true,
                lane => {
                    heated += u32::from(self.disarm_notification(lane as usize)?);
                    self.answer_credit_request(lane as usize);
                }
            }
        }
        Ok(heated)
    }

    /// The bell of a hot lane rings for credit: its sender waits until it is woken.
    fn answer_credit_request(&mut self, index: usize) {
        let Self { node, hot, .. } = self;
        let Some(lane) = hot.iter_mut().find(|lane| lane.index == index) else { return };
        let from = lane.from.rank();
        lane.receiver.take_request(|| {
            let park = node.rank(from)?.part(RankBlock::park);
            Some(Creditor::new(park, node.alarm(from).cloned(), node.fence()))
        });
    }

    /// Wakes those who wait for room in the shared queues, or for them to be read. To be called
    /// after messages were taken from them, and after their bells rang. Gives how many system calls
    /// that took.
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
        let lanes = g.lanes() as u64;
        let reply_lane = control.link().filter(|&l| l < lanes).map(|l| l as usize);
        let receiver = LaneReceiver::new(control, slots, bulk);
        receiver.disarm_notification();
        let from = Name::from_bits(owner);
        self.admit(InLane { index, from, reply_lane, receiver, recent: 0, link: None });
        Ok(true)
    }

    /// To be called every thousand polls or so: cools lanes that stayed empty. Returns how many.
    pub fn tick(&mut self) -> u32 {
        self.ticks += 1;
        if self.ticks < COOL_AFTER || self.hot.len() <= KEEP_HOT {
            return 0;
        }
        self.ticks = 0;
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
        self.recheck_armed(idle)
    }

    /// Gives everything read back to its senders, which else happens in quarters of a ring.
    pub fn give_back_all(&mut self) {
        for lane in &mut self.hot {
            lane.receiver.give_back();
        }
    }

    /// Cools all lanes, for a receiver that is about to announce itself asleep (which fences).
    /// Until [`Inbox::anything_waiting`] the queues count as pending, so that the next poll, if
    /// somebody polls before or the question is never asked, comes to [`Inbox::settle_late`].
    pub fn arm_all_notifications(&mut self) {
        self.give_back_all();
        self.unsettled = true;
        self.pending = [!self.holding, true];
        for lane in self.hot.take_all() {
            lane.receiver.arm_notification();
            self.cold.push(lane);
        }
    }

    /// After the fence that follows [`Inbox::arm_all_notifications`]: whether anything came in
    /// meanwhile.
    pub fn anything_waiting(&mut self) -> bool {
        let lanes = std::mem::take(&mut self.cold);
        self.recheck_armed(lanes);
        self.unsettled = false;
        let requests = !self.holding && self.requests.has_message();
        self.pending = [requests, self.replies.has_message()];
        !self.hot.is_empty() || self.block.doorbell().rung() || self.anything_pending()
    }

    /// What lies in lanes that were cooled for a sleep that did not come about. Every poll that
    /// finds something pending calls this first.
    #[inline]
    pub fn recheck_after_arming(&mut self) {
        if self.unsettled {
            fence::heavy(self.node.fence());
            self.anything_waiting();
        }
    }

    /// Lanes that were marked cold stay so only if nothing was published before the fence.
    fn recheck_armed(&mut self, lanes: Vec<InLane<L>>) -> u32 {
        let mut cooled = 0;
        for lane in lanes {
            if lane.receiver.has_message() {
                lane.receiver.disarm_notification();
                self.admit(lane);
            } else {
                self.cold.push(lane);
                cooled += 1;
            }
        }
        cooled
    }

    /// Frees lanes of requests whose sender retired and left nothing unread; and with them what the
    /// layer above kept, if it is `done` with it.
    pub fn free_retired(&mut self, mut done: impl FnMut(&mut L) -> bool) {
        let mut retired = |lane: &mut InLane<L>| {
            lane.reply_lane.is_some()
                && lane.receiver.control().retired()
                && !lane.receiver.has_message()
                && lane.link.as_mut().is_none_or(&mut done)
        };
        let mut gone = Vec::new();
        for at in (0..self.hot.len()).rev() {
            if retired(&mut self.hot[at]) {
                gone.push(self.hot.swap_remove(at));
            }
        }
        gone.extend(self.cold.extract_if(.., |lane| retired(lane)));
        gone.extend(self.held.extract_if(.., |lane| retired(lane)));
        for mut lane in gone {
            lane.receiver.give_back();
            // Nobody looks at it from now on: its next sender has to ring.
            lane.receiver.arm_notification();
            lane.receiver.control().free();
        }
    }

    /// Closes the endpoint: from now on nothing is read. Senders take back what is unread.
    pub fn close(&mut self) {
        // Lanes that this side never looked at have rung: their senders may wait, and are told
        // below.
        let _ = self.process_doorbells();
        for lane in self.lanes() {
            lane.receiver.give_back();
            lane.receiver.arm_notification();
        }
        self.block.close(self.name.generation());
        // Whoever waits for something unread gets it back. Whoever announces itself asleep after
        // this fence sees that the endpoint is closed.
        fence::light(self.node.fence());
        for lane in self.hot.iter().chain(&self.cold).filter(|lane| lane.receiver.has_message()) {
            self.node.wake_sleeper(lane.from.rank());
        }
        self.wake_queue_senders();
    }
}

const _: () = assert!(size_of::<LaneControl>() == LANE_CONTROL);

/// The parts of the lane that begins at `offset` of `map`.
pub(crate) fn lane_parts(
    map: &Mapping,
    offset: usize,
    g: &Geometry,
) -> Result<(Shared<LaneControl>, SharedSlice<Slot>, Bulk)> {
    let control = place(map, offset)?;
    let slots = place_slice(map, offset + LANE_CONTROL, LANE_SLOTS)?;
    if offset + g.lane_bytes() > map.bytes() {
        return Err(Error::NotANode("a lane lies outside of it"));
    }
    // SAFETY: in bounds (just checked); `slots` keeps the same mapping mapped.
    let bulk = unsafe { Bulk::new(map.base().add(offset + LANE_FRONT), g.bulk()) };
    Ok((control, slots, bulk))
}

/// The parts of shared queue `which` (0 requests, 1 replies) of an endpoint block.
pub(crate) fn queue_parts(
    map: &Mapping,
    block: &Shared<EndpointBlock>,
    which: usize,
    g: &Geometry,
) -> Result<Queue> {
    let offset = ENDPOINT_HEADER + which * g.queue_bytes();
    if offset + g.queue_bytes() > map.bytes() {
        return Err(Error::NotANode("a queue lies outside of it"));
    }
    let slots = place_slice(map, offset, QUEUE_SLOTS)?;
    let states = place_slice(map, offset + QUEUE_SLOTS * 64, QUEUE_BLOCKS)?;
    let tail = block.part(|b: &EndpointBlock| -> &QueueTail { &b.tails[which.min(1)] });
    let first = offset + QUEUE_SLOTS * 64 + PAGE;
    // SAFETY: in bounds (just checked); `states` keeps the same mapping mapped.
    let blocks = unsafe { Blocks::new(states, map.base().add(first), g.block_bytes()) };
    Ok(Queue::new(slots, tail, blocks))
}
