//! Receiving: runs the handler of each arrived message, and returns to its sender what no handler
//! accepts.

mod afar;
mod returning;

pub(crate) use returning::{failed, hand_over, return_request};

use crate::core::{Core, HandlerContext, OnReturned};
use crate::error::{ErrorKind, Result};
use crate::handler::{HandlerFailure, HandlerTable};
use crate::payload::Payload;
use crate::remote::Remote;
use crate::reply_queue::ReplyQueue;
use crate::returned::Reason;
use crate::token::{MAX_CARRIED, ReplyTo};
use clump_shm::bulk::SharedBytes;
use clump_shm::inbox::InLane;
use clump_shm::lane::Peek;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::queue::Take;
use clump_shm::slot::{Header, INLINE, SlotKind};
use clump_trace::{Counter, Flow, Role, Size};
use returning::end_failed;
use std::collections::hash_map::Entry;

/// Messages of one lane handled in one poll, so that no sender starves the others.
const LANE_BUDGET: usize = 64;

/// Polls between two rounds of housekeeping.
const ATTEND_EVERY: u32 = 8192;

/// Sends between two polls of the network, for a program that only sends.
const LOOK_EVERY: u32 = 64;

/// Words of a message as they are copied out of its slots.
type Words = [u64; 2 * INLINE];

/// The caller of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The program.
    Program,
    /// A blocking call, which does nothing but poll.
    Wait,
    /// A send, after its message.
    Send,
}

/// Returns true if poll number `due` is at or before poll number `now`; numbers wrap.
#[inline(always)]
fn has_come(due: u32, now: u32) -> bool {
    due.wrapping_sub(now) as i32 <= 0
}

impl Core {
    /// Polls everything once and handles what has arrived. Returns how many messages were handled.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Result<usize> {
        self.poll_for(Caller::Program)
    }

    /// Polls for a blocking call, which polls repeatedly until something happens.
    #[inline(always)]
    pub(crate) fn poll_in_wait(&mut self) -> Result<usize> {
        self.poll_for(Caller::Wait)
    }

    /// Polls after a message was sent, and returns how many were handled. Sends follow each other
    /// closely, and arrivals from the network can wait meanwhile. An error, which is not the sent
    /// message's, is kept for the next poll.
    #[inline(always)]
    pub(crate) fn poll_after_send(&mut self) -> usize {
        match self.poll_for(Caller::Send) {
            Ok(handled) => handled,
            Err(error) => {
                self.handler_context.keep_failure(error);
                0
            }
        }
    }

    #[inline(always)]
    fn poll_for(&mut self, caller: Caller) -> Result<usize> {
        let (mut handled, rare) = self.poll_lanes()?;
        if rare {
            handled += self.poll_rare(caller)?;
        }
        self.busy_polls += u32::from(handled > 0);
        Ok(handled)
    }

    /// Handles messages in hot lanes; also returns true if there is more to do.
    #[inline(always)]
    pub(crate) fn poll_lanes(&mut self) -> Result<(usize, bool)> {
        self.schedule.polls = self.schedule.polls.wrapping_add(1);
        if self.handler_context.block.doorbell().rung() {
            self.process_doorbells()?;
        }
        let mut handled = 0;
        // Handlers cannot change the list of hot lanes.
        for at in 0..self.inbox.hot.len() {
            if self.inbox.hot[at].receiver.has_message() {
                handled += self.take(at)?;
            }
        }
        let rare = self.inbox.anything_pending()
            | self.handler_context.backlog.busy
            | has_come(self.schedule.due, self.schedule.polls);
        Ok((handled, rare))
    }

    #[cold]
    fn process_doorbells(&mut self) -> Result<()> {
        let heated = self.inbox.process_doorbells()?;
        self.handler_context.counters().add(Counter::LanesPolled, u64::from(heated));
        if std::mem::take(&mut self.inbox.queued) {
            // Another thread polled the network, and left something for this endpoint.
            (self.net_due, self.schedule.due) = (self.schedule.polls, self.schedule.polls);
        }
        Ok(())
    }

    /// Handles shared queues, deferred work, and whatever is due periodically.
    #[cold]
    pub(crate) fn poll_rare(&mut self, caller: Caller) -> Result<usize> {
        let mut handled = if self.inbox.anything_pending() { self.drain_queues()? } else { 0 };
        if self.handler_context.backlog.busy {
            if caller != Caller::Send
                && let Some(error) = self.handler_context.backlog.failures.next()
            {
                return Err(error);
            }
            self.run_deferred()?;
        }
        if !has_come(self.schedule.due, self.schedule.polls) {
            return Ok(handled);
        }
        if has_come(self.housekeeping_due, self.schedule.polls) {
            self.housekeeping_due = self.schedule.polls.wrapping_add(ATTEND_EVERY);
            self.housekeeping()?;
        }
        if has_come(self.vain.due, self.schedule.polls) {
            self.vain.on_due(self.schedule.polls, caller);
        }
        let mut next = self.housekeeping_due;
        if has_come(self.vain.due, next) {
            next = self.vain.due;
        }
        if self.remote.is_some() {
            if has_come(self.net_due, self.schedule.polls) {
                let looked = self.poll_network();
                let soonest = match (caller, &self.remote) {
                    (Caller::Send, _) => self.schedule.polls.wrapping_add(LOOK_EVERY),
                    (Caller::Wait, Some(remote)) => {
                        self.schedule.polls.wrapping_add(remote.polling.interval_in_wait())
                    }
                    _ => self.net_due,
                };
                if looked.is_ok() && has_come(self.net_due, soonest) {
                    self.net_due = soonest;
                }
                handled += looked?;
            }
            if has_come(self.net_due, next) {
                next = self.net_due;
            }
        }
        self.schedule.due = next;
        Ok(handled)
    }

    /// Handles the next message of a hot lane: inline if it is a short one for a known handler
    /// (which decides the round trip of short messages), through the general path for everything
    /// else.
    #[inline(always)]
    fn take(&mut self, at: usize) -> Result<usize> {
        let Self { inbox, table, handler_context, .. } = self;
        let lane = &mut inbox.hot[at];
        let ready = match &lane.link {
            Some(link) => !link.is_stuck(),
            None => lane.reply_lane.is_none(),
        };
        if ready
            && let Some(header) = lane.receiver.peek_short()
            && let Some(handler) = table.find(header.handler())
        {
            let words = lane.receiver.short_words();
            // A short header admits at most seven words.
            let words = words.get(..header.words()).unwrap_or(&words);
            let back = ReplyTo::to(lane.link.as_mut());
            if let Some(failure) = handler.run_short(lane.from, back, handler_context, words) {
                return end_failed(lane, handler_context, header, words, *failure).map(usize::from);
            }
            lane.receiver.advance_short();
            lane.recent += 1;
            handler_context.count_short(lane.reply_lane.is_some(), header);
            if !lane.receiver.has_message() {
                return Ok(1);
            }
            return Ok(1 + self.drain_lane(at)?);
        }
        self.drain_lane(at)
    }

    /// Handles the messages of one hot lane, up to a budget.
    #[inline(never)]
    fn drain_lane(&mut self, at: usize) -> Result<usize> {
        let before = self.waiting_from_afar();
        let handled = self.drain_lane_here(at)?;
        Ok(handled.saturating_sub(self.note_from_afar(before)))
    }

    fn drain_lane_here(&mut self, at: usize) -> Result<usize> {
        let Self { inbox, table, handler_context, on_returned, remote, .. } = self;
        let lane = &mut inbox.hot[at];
        let request = lane.reply_lane.is_some();
        if request && lane.link.is_none() {
            lane.link = Some(link_back(handler_context, lane.from, lane.reply_lane)?);
        }
        let mut handled = 0;
        while handled < LANE_BUDGET && lane.receiver.has_message() {
            if lane.link.as_ref().is_some_and(ReplyQueue::is_stuck) {
                break;
            }
            handled += 1;
            lane.recent = lane.recent.wrapping_add(1);
            let Some(header) = lane.receiver.peek_short() else {
                handler_context.counters().bump(Counter::HandlerRuns);
                let mut message = Handling { table, handler_context, on_returned, remote, request };
                if !message.next_of_lane(lane)? {
                    break;
                }
                continue;
            };
            let words = lane.receiver.short_words();
            // A short header admits at most seven words.
            let words = words.get(..header.words()).unwrap_or(&words);
            let failure = match table.find(header.handler()) {
                Some(handler) => {
                    let back = ReplyTo::to(lane.link.as_mut());
                    handler.run_short(lane.from, back, handler_context, words)
                }
                None => Some(Box::new(HandlerFailure::Refused(Reason::BadHandler))),
            };
            if let Some(failure) = failure {
                if !end_failed(lane, handler_context, header, words, *failure)? {
                    break;
                }
                continue;
            }
            lane.receiver.advance_short();
            handler_context.count_short(request, header);
        }
        Ok(handled)
    }

    /// Handles messages in the shared queues, replies first.
    #[cold]
    fn drain_queues(&mut self) -> Result<usize> {
        let mut handled = 0;
        self.inbox.recheck_after_arming();
        for which in [1, 0] {
            while self.inbox.pending[which] && handled < LANE_BUDGET {
                match self.take_queued(which == 0)? {
                    Some(count) => handled += count,
                    None => break,
                }
            }
        }
        let woken = self.inbox.wake_queue_senders();
        self.handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        Ok(handled)
    }

    /// Handles one message of a shared queue; `None` if nothing can be handled now.
    fn take_queued(&mut self, request: bool) -> Result<Option<usize>> {
        let before = self.waiting_from_afar();
        let Self { inbox, table, handler_context, on_returned, remote, links, .. } = self;
        if request && handler_context.backlog.stuck_links > 0 {
            return Ok(None);
        }
        let mut words: Words = [0; 2 * INLINE];
        let context = handler_context.context.clone();
        let dead = |rank: u32| context.node().death_of(rank).is_some();
        let queue = if request { &mut inbox.requests } else { &mut inbox.replies };
        let taken = match queue.take(&mut words, dead) {
            Take::Message(taken) => taken,
            Take::Skipped => {
                handler_context.counters().bump(Counter::QueueAbandoned);
                return Ok(Some(0));
            }
            Take::Empty => {
                // A claimed slot is published with another ring, so polling may stop here.
                inbox.pending[usize::from(!request)] = queue.has_message();
                return Ok(None);
            }
        };
        let from = Name::from_bits(taken.source);
        let link = match (request, links.entry(from)) {
            (false, _) => None,
            (true, Entry::Occupied(known)) => Some(known.into_mut()),
            (true, Entry::Vacant(new)) => Some(new.insert(link_back(handler_context, from, None)?)),
        };
        handler_context.counters().bump(Counter::HandlerRuns);
        let mut message = Handling { table, handler_context, on_returned, remote, request };
        let result = message.handle(from, taken.header, &words, taken.payload, link);
        if let Ok(false) = result {
            return Ok(None);
        }
        queue.done(&taken);
        let handled = 1_usize.saturating_sub(self.note_from_afar(before));
        result.map(|_| Some(handled))
    }
}

/// Opens the reply path to a sender of requests.
#[cold]
fn link_back(
    handler_context: &HandlerContext,
    to: Name,
    lane: Option<usize>,
) -> Result<ReplyQueue> {
    Ok(ReplyQueue::new(Path::for_replies(
        handler_context.context.node(),
        handler_context.name,
        to,
        lane,
    )?))
}

/// Everything that a message of any kind needs to be handled.
struct Handling<'a> {
    table: &'a mut HandlerTable,
    handler_context: &'a mut HandlerContext,
    on_returned: &'a mut Option<OnReturned>,
    remote: &'a mut Option<Box<Remote>>,
    request: bool,
}

impl Handling<'_> {
    /// Handles the next message of a lane if it is not short, or takes two slots. Returns false if
    /// it has to stay because its reply path is full.
    #[inline(never)]
    fn next_of_lane(&mut self, lane: &mut InLane<ReplyQueue>) -> Result<bool> {
        let mut words: Words = [0; 2 * INLINE];
        let Peek::Message(header) = lane.receiver.peek(&mut words) else {
            return Err(ErrorKind::Corrupt(lane.from).into());
        };
        let payload = lane.receiver.payload(header);
        let link = lane.link.as_mut();
        let result = self.handle(lane.from, header, &words, payload, link);
        if !matches!(result, Ok(false)) {
            lane.receiver.advance(header);
        }
        result
    }

    /// Handles a message of any kind; returns false if it has to stay in its slot.
    fn handle(
        &mut self,
        from: Name,
        header: Header,
        words: &Words,
        payload: SharedBytes,
        link: Option<&mut ReplyQueue>,
    ) -> Result<bool> {
        let all = words.get(..header.words()).unwrap_or(words);
        match (header.kind(), all) {
            (SlotKind::Short, _) if all.len() <= MAX_CARRIED => {
                self.count(Size::Short, all.len() as u64 * 8);
                self.run(from, header, all, &Payload::none(), link, all)
            }
            (SlotKind::Long, [offset, len, rest @ ..]) if rest.len() <= MAX_CARRIED => {
                self.count(Size::Long, *len);
                match self
                    .handler_context
                    .segment
                    .as_ref()
                    .and_then(|segment| segment.bytes(*offset, *len))
                {
                    Some(bytes) => {
                        let payload = Payload::new(bytes, Some(*offset));
                        self.run(from, header, rest, &payload, link, all)
                    }
                    // The segment changed between the sender's check and now.
                    None => return_request(from, Reason::BadOffset, header, all, &[], link),
                }
            }
            (SlotKind::Forwarded, _) => self.take_forwarded(from, header, all, payload),
            (SlotKind::Returned, [original, rest @ ..]) if !self.request => {
                self.take_returned(from, header, *original, rest, payload)
            }
            (SlotKind::Medium, _) if all.len() <= MAX_CARRIED => {
                self.count(Size::Medium, payload.len() as u64);
                self.run(from, header, all, &Payload::new(payload, None), link, all)
            }
            _ => Err(ErrorKind::Corrupt(from).into()),
        }
    }

    fn count(&self, size: Size, bytes: u64) {
        let role = if self.request { Role::Request } else { Role::Reply };
        let counters = self.handler_context.counters();
        counters.bump(Counter::messages(role, size, Flow::Received));
        counters.add(Counter::bytes(role, size, Flow::Received), bytes);
    }

    fn run(
        &mut self,
        from: Name,
        header: Header,
        words: &[u64],
        payload: &Payload<'_>,
        mut link: Option<&mut ReplyQueue>,
        all: &[u64],
    ) -> Result<bool> {
        let failure = match self.table.find(header.handler()) {
            Some(handler) => {
                let back = ReplyTo::to(link.as_deref_mut());
                handler.run(from, back, self.handler_context, words, payload)
            }
            None => Some(Box::new(HandlerFailure::Refused(Reason::BadHandler))),
        };
        let Some(failure) = failure else { return Ok(true) };
        failed(header, *failure, |reason| {
            let bytes =
                if header.kind() == SlotKind::Medium { payload.to_vec() } else { Vec::new() };
            return_request(from, reason, header, all, &bytes, link)
        })
    }
}
