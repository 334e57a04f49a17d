//! Messages that are hidden until they are due, and the switch of an endpoint's ways between fast
//! and delayed (docs/adr/0038).

use crate::arrived_message::ArrivedMessage;
use crate::core::Core;
use crate::emulation::{Delayed, Emulation, Hidden, LocalMessage, StampedWords};
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::handling::Handling;
use crate::message::{MessageKind, OutgoingMessage, split_stamp};
use crate::payload::Payload;
use crate::reply_queue::ReplyQueue;
use crate::reply_to::ReplyTo;
use crate::tracing::HandlerRun;
use clump_loggp::KnobScope;
use clump_os::clock;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_transport::Urgency;
use clump_wire::Reason;
use clump_wire::{Message, OwnedMessage};
use std::time::Duration;

/// Time for which a closing endpoint tries to return delayed messages that find no room.
const LAST_RETURNS: Duration = Duration::from_millis(200);

impl Core {
    /// Reads the laboratory's settings, if they have changed, and diverts the ways of short
    /// messages or ends that.
    #[cold]
    pub(crate) fn refresh_knobs(&mut self) {
        let Self { handler_context, translation, inbox, reply_queues, .. } = self;
        if !handler_context.refresh_knobs() {
            return;
        }
        let on = handler_context.emulates();
        translation.divert(on);
        for queue in inbox
            .lanes()
            .filter_map(|lane| lane.reply_queue.as_mut())
            .chain(reply_queues.values_mut())
        {
            queue.path.divert(on);
        }
        debug_assert_eq!(handler_context.emulates(), on, "it is what it was");
        debug_assert!(handler_context.emulation.is_some(), "its state was read");
    }

    /// Handles the messages that are due. Returns how many.
    ///
    /// # Errors
    /// As for any message.
    #[cold]
    pub(crate) fn handle_due(&mut self) -> Result<usize> {
        let (mut handled, mut kept, mut failure) = (0, Vec::new(), None);
        debug_assert!(self.handler_context.backlog.busy, "polls look for what is due");
        debug_assert!(self.handler_context.emulation.is_some(), "messages wait");
        while let Some(emulation) = &mut self.handler_context.emulation
            && let Some((due_ns, hidden)) = emulation.take_due()
        {
            match self.handle_hidden(hidden) {
                Ok(None) => handled += 1,
                Ok(Some(hidden)) => kept.push((due_ns, hidden)),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if let Some(emulation) = &mut self.handler_context.emulation {
            // They are due at once when their reply path has room again.
            kept.into_iter().for_each(|(due_ns, hidden)| emulation.keep(due_ns, hidden));
        }
        self.handler_context.note_delayed();
        self.handler_context.backlog.check_invariants();
        debug_assert!(!self.handler_context.backlog.delayed || self.handler_context.backlog.busy);
        if handled > 0
            && let Some(network) = self.handler_context.context.network()
        {
            network.flush(Urgency::Gathered);
        }
        failure.map_or(Ok(handled), Err)
    }

    /// Handles a message that is due, and notes that in the rank's trace; returns it if it has to
    /// wait longer.
    fn handle_hidden(&mut self, Hidden { message, sent }: Hidden) -> Result<Option<Hidden>> {
        let traced = sent.filter(|_| self.handler_context.context.trace().is_some());
        let run =
            traced.map(|sent| HandlerRun::begin(message.from().rank(), message.class(), sent));
        let left = self.handle_delayed(message)?;
        if let (Some(run), None) = (run, &left) {
            run.end(&self.handler_context.context);
        }
        Ok(left.map(|message| Hidden { message, sent }))
    }

    /// Handles a message that is due; returns it if it has to wait longer.
    fn handle_delayed(&mut self, message: Delayed) -> Result<Option<Delayed>> {
        match message {
            Delayed::Local(message) => self.handle_delayed_local(message),
            Delayed::Remote(queued) => {
                let Some(mut remote) = self.remote.take() else {
                    clump_bug::bug!("a message of another node without a network");
                    return Ok(None);
                };
                let message = Delayed::Remote(queued);
                if let Some(emulation) = &self.handler_context.emulation {
                    emulation.occupy_receiver(self.handler_context.context.emulated(), &message);
                }
                let Delayed::Remote(queued) = message else { return Ok(None) };
                debug_assert!(queued.handler != 0, "its stamp named a handler");
                let done = self.handle_arrival_now(&queued.message(), &mut remote.requesters);
                debug_assert!(self.remote.is_none(), "a handler polled its endpoint's network");
                if matches!(done, Ok(false)) {
                    remote.later.push_back(queued);
                    self.schedule.network_next();
                }
                self.remote = Some(remote);
                done.map(|_| None)
            }
        }
    }

    fn handle_delayed_local(&mut self, message: LocalMessage) -> Result<Option<Delayed>> {
        let Self { inbox, table, handler_context, on_returned, reply_queues, .. } = self;
        debug_assert!(message.handler != 0, "its stamp named a handler");
        debug_assert!(message.kind != MessageKind::Returned, "it is never hidden");
        if message.request && inbox.is_holding() {
            return Ok(Some(Delayed::Local(message)));
        }
        let queue = if message.request {
            Some(reply_queue_of(&message, inbox, reply_queues, handler_context)?)
        } else {
            None
        };
        if queue.as_ref().is_some_and(|queue| queue.is_stuck()) {
            return Ok(Some(Delayed::Local(message)));
        }
        let message = Delayed::Local(message);
        if let Some(emulation) = &handler_context.emulation {
            emulation.occupy_receiver(handler_context.context.emulated(), &message);
        }
        let Delayed::Local(message) = message else { return Ok(None) };
        let mut parts = Handling { table, handler_context, on_returned };
        let done = parts.handle(&message.arrived(), ReplyTo::to(queue))?;
        Ok(if done { None } else { Some(Delayed::Local(message)) })
    }

    /// Hides a message of another node, if it is to be delayed. Returns `None` if it is to be
    /// handled now, and false if it has to wait where it is.
    #[inline]
    pub(crate) fn delay_arrival(&mut self, arrival: &Message<'_>) -> Option<bool> {
        let kind = MessageKind::from_bits(arrival.kind as u8)?;
        if kind == MessageKind::Returned {
            return None;
        }
        let from = Name::from_bits(arrival.route.from);
        debug_assert!(arrival.words.len() <= clump_wire::frame::MAX_WORDS, "a frame's words");
        if arrival.handler == 0 {
            return self.delay_stamped(arrival, kind, from);
        }
        let emulation = self.handler_context.emulation.as_mut().filter(|knobs| knobs.on)?;
        let ranks = self.handler_context.context.node().ranks();
        if !arrival.reply || (from.rank() as usize) < ranks {
            return None;
        }
        debug_assert!(arrival.handler != 0, "interfaces do not handle stamps");
        emulation.hide_answer(arrival.to_owned());
        self.handler_context.note_delayed();
        Some(true)
    }

    #[cold]
    fn delay_stamped(
        &mut self,
        arrival: &Message<'_>,
        kind: MessageKind,
        from: Name,
    ) -> Option<bool> {
        let (stamp, words) = split_stamp(kind, arrival.words)?;
        debug_assert!(stamp.handler != 0 && arrival.handler == 0, "the handler is in the stamp");
        debug_assert_eq!(words.len() + 1, arrival.words.len(), "the stamp is one word");
        let queued = arrival.to_owned();
        let queued = OwnedMessage { handler: stamp.handler, words: words.to_vec(), ..queued };
        let node = self.handler_context.context.node();
        let one_clock = node.has_clock_of(node.node_of(from.rank()));
        let from = (from, one_clock);
        let hidden = self.handler_context.emulation().hide(from, stamp, Delayed::Remote(queued));
        self.handler_context.note_delayed();
        Some(hidden)
    }

    /// Returns the time until the first delayed message is due.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let due_ns = self.handler_context.emulation.as_ref()?.first_due_ns()?;
        debug_assert!(self.handler_context.backlog.busy, "polls look for what is due");
        Some(Duration::from_nanos(due_ns.saturating_sub(clock::now_ns())))
    }

    /// Returns the messages that wait to their senders, because the endpoint closes.
    pub(crate) fn return_delayed(&mut self) {
        let Some(emulation) = &mut self.handler_context.emulation else { return };
        let mut waiting = emulation.take_all();
        debug_assert!(!emulation.is_waiting(), "all of them go back");
        let started = clock::now_ns();
        let mut remote = Vec::new();
        while !waiting.is_empty() && u128::from(clock::now_ns() - started) < LAST_RETURNS.as_nanos()
        {
            for message in std::mem::take(&mut waiting) {
                match message {
                    Delayed::Remote(queued) => remote.push(queued),
                    Delayed::Local(message) => {
                        if !self.return_local(&message) {
                            waiting.push(Delayed::Local(message));
                        }
                    }
                }
            }
            self.flush_reply_queues();
        }
        if let Some(remote_state) = &mut self.remote {
            remote_state.later.extend(remote);
        } else {
            debug_assert!(remote.is_empty(), "messages of other nodes without a network");
        }
        self.handler_context.note_delayed();
    }

    /// Returns a message to its sender; false if there is no room for that now.
    fn return_local(&mut self, message: &LocalMessage) -> bool {
        let Self { inbox, handler_context, reply_queues, .. } = self;
        let Ok(queue) = reply_queue_of(message, inbox, reply_queues, handler_context) else {
            return true;
        };
        debug_assert_eq!(queue.path.to(), message.from, "it is returned to its sender");
        let back = ReplyTo::to(Some(queue));
        // An error means that the requester's memory is unmapped: no endpoint waits for the
        // message.
        let reason = if message.request { Reason::EndpointGone } else { Reason::ReplyRejected };
        back.give_back(handler_context, &message.arrived(), reason).unwrap_or(true)
    }
}

/// Returns the reply path of a request's sender.
fn reply_queue_of<'a>(
    message: &LocalMessage,
    inbox: &'a mut clump_shm::inbox::Inbox<ReplyQueue>,
    reply_queues: &'a mut std::collections::HashMap<Name, ReplyQueue>,
    handler_context: &HandlerContext,
) -> Result<&'a mut ReplyQueue> {
    use std::collections::hash_map::Entry;
    debug_assert!(message.from.generation() != 0, "a sender has a name");
    let by_lane = inbox.lanes().find(|lane| {
        lane.from == message.from && lane.reply_lane.is_some() && Some(lane.index) == message.lane
    });
    if let Some(lane) = by_lane {
        if lane.reply_queue.is_none() {
            lane.reply_queue =
                Some(open_reply_queue(handler_context, message.from, lane.reply_lane)?);
        }
        if let Some(queue) = &mut lane.reply_queue {
            return Ok(queue);
        }
    }
    // Its sender has retired the lane since, or never had one.
    Ok(match reply_queues.entry(message.from) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(open_reply_queue(handler_context, message.from, None)?),
    })
}

/// Opens the reply path to a sender of requests.
#[cold]
pub(crate) fn open_reply_queue(
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

impl LocalMessage {
    /// Copies a message with a stamp out of its slots; `words`: those before the stamp.
    pub(crate) fn of(
        message: &ArrivedMessage<'_>,
        words: &[u64],
        handler: u8,
        lane: Option<usize>,
    ) -> Self {
        let (from, request, kind) = (message.from, message.request, message.kind);
        debug_assert_eq!(words.len() + 1, message.words.len(), "the stamp is one word");
        debug_assert!(handler != 0 && message.handler == 0, "the handler is in the stamp");
        let (words, payload) = (words.to_vec(), message.payload.to_vec());
        Self { from, lane, request, kind, handler, words, payload }
    }

    /// Returns the message as it is handled.
    fn arrived(&self) -> ArrivedMessage<'_> {
        let Self { from, request, kind, handler, words, payload, .. } = self;
        let (from, request, kind, handler) = (*from, *request, *kind, *handler);
        debug_assert!(handler != 0, "its stamp named a handler");
        debug_assert!(
            kind != MessageKind::Long || payload.is_empty(),
            "a deposit is in the segment"
        );
        let payload = Payload::own(payload);
        ArrivedMessage { from, request, remote: false, kind, handler, words, payload }
    }
}

impl HandlerContext {
    /// Returns true if messages carry stamps: they are delayed on purpose, or traced.
    #[inline(always)]
    pub(crate) fn emulates(&self) -> bool {
        self.emulates
    }

    /// Reads the laboratory's settings, if they have changed. Returns true if they have.
    fn refresh_knobs(&mut self) -> bool {
        let job = self.context.node().job();
        if job.knob_epoch() == 0 {
            return false;
        }
        let emulation = self.emulation.get_or_insert_default();
        let changed = emulation.refresh(job);
        self.emulates = emulation.on || self.context.trace().is_some();
        debug_assert!(self.emulation.is_some(), "its state is kept");
        changed
    }

    /// Returns the state of messages that are delayed, which a message may show before the change
    /// of the settings is noticed.
    fn emulation(&mut self) -> &mut Emulation {
        self.refresh_knobs();
        self.emulation.get_or_insert_default()
    }

    /// Hides a message of this node that has a stamp until it is due. `None`: it has none.
    /// `Some(false)`: it has to stay where it is.
    #[cold]
    pub(crate) fn delay_local(
        &mut self,
        message: &ArrivedMessage<'_>,
        lane: Option<usize>,
    ) -> Option<bool> {
        let (stamp, words) = split_stamp(message.kind, message.words)?;
        debug_assert!(!message.remote, "it is in a slot of this node");
        debug_assert!(stamp.handler != 0, "the handler is in the stamp");
        let local = LocalMessage::of(message, words, stamp.handler, lane);
        let hidden = self.emulation().hide((message.from, true), stamp, Delayed::Local(local));
        self.note_delayed();
        Some(hidden)
    }

    /// Stamps a request, and keeps the rank busy for what sending it costs. `None`: the
    /// interface takes no more now. `ways`: to another node; to an interface.
    pub(crate) fn delay_request(
        &mut self,
        message: &OutgoingMessage<'_>,
        (remote, to_interface): (bool, bool),
    ) -> Option<StampedWords> {
        let scope = if remote { KnobScope::Net } else { KnobScope::Shm };
        debug_assert!(self.emulates(), "messages are delayed on purpose");
        debug_assert!(!remote || self.context.network().is_some(), "another node, no network");
        let Self { context, emulation, .. } = self;
        let emulation = emulation.get_or_insert_default();
        if !emulation.on {
            // The rank is traced; nothing is slower.
            return Some(StampedWords::of(message, 0));
        }
        emulation.send(context.emulated(), message, scope, (to_interface, true))
    }

    /// Stamps a reply, which never waits for its interface.
    #[cold]
    pub(crate) fn delay_reply(
        &mut self,
        message: &OutgoingMessage<'_>,
        remote: bool,
    ) -> StampedWords {
        let scope = if remote { KnobScope::Net } else { KnobScope::Shm };
        debug_assert!(self.emulates(), "messages are delayed on purpose");
        debug_assert!(!remote || self.context.network().is_some(), "another node, no network");
        let Self { context, emulation, .. } = self;
        let emulation = emulation.get_or_insert_default();
        if !emulation.on {
            return StampedWords::of(message, 0);
        }
        let stamped = emulation.reply(context.emulated(), message, scope);
        emulation.sent();
        stamped
    }

    /// Notes that a delayed message has been taken.
    pub(crate) fn note_sent(&mut self) {
        if let Some(emulation) = &mut self.emulation {
            emulation.sent();
        }
    }

    /// Notes that messages wait, or no longer do.
    pub(crate) fn note_delayed(&mut self) {
        self.backlog.delayed = self.emulation.as_ref().is_some_and(|knobs| knobs.is_waiting());
        self.backlog.busy |= self.backlog.delayed;
        debug_assert!(!self.backlog.delayed || self.backlog.busy, "polls look for what is due");
    }
}
