//! Messages from endpoints of other nodes.

use crate::arrived_message::ArrivedMessage;
use crate::core::Core;
use crate::error::Result;
use crate::handling::{Handling, hand_over};
use crate::message::{Handler, MessageKind, OutgoingMessage};
use crate::reason::Reason;
use crate::remote::Remote;
use crate::reply_to::ReplyTo;
use crate::requester::Requesters;
use crate::returned::Returned;
use clump_net::{Disposition, QueuedMessage, Refusal, Words};
use clump_shm::name::Name;
use clump_trace::{Counter, Role};
use clump_wire::frame::FrameKind;

impl Core {
    /// Polls the network and handles what has arrived. Returns how many messages.
    #[inline(never)]
    pub(crate) fn poll_network(&mut self) -> Result<usize> {
        let Some(mut remote) = self.remote.take() else { return Ok(0) };
        let result = self.poll_stack(&mut remote);
        self.schedule.network_in(match &result {
            Ok((_, found)) => remote.polling.on_poll(*found),
            Err(_) => 1,
        });
        self.remote = Some(remote);
        result.map(|(handled, _)| handled)
    }

    /// Polls the network; also returns true if it brought anything.
    fn poll_stack(&mut self, remote: &mut Remote) -> Result<(usize, bool)> {
        self.handler_context.context.check_process()?;
        let mut handled = self.handle_later(remote)?;
        let Some(network) = self.handler_context.context.network() else { return Ok((0, false)) };
        let mut batch = remote.batch.take().unwrap_or_default();
        let (received, timed) = network.poll(self.handler_context.name.index(), &mut batch);
        let counters = self.handler_context.counters();
        counters.bump(Counter::NetPolls);
        if received == 0 && batch.is_empty() {
            counters.bump(Counter::NetPollsEmpty);
            remote.batch = Some(batch);
            return Ok((handled, handled > 0));
        }
        let (mut failure, mut words) = (None, Words::default());
        for at in 0..batch.len() {
            let arrival = batch.arrival(at, &mut words);
            debug_assert!(arrival.is_some(), "a batch has as many messages as it says");
            let Some(arrival) = arrival else { break };
            if failure.is_some() {
                remote.later.push_back(arrival.to_queued());
                continue;
            }
            if timed == Some(at)
                && let Some(network) = self.handler_context.context.network()
            {
                network.on_delivery(arrival.payload.len());
            }
            match self.handle_arrival(&arrival, &mut remote.requesters) {
                Ok(true) => handled += 1,
                Ok(false) => remote.later.push_back(arrival.to_queued()),
                Err(error) => failure = Some(error),
            }
        }
        if !batch.is_empty()
            && let Some(network) = self.handler_context.context.network()
        {
            network.flush();
        }
        remote.batch = Some(batch);
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
        let mut stuck = 0;
        for requester in &mut remote.requesters.all {
            requester.flush(&mut self.handler_context);
            stuck += usize::from(requester.is_stuck());
        }
        self.handler_context.backlog.stuck_remote = stuck;
        let mut handled = 0;
        for _ in 0..remote.later.len() {
            let Some(queued) = remote.later.pop_front() else { break };
            match self.handle_arrival(&queued.arrival(), &mut remote.requesters)? {
                true => handled += 1,
                false => remote.later.push_back(queued),
            }
        }
        Ok(handled)
    }

    /// Handles a message from another node; returns false if it has to wait.
    #[inline]
    fn handle_arrival(
        &mut self,
        arrival: &clump_net::ArrivedMessage<'_>,
        requesters: &mut Requesters,
    ) -> Result<bool> {
        let from = Name::from_bits(arrival.route.from);
        let kind = match arrival.sort {
            Disposition::Message(kind) => kind,
            Disposition::Lost(kind, refusal) => {
                return self.take_lost(arrival, kind, refusal).map(|()| true);
            }
        };
        let Some(kind) = MessageKind::from_bits(kind as u8) else {
            if kind == FrameKind::Ask {
                let asked = arrival.words().first().copied();
                requesters.of(from).note_asked(&self.handler_context, asked);
            }
            return Ok(true);
        };
        let message = ArrivedMessage::of_frame(arrival, kind);
        let Self { inbox, table, handler_context, on_returned, .. } = self;
        let mut parts = Handling { table, handler_context, on_returned };
        if !message.request || kind == MessageKind::Returned {
            return parts.handle(&message, ReplyTo::None);
        }
        let requester = requesters.of(from);
        if requester.is_stuck() || inbox.is_holding() {
            return Ok(false);
        }
        let result = parts.handle(&message, ReplyTo::Remote(requester));
        let payload = if kind == MessageKind::Medium { arrival.payload.len() as u64 } else { 0 };
        requester.note_consumed(handler_context, payload);
        result
    }

    /// Takes a message of this endpoint that its peer did not get before the peer was lost.
    #[cold]
    fn take_lost(
        &mut self,
        arrival: &clump_net::ArrivedMessage<'_>,
        kind: FrameKind,
        refusal: Refusal,
    ) -> Result<()> {
        let (dest, reason) = (Name::from_bits(arrival.route.to), Reason::from(refusal));
        let kind = MessageKind::from_bits(kind as u8);
        debug_assert!(kind.is_some_and(|kind| kind != MessageKind::Returned), "{kind:?} is lost");
        let (kind, handler) = (kind.unwrap_or(MessageKind::Short), Handler(arrival.handler));
        let (words, payload) = (arrival.words(), arrival.payload);
        let message = OutgoingMessage { kind, handler, words, payload };
        let role = if arrival.reply { Role::Reply } else { Role::Request };
        let rank = self.handler_context.context.rank();
        let returned = Returned::of(rank, dest, (role, reason), &message);
        let counters = self.handler_context.counters();
        counters.bump(Counter::HandlerRuns);
        hand_over(&mut self.on_returned, counters, &returned)
    }

    /// Returns true if anything waits to be handled; called after the announcement of a sleep.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        let index = self.handler_context.name.index();
        let queued = self.handler_context.context.network().is_some_and(|n| n.has_queued(index));
        // Always evaluated: only this finds a message that a sender left in a lane before it was
        // told to ring.
        self.inbox.anything_waiting() || queued
    }

    /// Returns true if everything sent to other nodes was consumed or returned; asks the other
    /// peers to report.
    pub(crate) fn is_drained_remotely(&mut self) -> bool {
        let Some(network) = self.handler_context.context.network() else { return true };
        let Some(remote) = &mut self.remote else { return true };
        // Held requests are others' messages, not this endpoint's.
        let held = |queued: &QueuedMessage| {
            matches!(
                queued.sort,
                Disposition::Message(FrameKind::Short | FrameKind::Medium | FrameKind::Long)
            ) && !queued.reply
        };
        let holding = self.inbox.is_holding();
        let idle = remote.later.iter().all(|queued| holding && held(queued));
        let mut drained = idle && !network.has_queued(self.handler_context.name.index());
        remote.old_flows.retain(|&flow| network.request_consumption_report(flow));
        drained &= remote.old_flows.is_empty();
        for flow in self.translation.flows() {
            drained &= !network.request_consumption_report(flow);
        }
        network.service();
        drained
    }

    /// Closes the endpoint towards other nodes: messages not handled are returned to their senders.
    pub(crate) fn close_remotely(&mut self) {
        let Some(remote) = self.remote.take() else { return };
        let Some(network) = self.handler_context.context.network() else { return };
        let name = self.handler_context.name;
        network.return_queued(remote.later.into());
        for requester in &remote.requesters.all {
            requester.close(network, name);
        }
        network.close_endpoint(name.index(), name.to_bits());
        network.service();
        network.set_segment(name, None);
    }
}
