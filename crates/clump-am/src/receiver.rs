//! The receiving part of an endpoint on its node: messages of lanes and shared queues are handled,
//! and leave their slots; replies go back, or wait for room.

use crate::arrived_message::ArrivedMessage;
use crate::delayed::{SlotFate, take_stamped};
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::handling::Handlers;
use crate::message::MessageKind;
use crate::poll_schedule::PollSchedule;
use crate::remote_side::RemoteSide;
use crate::reply_queue::ReplyQueue;
use crate::reply_to::ReplyTo;
use crate::returned::Returned;
use clump_os::clock;
use clump_shm::block::Openness;
use clump_shm::bulk::SharedBytes;
use clump_shm::inbox::{InLane, Inbox};
use clump_shm::lane::{CreditRequest, Peek};
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::queue::Take;
use clump_shm::slot::{Header, MAX_WORDS, SlotKind};
use clump_trace::{Counter, Counters, Role};
use clump_wire::Reason;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// Messages of one lane handled in one poll, so that no sender starves the others.
const LANE_BUDGET: usize = 64;

/// Time for which a closing endpoint tries to send replies that found no room.
const LAST_REPLIES: Duration = Duration::from_millis(200);

/// Words of a message as they are copied out of its slots.
type SlotWords = [u64; MAX_WORDS];

/// Lanes and queues of an endpoint, its handlers, and the reply paths of its senders.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) inbox: Inbox<ReplyQueue>,
    pub(crate) handlers: Handlers,
    /// Reply paths of senders without a lane.
    reply_queues: HashMap<Name, ReplyQueue>,
}

impl Receiver {
    /// Creates the receiving part of the endpoint that has `inbox`.
    pub(crate) fn new(inbox: Inbox<ReplyQueue>) -> Self {
        debug_assert!(inbox.name().generation() != 0, "no sender could map it");
        debug_assert!(!inbox.is_holding(), "requests are handled from the beginning");
        let (handlers, reply_queues) = (Handlers::new(), HashMap::new());
        Self { inbox, handlers, reply_queues }
    }

    /// Handles the next message of a hot lane: inline if it is a short one for a known handler
    /// (which decides the round trip of short messages), through the general path for everything
    /// else.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        at: usize,
        handler_context: &mut HandlerContext,
        remote: &mut Option<Box<RemoteSide>>,
        schedule: &mut PollSchedule,
    ) -> Result<usize> {
        let lane = &mut self.inbox.hot[at];
        let ready = match &lane.reply_queue {
            Some(queue) => !queue.is_stuck(),
            None => lane.reply_lane.is_none(),
        };
        if ready
            && let Some(header) = lane.receiver.peek_short()
            && let Some(handler) = self.handlers.table.find(header.handler())
        {
            let words = lane.receiver.short_words();
            // A short header admits at most seven words.
            let words = words.get(..header.words()).unwrap_or(&words);
            debug_assert_eq!(
                lane.reply_queue.is_some(),
                lane.reply_lane.is_some(),
                "requests have one"
            );
            let back = ReplyTo::to(lane.reply_queue.as_mut());
            if let Some(failure) = handler.run_short(lane.from, back, handler_context, words) {
                return end_failed(lane, handler_context, header, words, *failure).map(usize::from);
            }
            lane.receiver.advance_short();
            lane.recent += 1;
            handler_context.count_short(lane.reply_lane.is_some(), header);
            if !lane.receiver.has_message() {
                return Ok(1);
            }
            return Ok(1 + self.drain_lane(at, handler_context, remote, schedule)?);
        }
        self.drain_lane(at, handler_context, remote, schedule)
    }

    /// Handles the messages of one hot lane, up to a budget.
    #[inline(never)]
    fn drain_lane(
        &mut self,
        at: usize,
        handler_context: &mut HandlerContext,
        remote: &mut Option<Box<RemoteSide>>,
        schedule: &mut PollSchedule,
    ) -> Result<usize> {
        let Self { inbox, handlers, .. } = self;
        let lane = &mut inbox.hot[at];
        debug_assert!(lane.receiver.has_message(), "drained for nothing");
        let request = lane.reply_lane.is_some();
        if request && lane.reply_queue.is_none() {
            lane.reply_queue = Some(open_reply_queue(handler_context, lane.from, lane.reply_lane)?);
        }
        debug_assert_eq!(request, lane.reply_queue.is_some(), "requests alone have a path back");
        debug_assert!(
            lane.reply_queue.as_ref().is_none_or(|queue| queue.path.to() == lane.from),
            "a reply would go to another endpoint than the requester"
        );
        let mut handled = 0;
        for _ in 0..LANE_BUDGET {
            if !lane.receiver.has_message()
                || lane.reply_queue.as_ref().is_some_and(ReplyQueue::is_stuck)
            {
                break;
            }
            lane.recent = lane.recent.wrapping_add(1);
            let header = lane.receiver.peek_short().filter(|header| header.handler() != 0);
            let Some(header) = header else {
                match take_from_slots(lane, handlers, handler_context, remote)? {
                    SlotFate::Done => handled += 1,
                    SlotFate::Hidden => {}
                    SlotFate::Forwarded => schedule.network_now(),
                    SlotFate::Stays => break,
                }
                continue;
            };
            let words = lane.receiver.short_words();
            // A short header admits at most seven words.
            let words = words.get(..header.words()).unwrap_or(&words);
            let failure = match handlers.table.find(header.handler()) {
                Some(handler) => {
                    let back = ReplyTo::to(lane.reply_queue.as_mut());
                    handler.run_short(lane.from, back, handler_context, words)
                }
                None => Some(Box::new(HandlerFailure::Refused(Reason::BadHandler))),
            };
            if let Some(failure) = failure {
                if !end_failed(lane, handler_context, header, words, *failure)? {
                    break;
                }
            } else {
                lane.receiver.advance_short();
                handler_context.count_short(request, header);
            }
            handled += 1;
        }
        debug_assert!(handled <= LANE_BUDGET, "more messages than the budget of a lane");
        Ok(handled)
    }

    /// Handles messages in the shared queues, replies first.
    #[cold]
    pub(crate) fn drain_queues(
        &mut self,
        handler_context: &mut HandlerContext,
        remote: &mut Option<Box<RemoteSide>>,
        schedule: &mut PollSchedule,
    ) -> Result<usize> {
        let mut handled = 0;
        self.inbox.recheck_after_arming();
        for which in [1, 0] {
            while self.inbox.pending[which] && handled < LANE_BUDGET {
                match self.take_queued(which == 0, handler_context, remote, schedule)? {
                    Some(count) => handled += count,
                    None => break,
                }
            }
        }
        debug_assert!(handled <= LANE_BUDGET, "more messages than the budget");
        let woken = self.inbox.wake_queue_senders();
        handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        Ok(handled)
    }

    /// Handles one message of a shared queue; `None` if nothing can be handled now.
    fn take_queued(
        &mut self,
        request: bool,
        handler_context: &mut HandlerContext,
        remote: &mut Option<Box<RemoteSide>>,
        schedule: &mut PollSchedule,
    ) -> Result<Option<usize>> {
        let Self { inbox, handlers, reply_queues } = self;
        if request && handler_context.backlog.stuck_queues > 0 {
            return Ok(None);
        }
        let mut words: SlotWords = [0; MAX_WORDS];
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
        debug_assert!(taken.header.words() <= MAX_WORDS, "`take` refuses more than a slot holds");
        let reply_queue = match (request, reply_queues.entry(from)) {
            (false, _) => None,
            (true, Entry::Occupied(known)) => Some(known.into_mut()),
            (true, Entry::Vacant(new)) => {
                Some(new.insert(open_reply_queue(handler_context, from, None)?))
            }
        };
        let message = (from, taken.header, &words, taken.payload);
        let parts = (handlers, &mut *handler_context, remote);
        let fate = handle_slot(parts, message, (request, None), reply_queue);
        if matches!(fate, Ok(SlotFate::Stays)) {
            return Ok(None);
        }
        queue.done(&taken);
        match fate? {
            SlotFate::Forwarded => schedule.network_now(),
            SlotFate::Hidden => {}
            SlotFate::Done | SlotFate::Stays => return Ok(Some(1)),
        }
        Ok(Some(0))
    }

    /// Returns all reply paths, those of lanes first.
    pub(crate) fn reply_queues(&mut self) -> impl Iterator<Item = &mut ReplyQueue> {
        let of_lanes = self.inbox.lanes().filter_map(|lane| lane.reply_queue.as_mut());
        of_lanes.chain(self.reply_queues.values_mut())
    }

    /// Returns the reply path of a sender of requests, and the handlers: by lane number `lane`,
    /// while the sender has that.
    ///
    /// # Errors
    /// The sender's memory cannot be mapped.
    pub(crate) fn reply_queue_of(
        &mut self,
        handler_context: &HandlerContext,
        from: Name,
        lane: Option<usize>,
    ) -> Result<(&mut ReplyQueue, &mut Handlers)> {
        let Self { inbox, handlers, reply_queues } = self;
        debug_assert!(from.generation() != 0, "a sender has a name");
        let by_lane = inbox.lanes().find(|known| {
            known.from == from && known.reply_lane.is_some() && Some(known.index) == lane
        });
        if let Some(lane) = by_lane {
            if lane.reply_queue.is_none() {
                lane.reply_queue = Some(open_reply_queue(handler_context, from, lane.reply_lane)?);
            }
            if let Some(queue) = &mut lane.reply_queue {
                return Ok((queue, handlers));
            }
        }
        // Its sender has retired the lane since, or never had one.
        let queue = match reply_queues.entry(from) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(open_reply_queue(handler_context, from, None)?),
        };
        debug_assert_eq!(queue.path.to(), from, "replies go to their requester");
        Ok((queue, handlers))
    }

    /// Sends kept replies as far as there is room.
    pub(crate) fn flush_reply_queues(&mut self, handler_context: &mut HandlerContext) {
        let backlog = &mut handler_context.backlog;
        if backlog.stuck_queues == 0 {
            return;
        }
        let mut stuck = 0;
        for queue in self.reply_queues() {
            queue.flush();
            stuck += usize::from(queue.is_stuck());
        }
        debug_assert!(stuck <= backlog.stuck_queues, "a flush stores no reply");
        backlog.stuck_queues = stuck;
    }

    /// Requests wake-ups from requesters whose replies wait, for when there is room.
    pub(crate) fn request_room(&mut self) {
        for queue in self.reply_queues().filter(|queue| queue.is_stuck()) {
            queue.path.request_credit(CreditRequest::Room);
        }
    }

    /// Returns replies that their requester will never read to this endpoint.
    pub(crate) fn return_unread(&mut self, handler_context: &mut HandlerContext) {
        let HandlerContext { context, block, backlog, .. } = handler_context;
        let counters = Counters::over(block.counters());
        let rank = context.rank();
        for queue in self.reply_queues() {
            let tally = queue.path.take_tally();
            counters.add(Counter::DoorbellRings, tally.rings);
            counters.add(Counter::WakesSent, tally.wakes);
            let dest = queue.path.to();
            let dead = context.node().death_of(dest.rank()).is_some();
            if !dead && queue.path.openness() == Openness::Open {
                continue;
            }
            let reason = if dead { Reason::PeerLost } else { Reason::ReplyRejected };
            queue.take_back(|message| {
                if message.kind != MessageKind::Returned {
                    let back = Returned::of(rank, dest, (Role::Reply, reason), message);
                    backlog.give_back(back);
                }
            });
            debug_assert!(!queue.is_stuck(), "a reply to an endpoint that is gone waits for ever");
            queue.path.abandon();
        }
    }

    /// Sends replies that wait for room and are owed to requesters, because the endpoint closes;
    /// requesters that read nothing lose them.
    pub(crate) fn send_deferred_replies(&mut self, handler_context: &mut HandlerContext) {
        debug_assert!(!handler_context.backlog.delayed, "hidden messages were returned before");
        let started = clock::now_ns();
        while handler_context.backlog.stuck_queues != 0
            && u128::from(clock::now_ns() - started) < LAST_REPLIES.as_nanos()
        {
            self.flush_reply_queues(handler_context);
            clock::yield_now();
        }
    }

    /// Closes the endpoint: messages that it did not read are returned to their senders.
    pub(crate) fn close(&mut self) {
        for queue in self.inbox.lanes().filter_map(|lane| lane.reply_queue.as_ref()) {
            queue.path.abandon();
        }
        self.inbox.close();
    }

    /// Checks relations that hold between calls; `stuck`: the upper bound of the reply queues that
    /// hold stored replies.
    pub(crate) fn check_invariants(&mut self, name: Name, stuck_queues: usize) {
        debug_assert_eq!(self.inbox.name(), name, "two names");
        debug_assert!(
            self.reply_queues.iter().all(|(name, queue)| *name == queue.path.to()),
            "a reply path leads to another requester"
        );
        let mut stuck = self.reply_queues.values().filter(|queue| queue.is_stuck()).count();
        for lane in self.inbox.lanes() {
            let Some(queue) = &lane.reply_queue else { continue };
            debug_assert!(
                lane.reply_lane.is_some(),
                "replies that come by a lane have a path back"
            );
            debug_assert_eq!(queue.path.to(), lane.from, "replies go to another requester");
            queue.check_invariants();
            stuck += usize::from(queue.is_stuck());
        }
        self.reply_queues.values().for_each(ReplyQueue::check_invariants);
        debug_assert!(
            stuck <= stuck_queues,
            "{stuck} reply queues are stuck, and no poll flushes them"
        );
    }
}

/// Opens the reply path to a sender of requests.
#[cold]
fn open_reply_queue(
    handler_context: &HandlerContext,
    to: Name,
    lane: Option<usize>,
) -> Result<ReplyQueue> {
    let HandlerContext { context, name, .. } = handler_context;
    let mut path = Path::for_replies(context.node(), *name, to, lane)?;
    path.divert(handler_context.emulates());
    debug_assert_eq!(path.to(), to, "replies go to their requester");
    debug_assert!(lane.is_some() || !path.has_lane(), "a lane that the requester did not name");
    Ok(ReplyQueue::new(path))
}

/// Handles the next message of a lane if it is not short, takes two slots, or has no handler of the
/// program's.
#[inline(never)]
fn take_from_slots(
    lane: &mut InLane<ReplyQueue>,
    handlers: &mut Handlers,
    handler_context: &mut HandlerContext,
    remote: &mut Option<Box<RemoteSide>>,
) -> Result<SlotFate> {
    let mut words: SlotWords = [0; MAX_WORDS];
    let Peek::Message(header) = lane.receiver.peek(&mut words) else {
        return Err(ErrorKind::Corrupt(lane.from).into());
    };
    let message = (lane.from, header, &words, lane.receiver.payload(header));
    let request = lane.reply_lane.is_some();
    debug_assert_eq!(request, lane.reply_queue.is_some(), "requests alone have a path back");
    let (parts, way) = ((handlers, handler_context, remote), (request, Some(lane.index)));
    let fate = handle_slot(parts, message, way, lane.reply_queue.as_mut());
    if !matches!(fate, Ok(SlotFate::Stays)) {
        lane.receiver.advance(header);
    }
    fate
}

/// Handles a message of any kind in a slot.
#[inline(always)]
fn handle_slot(
    (handlers, handler_context, remote): (
        &mut Handlers,
        &mut HandlerContext,
        &mut Option<Box<RemoteSide>>,
    ),
    (from, header, words, payload): (Name, Header, &SlotWords, SharedBytes),
    (request, lane): (bool, Option<usize>),
    mut queue: Option<&mut ReplyQueue>,
) -> Result<SlotFate> {
    debug_assert!(request == queue.is_some(), "requests have a path back, replies have none");
    if header.kind() == SlotKind::Forwarded {
        let Some(remote) = remote.as_mut() else {
            return Err(ErrorKind::Corrupt(from).into());
        };
        remote.take_forwarded(handler_context, from, header, words, payload)?;
        return Ok(SlotFate::Forwarded);
    }
    let message = ArrivedMessage::of_slot(from, request, header, words, payload)?;
    if message.handler == 0 {
        // Requests have a path back that is not stuck; so it can be handled now.
        let back = ReplyTo::to(queue.as_deref_mut());
        if let Some(fate) = take_stamped(handlers, handler_context, &message, lane, back) {
            return fate;
        }
    }
    let done = handlers.handle(handler_context, &message, ReplyTo::to(queue))?;
    Ok(if done { SlotFate::Done } else { SlotFate::Stays })
}

/// Ends a short message of one slot whose handler failed or does not exist. Returns false if it has
/// to be returned and there is no room, so that it stays.
#[cold]
fn end_failed(
    lane: &mut InLane<ReplyQueue>,
    handler_context: &mut HandlerContext,
    header: Header,
    words: &[u64],
    failure: HandlerFailure,
) -> Result<bool> {
    let request = lane.reply_lane.is_some();
    debug_assert_eq!(header.kind(), SlotKind::Short, "words of one slot");
    let message = ArrivedMessage::short(lane.from, request, header, words);
    let back = ReplyTo::to(lane.reply_queue.as_mut());
    let resolved = back.resolve(handler_context, &message, failure);
    if !matches!(resolved, Ok(false)) {
        lane.receiver.advance_short();
        handler_context.count_short(request, header);
    }
    resolved
}
