//! Messages from endpoints of other nodes.

use crate::arrived_message::ArrivedMessage;
use crate::core::Core;
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::handling::Handling;
use crate::message::{Handler, MessageKind, OutgoingMessage};
use crate::progress::TOO_SHORT;
use crate::remote::Remote;
use crate::reply_to::ReplyTo;
use crate::returned::Returned;
use crate::spare_batch;
use clump_net::Words;
use clump_shm::name::Name;
use clump_trace::{Counter, Role};
use clump_transport::{Arrival, Requesters, Urgency};
use clump_wire::{Message, Reason};

impl Core {
    /// Polls the network and handles what has arrived. Returns how many messages.
    #[inline(never)]
    pub(crate) fn poll_network(&mut self) -> Result<usize> {
        let Some(mut remote) = self.remote.take() else {
            clump_bug::bug!("only endpoints with a network poll it");
            return Ok(0);
        };
        let result = self.poll_stack(&mut remote);
        self.schedule.network_in(match &result {
            Ok((_, found)) => remote.polling.on_poll(*found),
            Err(_) => 1,
        });
        debug_assert!(self.remote.is_none(), "a handler polled the network of its endpoint");
        self.remote = Some(remote);
        result.map(|(handled, _)| handled)
    }

    /// Polls the network; also returns true if it brought anything.
    fn poll_stack(&mut self, remote: &mut Remote) -> Result<(usize, bool)> {
        self.handler_context.context.check_process()?;
        let mut handled = self.handle_later(remote)?;
        let Some(network) = self.handler_context.context.network() else {
            clump_bug::bug!("a network state without a network");
            return Ok((0, false));
        };
        let mut batch = spare_batch::take();
        let (received, timed) = network.poll(self.handler_context.name.index(), &mut batch);
        let counters = self.handler_context.counters();
        counters.bump(Counter::NetPolls);
        if received == 0 && batch.is_empty() {
            counters.bump(Counter::NetPollsEmpty);
            spare_batch::put(batch);
            return Ok((handled, handled > 0));
        }
        let accounted = handled + remote.later.len() + batch.len();
        let (mut failure, mut words) = (None, Words::default());
        for at in 0..batch.len() {
            let arrival = batch.arrival(at, &mut words);
            debug_assert!(arrival.is_some(), "a batch has as many messages as its header counts");
            let Some(arrival) = arrival else { break };
            if failure.is_some() {
                remote.later.push_back(arrival.to_owned());
                continue;
            }
            if timed == Some(at)
                && let Some(network) = self.handler_context.context.network()
            {
                network.on_delivery(arrival.payload.len());
            }
            match self.handle_arrival(&arrival, &mut remote.requesters) {
                Ok(true) => handled += 1,
                Ok(false) => remote.later.push_back(arrival.to_owned()),
                Err(error) => failure = Some(error),
            }
        }
        let failed = usize::from(failure.is_some());
        debug_assert_eq!(handled + remote.later.len() + failed, accounted, "a message is missing");
        if !batch.is_empty()
            && let Some(network) = self.handler_context.context.network()
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
    fn handle_later(&mut self, remote: &mut Remote) -> Result<usize> {
        if remote.later.is_empty() && self.handler_context.backlog.stuck_remote == 0 {
            return Ok(0);
        }
        self.flush_replies(&mut remote.requesters);
        remote.requesters.check_invariants();
        let (mut handled, waiting) = (0, remote.later.len());
        for _ in 0..waiting {
            let Some(queued) = remote.later.pop_front() else {
                clump_bug::bug!("nothing else takes messages that wait");
                break;
            };
            match self.handle_arrival(&queued.message(), &mut remote.requesters)? {
                true => handled += 1,
                false => remote.later.push_back(queued),
            }
        }
        debug_assert_eq!(handled + remote.later.len(), waiting, "a message that waits is missing");
        Ok(handled)
    }

    /// Sends kept replies as far as there is room. Those that their requester will never take are
    /// passed to handler 0 of this endpoint.
    fn flush_replies(&mut self, requesters: &mut Requesters) {
        let HandlerContext { context, backlog, .. } = &mut self.handler_context;
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
        let stuck = requesters.flush(&mut network, give_back);
        let backlog = &mut self.handler_context.backlog;
        debug_assert!(stuck <= backlog.stuck_remote, "a flush keeps no reply");
        backlog.stuck_remote = stuck;
    }

    /// Handles a message from another node, now or once it is due; returns false if it has to wait.
    #[inline]
    fn handle_arrival(
        &mut self,
        arrival: &Message<'_>,
        requesters: &mut Requesters,
    ) -> Result<bool> {
        debug_assert!(self.remote.is_none(), "the network is polled, and its state is out");
        if (arrival.handler == 0 || self.handler_context.emulates())
            && let Some(hidden) = self.delay_arrival(arrival)
        {
            return Ok(hidden);
        }
        self.handle_arrival_now(arrival, requesters)
    }

    /// Handles a message from another node that is due; returns false if it has to wait.
    #[inline]
    pub(crate) fn handle_arrival_now(
        &mut self,
        arrival: &Message<'_>,
        requesters: &mut Requesters,
    ) -> Result<bool> {
        let Self { inbox, table, handler_context, on_returned, .. } = self;
        let hold = inbox.is_holding();
        let Some(mut network) = handler_context.context.network() else {
            clump_bug::bug!("a message of another node without a network");
            return Ok(true);
        };
        let requester = match requesters.admit(&mut network, arrival, hold) {
            Arrival::Done => return Ok(true),
            Arrival::Wait => return Ok(false),
            Arrival::Answer => None,
            Arrival::Request(requester) => Some(requester),
        };
        let message = ArrivedMessage::of_message(arrival)?;
        debug_assert!(message.request || requester.is_none(), "a reply to a reply");
        let mut parts = Handling { table, handler_context, on_returned };
        let Some(requester) = requester else { return parts.handle(&message, ReplyTo::None) };
        let result = parts.handle(&message, ReplyTo::Remote(requester));
        let payload = if message.kind == MessageKind::Medium { arrival.payload.len() } else { 0 };
        if let Some(mut network) = handler_context.context.network() {
            requester.note_consumed(&mut network, payload);
        }
        result
    }

    /// Returns true if anything waits to be handled; called after the announcement of a sleep.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        let index = self.handler_context.name.index();
        let queued = self.handler_context.context.network().is_some_and(|n| n.has_queued(index));
        let soon = self.due_in().is_some_and(|due| due < TOO_SHORT);
        debug_assert!(!soon || self.handler_context.backlog.busy, "no poll handles what is due");
        // Always evaluated: only this finds a message that a sender stored in a lane before
        // notification was armed.
        self.inbox.anything_waiting() || queued || soon
    }

    /// Returns true if everything sent to other nodes was consumed or returned; requests reports
    /// from the other peers.
    pub(crate) fn is_drained_remotely(&mut self) -> bool {
        let Some(network) = self.handler_context.context.network() else { return true };
        let Some(remote) = &mut self.remote else {
            clump_bug::bug!("a network without a state");
            return true;
        };
        // Held requests are others' messages, not this endpoint's.
        let holding = self.inbox.is_holding();
        let idle = remote.later.iter().all(|queued| holding && queued.message().is_request());
        let mut drained = idle && !network.has_queued(self.handler_context.name.index());
        remote.old_flows.retain(|&flow| network.request_consumption_report(flow));
        drained &= remote.old_flows.is_empty();
        for flow in self.translation.flows() {
            drained &= !network.request_consumption_report(flow);
        }
        network.flush(Urgency::Due);
        drained
    }

    /// Closes the endpoint towards other nodes: messages not handled are returned to their senders.
    pub(crate) fn close_remotely(&mut self) {
        let Some(mut remote) = self.remote.take() else { return };
        let Some(mut network) = self.handler_context.context.network() else {
            clump_bug::bug!("a network state without a network");
            return;
        };
        let name = self.handler_context.name;
        remote.requesters.close(&mut network);
        network.close_endpoint(name.to_bits(), remote.later.into());
        network.set_segment(name, None);
    }
}

/// Returns a message between nodes as this endpoint sent it.
fn message_of<'a>(reply: &Message<'a>) -> OutgoingMessage<'a> {
    let kind = MessageKind::from_bits(reply.kind as u8);
    debug_assert!(kind.is_some(), "no endpoint sends {:?}", reply.kind);
    let (kind, handler) = (kind.unwrap_or(MessageKind::Short), Handler(reply.handler));
    OutgoingMessage { kind, handler, words: reply.words, payload: reply.payload }.unstamped()
}
