//! Receiving: from the slot to the handler, and back to the sender what no handler takes.

use crate::core::{Backlog, Core, OnReturned};
use crate::error::{Error, Result};
use crate::handler::Table;
use crate::link::Link;
use crate::payload::Payload;
use crate::returned::{Reason, Returned, pack_original, unpack_original};
use crate::token::{MOST_ARGUMENTS, Token};
use clump_shm::lane::{Peek, SharedBytes};
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::queue::Take;
use clump_shm::segment::Segment;
use clump_shm::slot::{Header, INLINE, Kind, MOST_WORDS};
use clump_trace::{Counter, Counters, Flow, Role, Size};

/// Messages of one lane handled in one poll, so that no sender starves the others.
const LANE_BUDGET: usize = 64;

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
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize> {
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
        if self.inbox.pending != [false; 2] {
            handled += self.drain_queues()?;
        }
        self.polls += 1;
        if handled == 0 {
            self.empty_polls += 1;
        } else if self.backlog.is_busy() {
            self.settle()?;
        }
        if self.polls >= 1024 {
            self.attend()?;
        }
        Ok(handled)
    }

    fn drain_lane(&mut self, at: usize) -> Result<usize> {
        let lane = &self.inbox.hot[at];
        let request = lane.reply_lane.is_some();
        let mut link = None;
        if let Some(reply_lane) = lane.reply_lane {
            let entry = &mut self.links.by_lane[lane.index];
            if entry.is_none() {
                let (node, from) = (self.context.node(), lane.from);
                let path = Path::for_replies(node, self.inbox.name(), from, Some(reply_lane))?;
                *entry = Some(Link::new(path));
            }
            link = entry.as_mut();
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
        let lane = &mut self.inbox.hot[at];
        let mut words: Words = [0; 2 * INLINE];
        let (mut handled, mut short, mut short_words) = (0, 0, 0);
        while handled < LANE_BUDGET {
            if link.as_ref().is_some_and(|link| link.is_stuck()) {
                break;
            }
            let header = match lane.receiver.peek(&mut words) {
                Peek::Message(header) => header,
                Peek::Empty => {
                    lane.receiver.give_back();
                    break;
                }
                Peek::Corrupt => return Err(Error::Corrupt(lane.from)),
            };
            if header.kind == Kind::Short {
                short += 1;
                short_words += u64::from(header.words);
                desk.short(lane.from, header, &words, link.as_deref_mut())?;
            } else {
                let payload = lane.receiver.payload(header);
                desk.other(lane.from, header, &words, payload, link.as_deref_mut(), request)?;
            }
            lane.receiver.advance(header);
            handled += 1;
        }
        lane.recent = lane.recent.wrapping_add(handled as u32);
        let role = if request { Role::Request } else { Role::Reply };
        desk.counters.add(Counter::messages(role, Size::Short, Flow::Received), short);
        desk.counters.add(Counter::bytes(role, Size::Short, Flow::Received), short_words * 8);
        desk.counters.add(Counter::HandlerRuns, handled as u64);
        Ok(handled)
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
        let result = if taken.header.kind == Kind::Short {
            let role = if request { Role::Request } else { Role::Reply };
            desk.count(role, Size::Short, u64::from(taken.header.words) * 8);
            desk.short(from, taken.header, &words, link)
        } else {
            desk.other(from, taken.header, &words, taken.payload, link, request)
        };
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

    #[inline(always)]
    fn short(
        &mut self,
        from: Name,
        header: Header,
        words: &Words,
        link: Option<&mut Link>,
    ) -> Result<()> {
        if usize::from(header.words) > MOST_ARGUMENTS {
            return Err(Error::Corrupt(from));
        }
        let words = &words[..usize::from(header.words)];
        self.run(from, header, words, Payload::new(SharedBytes::EMPTY, None), link, words)
    }

    /// Medium, long and returned messages.
    fn other(
        &mut self,
        from: Name,
        header: Header,
        words: &Words,
        payload: SharedBytes,
        link: Option<&mut Link>,
        request: bool,
    ) -> Result<()> {
        let role = if request { Role::Request } else { Role::Reply };
        let all = &words[..usize::from(header.words)];
        match (header.kind, all) {
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
            _ => Err(Error::Corrupt(from)),
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
        let Some(handler) = self.table.find(header.handler) else {
            let bytes = if header.kind == Kind::Medium { payload.to_vec() } else { Vec::new() };
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
            Some(why) => Err(Error::HandlerFailed { handler: header.handler, why }),
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
            return Err(Error::Unclaimed { dest: from, reason });
        };
        let mut back = [0; MOST_WORDS];
        back[0] = pack_original(reason, header);
        back[1..=all.len()].copy_from_slice(all);
        let head = Header {
            kind: Kind::Returned,
            handler: 0,
            words: all.len() as u8 + 1,
            payload: payload.len() as u32,
        };
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
            return Err(Error::Corrupt(from));
        };
        let mut bytes = Vec::new();
        payload.append_to(&mut bytes);
        let sent = Header { kind, handler, words: words.len() as u8, payload: header.payload };
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
        None => Err(Error::Unclaimed { dest: returned.dest, reason: returned.reason }),
    }
}
