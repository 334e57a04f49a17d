//! The part of an endpoint that other nodes reach: their messages, and replies to them.

use crate::arrived_message::ArrivedMessage;
use crate::delayed;
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::handling::Handlers;
use crate::message::{Handler, MessageKind, OutgoingMessage};
use crate::reply_to::ReplyTo;
use crate::returned::Returned;
use crate::spare_batch;
use clump_net::{Polling, Words};
use clump_shm::bulk::SharedBytes;
use clump_shm::name::Name;
use clump_shm::slot::Header;
use clump_trace::{Counter, Role};
use clump_transport::{Accept, Arrival, Forward, Network, Requesters, Spill, Urgency};
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage, Reason};
use std::collections::VecDeque;

/// Requesters of other nodes, messages that wait, and when to poll for more.
#[derive(Debug)]
pub(crate) struct RemoteSide {
    pub(crate) polling: Polling,
    /// Messages that could not be handled yet: their reply path is full, or a proxy has just
    /// brought them.
    later: VecDeque<OwnedMessage>,
    requesters: Requesters,
}

impl RemoteSide {
    pub(crate) fn new(network: &Network, name: Name) -> Self {
        debug_assert!(name.generation() != 0, "no endpoint of another node could answer it");
        Self {
            polling: network.polling(),
            later: VecDeque::new(),
            requesters: Requesters::new(name.to_bits(), network.credit_pool()),
        }
    }

    /// Polls the network and handles what has arrived by `handlers`; `hold`: requests are not to be
    /// handled now. Returns how many messages, and true if it brought anything.
    ///
    /// # Errors
    /// A handler fails, and what else a message may cause; the process is a child by `fork`.
    #[inline(never)]
    pub(crate) fn poll(
        &mut self,
        (handlers, hold): (&mut Handlers, bool),
        handler_context: &mut HandlerContext,
    ) -> Result<(usize, bool)> {
        handler_context.context.check_process()?;
        let mut handled = 0;
        if !self.later.is_empty() || handler_context.backlog.stuck_remote > 0 {
            handled += self.handle_later((&mut *handlers, hold), handler_context)?;
        }
        let Some(network) = handler_context.context.network() else {
            clump_bug::bug!("a network state without a network");
            return Ok((0, false));
        };
        let mut batch = spare_batch::take();
        let (received, timed) = network.poll(handler_context.name.index(), &mut batch);
        let counters = handler_context.counters();
        counters.bump(Counter::NetPolls);
        if received == 0 && batch.is_empty() {
            counters.bump(Counter::NetPollsEmpty);
            spare_batch::put(batch);
            return Ok((handled, handled > 0));
        }
        let accounted = handled + self.later.len() + batch.len();
        let (mut failure, mut words) = (None, Words::default());
        for at in 0..batch.len() {
            let arrival = batch.arrival(at, &mut words);
            debug_assert!(arrival.is_some(), "a batch has as many messages as its header counts");
            let Some(arrival) = arrival else { break };
            if failure.is_some() {
                self.later.push_back(arrival.to_owned());
                continue;
            }
            if timed == Some(at)
                && let Some(network) = handler_context.context.network()
            {
                network.on_delivery(arrival.payload.len());
            }
            match self.receive((&mut *handlers, hold), handler_context, &arrival) {
                Ok(true) => handled += 1,
                Ok(false) => self.later.push_back(arrival.to_owned()),
                Err(error) => failure = Some(error),
            }
        }
        let failed = usize::from(failure.is_some());
        debug_assert_eq!(handled + self.later.len() + failed, accounted, "a message is missing");
        if !batch.is_empty()
            && let Some(network) = handler_context.context.network()
        {
            network.flush(Urgency::Gathered);
        }
        spare_batch::put(batch);
        match failure {
            Some(error) => Err(error),
            None => Ok((handled, received > 0 || handled > 0)),
        }
    }

    /// Sends kept replies, and handles the messages that waited for that.
    fn handle_later(
        &mut self,
        (handlers, hold): (&mut Handlers, bool),
        handler_context: &mut HandlerContext,
    ) -> Result<usize> {
        self.flush_replies(handler_context);
        self.requesters.check_invariants();
        let (mut handled, waiting) = (0, self.later.len());
        for _ in 0..waiting {
            let Some(queued) = self.later.pop_front() else {
                clump_bug::bug!("nothing else takes messages that wait");
                break;
            };
            match self.receive((&mut *handlers, hold), handler_context, &queued.message())? {
                true => handled += 1,
                false => self.later.push_back(queued),
            }
        }
        debug_assert_eq!(handled + self.later.len(), waiting, "a message that waits is missing");
        Ok(handled)
    }

    /// Sends kept replies as far as there is room. Those that their requester will never take are
    /// passed to handler 0 of this endpoint.
    fn flush_replies(&mut self, handler_context: &mut HandlerContext) {
        let HandlerContext { context, backlog, .. } = handler_context;
        let Some(mut network) = context.network() else {
            clump_bug::bug!("requesters of other nodes without a network");
            return;
        };
        let rank = context.rank();
        let give_back = |reply: &Message<'_>| {
            let message = message_of(reply);
            if message.kind != MessageKind::Returned {
                let (dest, why) =
                    (Name::from_bits(reply.route.to), (Role::Reply, Reason::ReplyRejected));
                backlog.give_back(Returned::of(rank, dest, why, &message));
            }
        };
        let stuck = self.requesters.flush(&mut network, give_back);
        debug_assert!(stuck <= handler_context.backlog.stuck_remote, "a flush keeps no reply");
        handler_context.backlog.stuck_remote = stuck;
    }

    /// Handles a message from another node, now or once it is due; returns false if it has to wait.
    #[inline]
    fn receive(
        &mut self,
        (handlers, hold): (&mut Handlers, bool),
        handler_context: &mut HandlerContext,
        arrival: &Message<'_>,
    ) -> Result<bool> {
        let me = handler_context.name.to_bits();
        debug_assert_eq!(arrival.route.to, me, "another endpoint's message");
        if (arrival.handler == 0 || handler_context.emulates())
            && let Some(hidden) = delayed::hide_arrival(handler_context, arrival)
        {
            if hidden && arrival.is_request() {
                self.note_hidden(handler_context, arrival);
            }
            return Ok(hidden);
        }
        self.handle((handlers, hold), handler_context, arrival)
    }

    /// Lets credit follow the requests that a network hides which is slower on purpose.
    #[cold]
    fn note_hidden(&mut self, handler_context: &HandlerContext, arrival: &Message<'_>) {
        debug_assert!(arrival.is_request(), "replies take no credit");
        let slower = handler_context.emulation.as_ref().is_some_and(|knobs| knobs.on);
        if let Some(mut network) = handler_context.context.network().filter(|_| slower) {
            let payload = consumed_payload(arrival);
            self.requesters.note_hidden(&mut network, arrival.route.from, payload);
        }
    }

    /// Handles a message from another node that is due; returns false if it has to wait.
    ///
    /// # Errors
    /// Its handler fails, and what else a message may cause.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        (handlers, hold): (&mut Handlers, bool),
        handler_context: &mut HandlerContext,
        arrival: &Message<'_>,
    ) -> Result<bool> {
        let Some(mut network) = handler_context.context.network() else {
            clump_bug::bug!("a message of another node without a network");
            return Ok(true);
        };
        let requester = match self.requesters.admit(&mut network, arrival, hold) {
            Arrival::Done => return Ok(true),
            Arrival::Wait => return Ok(false),
            Arrival::Answer => None,
            Arrival::Request(requester) => Some(requester),
        };
        let message = ArrivedMessage::of_message(arrival)?;
        debug_assert!(message.request || requester.is_none(), "a reply to a reply");
        let Some(requester) = requester else {
            return handlers.handle(handler_context, &message, ReplyTo::None);
        };
        let result = handlers.handle(handler_context, &message, ReplyTo::Remote(requester));
        let payload = consumed_payload(arrival);
        if let Some(mut network) = handler_context.context.network() {
            requester.note_consumed(&mut network, payload);
        }
        result
    }

    /// Keeps messages for the next poll of the network.
    pub(crate) fn keep(&mut self, messages: impl IntoIterator<Item = OwnedMessage>) {
        self.later.extend(messages);
    }

    /// Takes a message of another node out of the slot in which a proxy brought it. The next poll
    /// of the network handles it.
    ///
    /// # Errors
    /// No proxy writes such a message.
    pub(crate) fn take_forwarded(
        &mut self,
        handler_context: &HandlerContext,
        from: Name,
        header: Header,
        words: &[u64],
        payload: SharedBytes,
    ) -> Result<()> {
        let corrupt = || ErrorKind::Corrupt(from);
        let network = handler_context.context.network().ok_or_else(corrupt)?;
        let mut beside = Vec::new();
        payload.append_to(&mut beside);
        let mut spill = Spill::default();
        let forward = Forward::decode(header, words, &beside, &mut spill).ok_or_else(corrupt)?;
        let Message { words, payload, .. } = forward.message;
        debug_assert!(payload.len() <= beside.len(), "the payload is the rest of the bytes");
        let spilled = beside.len() - payload.len();
        let mut queued = OwnedMessage::of(&forward.message.head(), words, Vec::new());
        // The payload follows the words that did not fit in the slot, if there are any; they are
        // few.
        beside.drain(..spilled);
        queued.payload = beside;
        if network.accept(&queued) == Accept::Handle {
            self.later.push_back(queued);
        }
        Ok(())
    }

    /// Returns true if every message of another node that was handed over has been handled. Held
    /// requests are others' messages, not this endpoint's.
    pub(crate) fn is_idle(&self, holding: bool) -> bool {
        self.later.iter().all(|queued| holding && queued.message().is_request())
    }

    /// Closes the endpoint towards other nodes: messages not handled are returned to their senders.
    pub(crate) fn close(mut self, network: &Network, name: Name) {
        let (mut outlet, me) = (network, name.to_bits());
        debug_assert!(self.later.iter().all(|one| one.route.to == me), "another endpoint's");
        self.requesters.close(&mut outlet);
        network.close_endpoint(me, self.later.into());
        network.set_segment(name, None);
    }

    /// Checks relations that hold between calls; `stuck`: the upper bound of the requesters whose
    /// replies wait.
    pub(crate) fn check_invariants(&self, stuck: usize) {
        self.requesters.check_invariants();
        debug_assert!(
            !self.requesters.is_stuck() || stuck > 0,
            "replies to other nodes wait, and no poll sends them"
        );
    }
}

/// Returns the bytes of a request's payload that take credit: those of a long one are deposited.
#[inline]
fn consumed_payload(request: &Message<'_>) -> usize {
    debug_assert!(!request.reply, "replies take no credit");
    if request.kind == FrameKind::Medium { request.payload.len() } else { 0 }
}

/// Returns a message between nodes as this endpoint sent it.
fn message_of<'a>(reply: &Message<'a>) -> OutgoingMessage<'a> {
    let kind = MessageKind::from_bits(reply.kind as u8);
    debug_assert!(kind.is_some(), "no endpoint sends {:?}", reply.kind);
    let (kind, handler) = (kind.unwrap_or(MessageKind::Short), Handler(reply.handler));
    OutgoingMessage { kind, handler, words: reply.words, payload: reply.payload }.unstamped()
}
