//! Receiving on a node: messages of lanes and shared queues are handled, and leave their slots.

use crate::arrived_message::ArrivedMessage;
use crate::core::Core;
use crate::delayed::open_reply_queue;
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::handling::Handling;
use crate::remote::Remote;
use crate::reply_queue::ReplyQueue;
use crate::reply_to::ReplyTo;
use clump_shm::bulk::SharedBytes;
use clump_shm::inbox::InLane;
use clump_shm::lane::Peek;
use clump_shm::name::Name;
use clump_shm::queue::Take;
use clump_shm::slot::{Header, MAX_WORDS, SlotKind};
use clump_trace::Counter;
use clump_wire::Reason;
use std::collections::hash_map::Entry;

/// Messages of one lane handled in one poll, so that no sender starves the others.
const LANE_BUDGET: usize = 64;

/// Words of a message as they are copied out of its slots.
type SlotWords = [u64; MAX_WORDS];

/// Fate of a message in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotFate {
    /// Handled, or returned to its sender: the slot is free.
    Done,
    /// Hidden until it is due: the slot is free.
    Hidden,
    /// A proxy brought it from another node; it is handled with those that a stack receives.
    Forwarded,
    /// Left in its slot: there is no room on the way back to its sender.
    Stays,
}

impl Core {
    /// Handles the next message of a hot lane: inline if it is a short one for a known handler
    /// (which decides the round trip of short messages), through the general path for everything
    /// else.
    #[inline(always)]
    pub(crate) fn take(&mut self, at: usize) -> Result<usize> {
        let Self { inbox, table, handler_context, .. } = self;
        let lane = &mut inbox.hot[at];
        let ready = match &lane.reply_queue {
            Some(queue) => !queue.is_stuck(),
            None => lane.reply_lane.is_none(),
        };
        if ready
            && let Some(header) = lane.receiver.peek_short()
            && let Some(handler) = table.find(header.handler())
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
            return Ok(1 + self.drain_lane(at)?);
        }
        self.drain_lane(at)
    }

    /// Handles the messages of one hot lane, up to a budget.
    #[inline(never)]
    fn drain_lane(&mut self, at: usize) -> Result<usize> {
        let Self { inbox, table, handler_context, on_returned, remote, schedule, .. } = self;
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
            let Some(header) = lane.receiver.peek_short() else {
                let mut parts = Handling { table, handler_context, on_returned };
                match take_from_slots(lane, &mut parts, remote)? {
                    SlotFate::Done => handled += 1,
                    SlotFate::Hidden => {}
                    SlotFate::Forwarded => schedule.network_now(),
                    SlotFate::Stays => break,
                }
                continue;
            };
            let Some(handler) = table.find(header.handler()) else {
                if header.handler() == 0 && handler_context.only_traces() {
                    let mut parts = Handling { table, handler_context, on_returned };
                    match take_from_slots(lane, &mut parts, remote)? {
                        SlotFate::Stays => break,
                        fate => handled += usize::from(fate == SlotFate::Done),
                    }
                    continue;
                }
                match end_without_handler(lane, handler_context, header)? {
                    SlotFate::Stays => break,
                    fate => handled += usize::from(fate == SlotFate::Done),
                }
                continue;
            };
            let words = lane.receiver.short_words();
            // A short header admits at most seven words.
            let words = words.get(..header.words()).unwrap_or(&words);
            let back = ReplyTo::to(lane.reply_queue.as_mut());
            let failure = handler.run_short(lane.from, back, handler_context, words);
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
    pub(crate) fn drain_queues(&mut self) -> Result<usize> {
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
        debug_assert!(handled <= LANE_BUDGET, "more messages than the budget");
        let woken = self.inbox.wake_queue_senders();
        self.handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        Ok(handled)
    }

    /// Handles one message of a shared queue; `None` if nothing can be handled now.
    fn take_queued(&mut self, request: bool) -> Result<Option<usize>> {
        let Self {
            inbox, table, handler_context, on_returned, remote, reply_queues, schedule, ..
        } = self;
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
        let mut parts = Handling { table, handler_context, on_returned };
        let message = (from, taken.header, &words, taken.payload);
        let fate = handle_slot(&mut parts, remote, message, (request, None), reply_queue);
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
}

/// Handles the next message of a lane if it is not short, or takes two slots.
#[inline(never)]
fn take_from_slots(
    lane: &mut InLane<ReplyQueue>,
    parts: &mut Handling<'_>,
    remote: &mut Option<Box<Remote>>,
) -> Result<SlotFate> {
    let mut words: SlotWords = [0; MAX_WORDS];
    let Peek::Message(header) = lane.receiver.peek(&mut words) else {
        return Err(ErrorKind::Corrupt(lane.from).into());
    };
    let message = (lane.from, header, &words, lane.receiver.payload(header));
    let request = lane.reply_lane.is_some();
    debug_assert_eq!(request, lane.reply_queue.is_some(), "requests alone have a path back");
    let fate =
        handle_slot(parts, remote, message, (request, Some(lane.index)), lane.reply_queue.as_mut());
    if !matches!(fate, Ok(SlotFate::Stays)) {
        lane.receiver.advance(header);
    }
    fate
}

/// Handles a message of any kind in a slot.
#[inline(always)]
fn handle_slot(
    parts: &mut Handling<'_>,
    remote: &mut Option<Box<Remote>>,
    (from, header, words, payload): (Name, Header, &SlotWords, SharedBytes),
    (request, lane): (bool, Option<usize>),
    mut queue: Option<&mut ReplyQueue>,
) -> Result<SlotFate> {
    debug_assert!(request == queue.is_some(), "requests have a path back, replies have none");
    if header.kind() == SlotKind::Forwarded {
        let Some(remote) = remote.as_mut() else {
            return Err(ErrorKind::Corrupt(from).into());
        };
        remote.take_forwarded(parts.handler_context, from, header, words, payload)?;
        return Ok(SlotFate::Forwarded);
    }
    let message = ArrivedMessage::of_slot(from, request, header, words, payload)?;
    if message.handler == 0 {
        // Requests have a path back that is not stuck; so it can be handled now.
        let back = ReplyTo::to(queue.as_deref_mut());
        if let Some(done) = parts.handle_traced(&message, back) {
            return Ok(if done? { SlotFate::Done } else { SlotFate::Stays });
        }
    }
    if message.handler == 0
        && let Some(hidden) = parts.handler_context.delay_local(&message, lane)
    {
        return Ok(if hidden { SlotFate::Hidden } else { SlotFate::Stays });
    }
    let done = parts.handle(&message, ReplyTo::to(queue))?;
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

/// Ends a short message of one slot for which there is no handler: one that was delayed on purpose
/// is hidden until it is due, any other is returned to its sender.
#[cold]
#[inline(never)]
fn end_without_handler(
    lane: &mut InLane<ReplyQueue>,
    handler_context: &mut HandlerContext,
    header: Header,
) -> Result<SlotFate> {
    let words = lane.receiver.short_words();
    let words = words.get(..header.words()).unwrap_or(&words);
    let request = lane.reply_lane.is_some();
    if header.handler() == 0 {
        let message = ArrivedMessage::short(lane.from, request, header, words);
        match handler_context.delay_local(&message, Some(lane.index)) {
            Some(true) => {
                // It is counted when it is handled.
                lane.receiver.advance_short();
                return Ok(SlotFate::Hidden);
            }
            Some(false) => return Ok(SlotFate::Stays),
            None => {}
        }
    }
    debug_assert!(words.len() == header.words(), "the words of one slot");
    let refused = HandlerFailure::Refused(Reason::BadHandler);
    let done = end_failed(lane, handler_context, header, words, refused)?;
    Ok(if done { SlotFate::Done } else { SlotFate::Stays })
}
