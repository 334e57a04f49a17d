//! Receiving: from the slot to the handler, and back to the sender what no handler takes.

use crate::core::{Backlog, Core, OnReturned};
use crate::error::{ErrorKind, Result};
use crate::handler::Table;
use crate::link::Link;
use crate::payload::Payload;
use crate::returned::{Reason, Returned, pack_original, unpack_original};
use crate::token::{MOST_ARGUMENTS, Token};
use clump_shm::inbox::InLane;
use clump_shm::lane::{Peek, SharedBytes};
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::queue::Take;
use clump_shm::segment::Segment;
use clump_shm::slot::{Header, INLINE, Kind, MOST_WORDS};
use clump_trace::{Counter, Counters, Flow, Role, Size};

/// Messages of one lane handled in one poll, so that no sender starves the others.
const LANE_BUDGET: usize = 64;

/// Polls between two looks at what polls do not see; a power of two.
const ATTEND_EVERY: u32 = 8192;

/// Words of a message as they are copied out of its slots.
type Words = [u64; 2 * INLINE];

/// Everything of an endpoint that a message needs to be handled, borrowed apart from the lanes.
struct Desk<'a> {
    me: u32,
    table: &'a mut Table,
    backlog: &'a mut Backlog,
    on_returned: &'a mut Option<OnReturned>,
    segment: Option<&'a Segment>,
    counters: Counters<'a>,
    max_medium: usize,
}

impl Core {
    /// Looks once at everything and handles what is there. Returns how many messages were handled.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Result<usize> {
        self.polls = self.polls.wrapping_add(1);
        let quiet = !self.block.doorbell().rung()
            && !self.inbox.hot.iter().any(|lane| lane.receiver.has_message());
        if quiet && self.polls & (ATTEND_EVERY - 1) != 0 && !self.inbox.anything_pending() {
            return Ok(0);
        }
        self.poll_busy()
    }

    #[inline(never)]
    fn poll_busy(&mut self) -> Result<usize> {
        if self.block.doorbell().rung() {
            let heated = self.inbox.answer_bells()?;
            self.counters().add(Counter::LanesHeated, u64::from(heated));
        }
        let mut handled = 0;
        for at in 0..self.inbox.hot.len() {
            if self.inbox.hot[at].receiver.has_message() {
                handled += self.drain_lane(at)?;
            }
        }
        if self.inbox.anything_pending() {
            handled += self.drain_queues()?;
        }
        self.busy_polls += u32::from(handled > 0);
        if self.backlog.is_busy() {
            self.settle()?;
        }
        if self.polls & (ATTEND_EVERY - 1) == 0 {
            self.attend()?;
        }
        Ok(handled)
    }

    fn drain_lane(&mut self, at: usize) -> Result<usize> {
        let lane = &self.inbox.hot[at];
        let request = lane.reply_lane.is_some();
        if request && self.links.by_lane[lane.index].is_none() {
            self.link_lane(at)?;
        }
        let lane = &mut self.inbox.hot[at];
        let mut link = if request { self.links.by_lane[lane.index].as_mut() } else { None };
        let mut desk = Desk {
            me: self.context.rank(),
            table: &mut self.table,
            backlog: &mut self.backlog,
            on_returned: &mut self.on_returned,
            segment: self.segment.as_ref(),
            counters: Counters::over(self.block.counters()),
            max_medium: self.max_medium,
        };
        let mut inline = [0; INLINE];
        let (mut handled, mut short, mut short_words) = (0, 0, 0);
        while handled < LANE_BUDGET && lane.receiver.has_message() {
            if link.as_ref().is_some_and(|link| link.is_stuck()) {
                break;
            }
            if let Some(header) = lane.receiver.peek_short(&mut inline) {
                short += 1;
                short_words += header.words() as u64;
                // `parse_short` admits at most seven words.
                let words = inline.get(..header.words()).unwrap_or(&inline);
                let payload = Payload::new(SharedBytes::EMPTY, None);
                desk.run(lane.from, header, words, payload, link.as_deref_mut(), words)?;
                lane.receiver.advance_short();
            } else {
                desk.long_way(lane, link.as_deref_mut(), request)?;
            }
            handled += 1;
        }
        lane.receiver.give_back();
        lane.recent = lane.recent.wrapping_add(handled as u32);
        let role = if request { Role::Request } else { Role::Reply };
        desk.counters.add(Counter::messages(role, Size::Short, Flow::Received), short);
        desk.counters.add(Counter::bytes(role, Size::Short, Flow::Received), short_words * 8);
        desk.counters.add(Counter::HandlerRuns, handled as u64);
        Ok(handled)
    }

    /// Finds the way back to the sender of a lane, once.
    #[cold]
    fn link_lane(&mut self, at: usize) -> Result<()> {
        let lane = &self.inbox.hot[at];
        let (node, me) = (self.context.node(), self.inbox.name());
        let path = Path::for_replies(node, me, lane.from, lane.reply_lane)?;
        self.links.by_lane[lane.index] = Some(Link::new(path));
        Ok(())
    }

    /// Handles what lies in the shared queues, replies first.
    #[cold]
    fn drain_queues(&mut self) -> Result<usize> {
        let mut handled = 0;
        for which in [1, 0] {
            while self.inbox.pending[which] && handled < LANE_BUDGET {
                match self.take_queued(which == 0)? {
                    Some(count) => handled += count,
                    None => break,
                }
            }
        }
        Ok(handled)
    }

    /// Handles one message of a shared queue; `None` when nothing can be handled now.
    fn take_queued(&mut self, request: bool) -> Result<Option<usize>> {
        if request && self.backlog.stuck_links > 0 {
            return Ok(None);
        }
        let mut words: Words = [0; 2 * INLINE];
        let node = self.context.node().clone();
        let dead = |rank: u32| node.death_of(rank).is_some();
        let queue = if request { &mut self.inbox.requests } else { &mut self.inbox.replies };
        let taken = match queue.take(&mut words, dead) {
            Take::Message(taken) => taken,
            Take::Skipped => {
                self.counters().bump(Counter::QueueAbandoned);
                return Ok(Some(0));
            }
            Take::Empty => {
                // A claimed slot is published with another ring, so it is safe to stop looking.
                self.inbox.pending[usize::from(!request)] = queue.has_message();
                return Ok(None);
            }
        };
        let from = Name::from_bits(taken.source);
        let mut link = None;
        if request {
            let me = self.inbox.name();
            let entry = match self.links.by_name.entry(from) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(Link::new(Path::for_replies(&node, me, from, None)?))
                }
            };
            link = Some(entry);
        }
        let mut desk = Desk {
            me: self.context.rank(),
            table: &mut self.table,
            backlog: &mut self.backlog,
            on_returned: &mut self.on_returned,
            segment: self.segment.as_ref(),
            counters: Counters::over(self.block.counters()),
            max_medium: self.max_medium,
        };
        let result = desk.any(from, taken.header, &words, taken.payload, link, request);
        desk.counters.bump(Counter::HandlerRuns);
        let queue = if request { &mut self.inbox.requests } else { &mut self.inbox.replies };
        queue.done(&taken);
        result.map(|()| Some(1))
    }
}

impl Desk<'_> {
    fn count(&self, role: Role, size: Size, bytes: u64) {
        self.counters.bump(Counter::messages(role, size, Flow::Received));
        self.counters.add(Counter::bytes(role, size, Flow::Received), bytes);
    }

    /// Handles the next message of a lane when it is not short, or takes two slots.
    #[inline(never)]
    fn long_way(
        &mut self,
        lane: &mut InLane,
        link: Option<&mut Link>,
        request: bool,
    ) -> Result<()> {
        let mut words: Words = [0; 2 * INLINE];
        let Peek::Message(header) = lane.receiver.peek(&mut words) else {
            return Err(ErrorKind::Corrupt(lane.from).into());
        };
        let payload = lane.receiver.payload(header);
        self.any(lane.from, header, &words, payload, link, request)?;
        lane.receiver.advance(header);
        Ok(())
    }

    /// Handles a message of any kind.
    fn any(
        &mut self,
        from: Name,
        header: Header,
        words: &Words,
        payload: SharedBytes,
        link: Option<&mut Link>,
        request: bool,
    ) -> Result<()> {
        let role = if request { Role::Request } else { Role::Reply };
        let all = &words[..header.words()];
        match (header.kind(), all) {
            (Kind::Short, _) if all.len() <= MOST_ARGUMENTS => {
                self.count(role, Size::Short, all.len() as u64 * 8);
                self.run(from, header, all, Payload::new(payload, None), link, all)
            }
            (Kind::Long, [offset, len, rest @ ..]) if rest.len() <= MOST_ARGUMENTS => {
                self.count(role, Size::Long, *len);
                match self.segment.and_then(|segment| segment.bytes(*offset, *len)) {
                    Some(bytes) => {
                        let payload = Payload::new(bytes, Some(*offset));
                        self.run(from, header, rest, payload, link, all)
                    }
                    // The segment changed between the sender's check and now.
                    None => self.send_back(from, Reason::BadOffset, header, all, &[], link),
                }
            }
            (Kind::Returned, [original, rest @ ..]) if !request => {
                self.take_returned(from, header, *original, rest, payload)
            }
            (Kind::Medium, _) if all.len() <= MOST_ARGUMENTS => {
                self.count(role, Size::Medium, payload.len() as u64);
                self.run(from, header, all, Payload::new(payload, None), link, all)
            }
            _ => Err(ErrorKind::Corrupt(from).into()),
        }
    }

    #[inline(always)]
    fn run(
        &mut self,
        from: Name,
        header: Header,
        words: &[u64],
        payload: Payload<'_>,
        link: Option<&mut Link>,
        all: &[u64],
    ) -> Result<()> {
        let Some(handler) = self.table.find(header.handler()) else {
            let bytes = if header.kind() == Kind::Medium { payload.to_vec() } else { Vec::new() };
            return self.send_back(from, Reason::BadHandler, header, all, &bytes, link);
        };
        let token = Token {
            from,
            rank: self.me,
            link,
            backlog: self.backlog,
            counters: self.counters,
            max_medium: self.max_medium,
        };
        match handler(token, words, payload) {
            None => Ok(()),
            Some(why) => {
                Err(ErrorKind::HandlerFailed { handler: header.handler(), why: *why }.into())
            }
        }
    }

    /// Sends a request back to where it came from.
    #[cold]
    fn send_back(
        &mut self,
        from: Name,
        reason: Reason,
        header: Header,
        all: &[u64],
        payload: &[u8],
        link: Option<&mut Link>,
    ) -> Result<()> {
        let Some(link) = link else {
            // A reply that this program does not handle is this program's own mistake.
            return Err(ErrorKind::Unclaimed { dest: from, reason }.into());
        };
        let mut back = [0; MOST_WORDS];
        back[0] = pack_original(reason, header);
        back[1..=all.len()].copy_from_slice(all);
        let head = Header::new(Kind::Returned, 0, all.len() + 1, payload.len() as u32);
        if link.send(head, &back[..=all.len()], payload) {
            self.backlog.stuck_links += 1;
        }
        Ok(())
    }

    /// A request of this endpoint came back.
    #[cold]
    fn take_returned(
        &mut self,
        from: Name,
        header: Header,
        original: u64,
        words: &[u64],
        payload: SharedBytes,
    ) -> Result<()> {
        let Some((reason, kind, handler)) = unpack_original(original) else {
            return Err(ErrorKind::Corrupt(from).into());
        };
        let mut bytes = Vec::new();
        payload.append_to(&mut bytes);
        let sent = Header::new(kind, handler, words.len(), header.payload());
        let returned = Returned::of((self.me, from), (reason, false), sent, words, &bytes);
        hand_over(self.on_returned, self.counters, &returned)
    }
}

/// Gives a returned message to handler 0, or fails loudly when there is none.
pub(crate) fn hand_over(
    on_returned: &mut Option<OnReturned>,
    counters: Counters<'_>,
    returned: &Returned,
) -> Result<()> {
    counters.bump(returned.reason.counter());
    match on_returned {
        Some(run) => {
            run(returned);
            Ok(())
        }
        None => Err(ErrorKind::Unclaimed { dest: returned.dest, reason: returned.reason }.into()),
    }
}
