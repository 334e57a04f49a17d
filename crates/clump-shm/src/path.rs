//! A sender's path to one endpoint on the same node: a lane where there is one, else the shared
//! queue.

mod lanes;

use crate::access::AccessLine;
use crate::block::{EndpointBlock, Openness};
use crate::doorbell::{DoorbellHandle, REPLY_QUEUE, REQUEST_QUEUE, Tally};
use crate::endpoint_parts::{lane_parts, queue_parts};
use crate::export::{ExportTable, SegmentName};
use crate::lane::{CreditRequest, Full, InlineLane, LaneSender};
use crate::name::Name;
use crate::node::{NodeMemory, place};
use crate::queue::Queue;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::slot::{Header, SlotKind};
use crate::traffic::{Traffic, Unpublished};
use crate::{Error, Result};
use clump_os::map::Mapping;
use clump_os::sync::AtomicU64;
use lanes::{claim_lane, take_up};

/// Queue of the target that is used when there is no lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    Request,
    /// Replies and returned messages.
    Reply,
}

#[derive(Debug)]
enum PathKind {
    Lane(LaneSender),
    Queue(Queue, DoorbellHandle),
}

/// A sender's path to one endpoint.
#[derive(Debug)]
pub struct Path {
    node: NodeMemory,
    to: Name,
    from: Name,
    open_word: u64,
    block: Shared<EndpointBlock>,
    way: PathKind,
    /// Table of the target's rank, with its segments.
    exports: Shared<ExportTable>,
    segment: Option<Segment>,
    /// Name and bytes of the segment when it was mapped.
    segment_seen: Option<(SegmentName, u64)>,
    /// For requests over a lane: the lane for replies.
    link: Option<u64>,
    /// True while [`Path::push`] finds no room.
    diverted: bool,
    unpublished: Unpublished,
}

impl Path {
    /// Creates a path for requests from `from` to `to`. `reply_lane` is the lane of `from` that
    /// takes the replies; without one, or without a free lane at the target, the shared queues are
    /// used.
    ///
    /// # Errors
    /// The name `to` points outside of the node's memory, or the target cannot be mapped.
    pub fn for_requests(
        node: &NodeMemory,
        from: Name,
        to: Name,
        reply_lane: Option<usize>,
    ) -> Result<Self> {
        let (map, block) = Self::front(node, to)?;
        let open = block.openness(to.generation()) == Openness::Open;
        let lane = reply_lane.filter(|_| open).and_then(|reply| claim_lane(node, from, to, reply));
        debug_assert!(lane.is_none() || reply_lane.is_some(), "a replying path has a reply lane");
        let mut path = Self::over(node, from, to, (map, block), lane, Direction::Request)?;
        debug_assert_eq!(path.has_lane(), lane.is_some(), "a lane that was claimed is used");
        path.link = lane.and(reply_lane).map(|reply| reply as u64);
        debug_assert_eq!(path.link.is_some(), path.has_lane(), "requests on a lane name another");
        Ok(path)
    }

    /// Creates a path for replies from `from` to `to`, over the lane that `to` set aside for them.
    ///
    /// # Errors
    /// The name `to` points outside of the node's memory, or the target cannot be mapped.
    pub fn for_replies(
        node: &NodeMemory,
        from: Name,
        to: Name,
        lane: Option<usize>,
    ) -> Result<Self> {
        let front = Self::front(node, to)?;
        debug_assert!(lane.is_none_or(|lane| lane < node.geometry().lanes()), "a lane of `to`");
        let lane = lane.filter(|&lane| take_up(node, from, to, lane));
        Self::over(node, from, to, front, lane, Direction::Reply)
    }

    fn front(node: &NodeMemory, to: Name) -> Result<(Mapping, Shared<EndpointBlock>)> {
        let at = node.endpoint_offset(to.rank(), usize::from(to.index()))?;
        let map = node.map(at, node.geometry().lane_in_block(0))?;
        let block = place(&map, 0)?;
        Ok((map, block))
    }

    fn over(
        node: &NodeMemory,
        from: Name,
        to: Name,
        (map, block): (Mapping, Shared<EndpointBlock>),
        lane: Option<usize>,
        direction: Direction,
    ) -> Result<Self> {
        debug_assert!(lane.is_none_or(|lane| lane < node.geometry().lanes()), "a lane of `to`");
        let target = node.rank(to.rank()).ok_or(Error::NotANode("a rank is missing"))?;
        let (queue_bit, queue_index) = match direction {
            Direction::Request => (REQUEST_QUEUE, 0),
            Direction::Reply => (REPLY_QUEUE, 1),
        };
        let bell = DoorbellHandle {
            doorbell: block.part(EndpointBlock::doorbell),
            park: target.part(crate::rank::RankBlock::park),
            alarm: node.alarm(to.rank()).cloned(),
            bit: lane.map_or(Ok(queue_bit), u32::try_from).unwrap_or(queue_bit),
            fence: node.fence(),
            tally: std::cell::Cell::default(),
        };
        debug_assert_eq!(bell.bit < REQUEST_QUEUE, lane.is_some(), "the bit is that of the way");
        let way = match lane {
            Some(lane) => {
                let g = node.geometry();
                let at = node.endpoint_offset(to.rank(), usize::from(to.index()))?;
                let lane_map = node.map(at + g.lane_in_block(lane) as u64, g.lane_bytes())?;
                let (control, slots, bulk) = lane_parts(&lane_map, 0, g)?;
                PathKind::Lane(LaneSender::new(control, slots, bulk, bell))
            }
            None => PathKind::Queue(queue_parts(&map, &block, queue_index, node.geometry())?, bell),
        };
        let open_word = AccessLine::open_word(to.generation());
        debug_assert_eq!(open_word >> 8, u64::from(to.generation()), "it is open as this one");
        let node = node.clone();
        let exports = target.part(crate::rank::RankBlock::exports);
        let (segment, segment_seen, link, diverted) = (None, None, None, false);
        Ok(Self {
            node,
            to,
            from,
            open_word,
            block,
            way,
            exports,
            segment,
            segment_seen,
            link,
            diverted,
            unpublished: Unpublished::default(),
        })
    }

    /// Returns the endpoint at the other end.
    pub fn to(&self) -> Name {
        self.to
    }

    /// Returns true if this path has a lane of its own.
    pub fn has_lane(&self) -> bool {
        matches!(self.way, PathKind::Lane(_))
    }

    /// Returns true if the target is open and `tag` is its tag now (paper 000, 3.3: first step of a
    /// send).
    #[inline(always)]
    pub fn admits(&self, tag: u64) -> bool {
        self.block.admits(self.open_word, tag)
    }

    /// Returns true if the target is open.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.block.is_open_as(self.open_word)
    }

    /// Returns the state of the target.
    pub fn openness(&self) -> Openness {
        self.block.openness(self.to.generation())
    }

    /// Returns the pointers for pushing short messages, and the words to compare before each: the
    /// word at the first address with the number behind it, and the word at the second with the
    /// tag.
    pub fn inline_lane(
        &mut self,
    ) -> Option<(InlineLane, (*const AtomicU64, u64), *const AtomicU64)> {
        let PathKind::Lane(lane) = &mut self.way else { return None };
        let (state, tag) = self.block.access_words();
        Some((lane.inline_lane()?, (state, self.open_word), tag))
    }

    /// Rings the target's doorbell, after a push through the [`InlineLane`].
    #[cold]
    pub fn ring_doorbell(&self) {
        let PathKind::Lane(lane) = &self.way else {
            clump_bug::bug!("only a lane has pointers for pushing inline");
            return;
        };
        lane.doorbell().ring();
    }

    /// Diverts the path, or ends that: while it is diverted, [`Path::push`] finds no room, so that
    /// its callers fall back on [`Path::push_any`], which does. For messages that are to be delayed
    /// on purpose.
    pub fn divert(&mut self, on: bool) {
        self.diverted = on;
        if let PathKind::Lane(lane) = &mut self.way {
            lane.divert(on);
        }
        debug_assert_eq!(self.diverted, on, "a queue looks at this, a lane at its credit");
    }

    /// Sends words only.
    ///
    /// # Errors
    /// The lane or the shared queue has no room, or the target of a shared queue is closed; the
    /// path is diverted.
    #[inline(always)]
    pub fn push(&mut self, header: Header, words: &[u64]) -> std::result::Result<(), Full> {
        match &mut self.way {
            PathKind::Lane(lane) => lane.push(header, words),
            PathKind::Queue(..) if self.diverted => Err(Full),
            PathKind::Queue(..) => self.push_queued(header, words, &[]),
        }
    }

    /// Sends words and a payload of at most `max_medium` bytes.
    ///
    /// # Errors
    /// The lane or the shared queue has no room, or the target of a shared queue is closed.
    pub fn push_payload(
        &mut self,
        header: Header,
        words: &[u64],
        payload: &[u8],
    ) -> std::result::Result<(), Full> {
        match &mut self.way {
            PathKind::Lane(lane) => {
                if lane.push_payload(header, words, payload).is_err() {
                    lane.push_withheld(header, words, Some(payload))?;
                }
                self.unpublished.medium(payload.len());
                Ok(())
            }
            PathKind::Queue(..) => self.push_queued(header, words, payload),
        }
    }

    /// Sends words, and a payload if there is one or the kind of message always has one, also on a
    /// diverted path.
    ///
    /// # Errors
    /// The lane or the shared queue has no room, or the target of a shared queue is closed.
    #[inline(always)]
    pub fn push_any(
        &mut self,
        header: Header,
        words: &[u64],
        payload: &[u8],
    ) -> std::result::Result<(), Full> {
        debug_assert_eq!(header.payload() as usize, payload.len(), "as the header says");
        debug_assert_eq!(header.words(), words.len(), "as the header says");
        if header.payload() == 0 && header.kind() != SlotKind::Medium {
            match &mut self.way {
                PathKind::Lane(lane) => match lane.push(header, words) {
                    Err(Full) => lane.push_withheld(header, words, None),
                    pushed => pushed,
                },
                PathKind::Queue(..) => self.push_queued(header, words, &[]),
            }
        } else {
            self.push_payload(header, words, payload)
        }
    }

    /// Sends over the shared queue. The queue belongs to the index, not to one endpoint, so a
    /// closed endpoint has room for nothing: its messages must not reach the next endpoint at that
    /// index.
    fn push_queued(
        &mut self,
        header: Header,
        words: &[u64],
        payload: &[u8],
    ) -> std::result::Result<(), Full> {
        debug_assert!(!self.has_lane(), "messages of one path do not overtake each other");
        match &self.way {
            PathKind::Queue(queue, bell) if self.is_open() => {
                let me = (self.from.rank(), self.from.to_bits());
                queue.push(me, header, words, payload, bell)?;
            }
            _ => return Err(Full),
        }
        match header.kind() {
            SlotKind::Short => self.unpublished.short(words.len()),
            SlotKind::Medium => self.unpublished.medium(payload.len()),
            SlotKind::Long => self.unpublished.long(words),
            SlotKind::Returned | SlotKind::Forwarded => {}
        }
        Ok(())
    }

    /// Returns the traffic by this path since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        let lane = match &mut self.way {
            PathKind::Lane(lane) => Some(lane.take_counts()),
            PathKind::Queue(..) => None,
        };
        self.unpublished.take(lane)
    }

    /// Counts a short message that took no path, because it stayed in its endpoint.
    #[inline(always)]
    pub fn count_own(&self, words: usize) {
        debug_assert_eq!(self.to, self.from, "its endpoint's own");
        self.unpublished.own(words);
    }

    /// Counts a message that [`Path::push_any`] took as long. One that went through a shared queue
    /// was counted there.
    pub fn count_long(&mut self, words: &[u64]) {
        if self.has_lane() {
            self.unpublished.long(words);
        }
    }

    /// Counts a message that [`Path::push_any`] took as one that is returned to its sender, as
    /// [`Path::count_long`] does.
    #[cold]
    pub fn count_returned(&mut self, words: usize, payload: usize) {
        if self.has_lane() {
            self.unpublished.returned(words, payload);
        }
    }

    /// Counts a word less of a short message, one that its sender did not give.
    #[cold]
    pub fn count_stamp(&mut self) {
        debug_assert!(self.to.generation() != 0, "a path leads somewhere");
        self.unpublished.without_word();
    }

    /// Returns true if there is room for a message without payload. A shared queue always returns
    /// true, and may still be full.
    pub fn has_room(&mut self) -> bool {
        match &mut self.way {
            PathKind::Lane(lane) => lane.has_room() || lane.has_withheld_room(),
            PathKind::Queue(..) => true,
        }
    }

    /// Returns the target's segment as it is exported now; `None` when it has none.
    ///
    /// # Errors
    /// The segment cannot be mapped.
    pub fn segment(&mut self) -> Result<Option<&Segment>> {
        let name = self.block.segment().filter(|name| name.rank() == self.to.rank());
        let now = name
            .and_then(|name| Some((name, self.exports.bytes_of(name.index(), name.generation())?)));
        if self.segment.is_none() || self.segment_seen != now {
            self.segment = match now {
                Some((name, _)) => Segment::exported(&self.node, name)?,
                None => None,
            };
            self.segment_seen = now;
        }
        debug_assert!(self.segment.is_none() || now.is_some(), "what is not exported is not used");
        Ok(self.segment.as_ref())
    }

    /// Returns the numbers of rings and wake-ups since the last call.
    pub fn take_tally(&mut self) -> Tally {
        let tally = match &self.way {
            PathKind::Lane(lane) => lane.doorbell().tally.take(),
            PathKind::Queue(_, bell) => bell.tally.take(),
        };
        debug_assert!(tally.wakes <= tally.rings, "a ring wakes once");
        tally
    }

    /// Returns the number of slots that the target is not known to have read; 0 for a shared queue,
    /// where it is unknown.
    pub fn outstanding(&mut self) -> u64 {
        match &mut self.way {
            PathKind::Lane(lane) => lane.outstanding_slots(),
            PathKind::Queue(..) => 0,
        }
    }

    /// Returns true if everything sent is known to be read.
    pub fn is_drained(&mut self) -> bool {
        let lost = self.lost_lane();
        match &mut self.way {
            PathKind::Lane(lane) if !lost => lane.outstanding_slots() == 0,
            PathKind::Lane(_) => true,
            PathKind::Queue(queue, _) => !queue.holds(self.from.to_bits()),
        }
    }

    /// Requests that the target wakes this rank once `what` is there. To be called after the
    /// announcement of a sleep, and before the last check. A target that is closed, or has freed
    /// the lane, gets no request.
    #[cold]
    pub fn request_credit(&self, what: CreditRequest) {
        if !self.is_open() || self.lost_lane() {
            return;
        }
        match &self.way {
            PathKind::Lane(lane) => lane.request_credit(what),
            PathKind::Queue(queue, bell) => queue.request_room(self.from.rank(), bell),
        }
    }

    /// Returns true if the target let go of a retired lane: it will send no more replies for it.
    pub fn is_released(&self) -> bool {
        matches!(self.way, PathKind::Queue(..)) || self.lost_lane()
    }

    /// Returns true if the lane of this path was freed. Another sender may have it now, perhaps
    /// this endpoint under another path, which has another lane for replies.
    fn lost_lane(&self) -> bool {
        let PathKind::Lane(lane) = &self.way else { return false };
        let control = lane.control();
        control.owner() != self.from.to_bits() || control.link() != self.link
    }

    /// Takes back what the target never read. Only when it is dead or closed.
    pub fn take_back(&mut self, each: impl FnMut(Header, &[u64], &[u8])) {
        // Another endpoint has the index now, or another sender the lane, because nothing of ours
        // was left there. Messages of ours to that one must stay.
        let is_target = matches!(self.openness(), Openness::Open | Openness::Closed);
        if !is_target || self.lost_lane() {
            return;
        }
        match &mut self.way {
            PathKind::Lane(lane) => lane.take_back(each),
            PathKind::Queue(queue, _) => queue.take_back(self.from.to_bits(), each),
        }
    }

    /// Frees the lane of a target that has closed, after [`Path::take_back`]: the next endpoint at
    /// that index may use it. Nothing may be sent on this path any more; it never [`Path::admits`].
    pub fn abandon(&self) {
        if let PathKind::Lane(lane) = &self.way
            && self.openness() == Openness::Closed
            && !self.lost_lane()
        {
            lane.control().free();
        }
    }

    /// Ends a path of replies, with its last reply read: its requester has retired, and may close
    /// before it frees the lane.
    pub fn conclude(&self) {
        debug_assert!(self.link.is_none(), "a path of replies");
        if let PathKind::Lane(lane) = &self.way
            && !self.lost_lane()
        {
            lane.control().conclude();
        }
    }

    /// Reports to the target that this path sends no more, so that its lane can be reused. Without
    /// effect on a lane that was freed: another path may have it.
    pub fn retire(&self) {
        if let PathKind::Lane(lane) = &self.way
            && !self.lost_lane()
        {
            lane.retire();
        }
    }
}
