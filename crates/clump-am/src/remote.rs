//! Messages to and from endpoints of other nodes.

mod requester;

use crate::core::{Body, Core, HandlerContext, SendAttempt};
use crate::dispatch::{failed, hand_over};
use crate::error::{ErrorKind, Result};
use crate::handler::{Handler, HandlerFailure};
use crate::payload::Payload;
use crate::peer::Dest;
use crate::returned::{Reason, Returned};
use crate::token::{MAX_CARRIED, ReplyTo};
use clump_net::original::Original;
use clump_net::{
    ArrivedMessage, Batch, Disposition, FlowId, Polling, Pushed, QueuedMessage, REQUEST_COST,
    Request, Words,
};
use clump_shm::name::Name;
use clump_shm::slot::{Header, SlotKind};
use clump_trace::{Counter, Flow, Role, Size};
use clump_transport::Network;
use clump_wire::frame::FrameKind;
use requester::Requesters;
pub(crate) use requester::{ReplyAttempt, Requester};
use std::collections::VecDeque;

/// The network state of an endpoint.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) polling: Polling,
    batch: Option<Box<Batch>>,
    /// Messages that could not be handled yet: their reply path is full, or a proxy has just
    /// brought them.
    pub(crate) later: VecDeque<QueuedMessage>,
    requesters: Requesters,
    /// Flows to unmapped destinations on which something may be outstanding.
    pub(crate) old_flows: Vec<FlowId>,
}

impl Remote {
    pub(crate) fn new(network: &Network) -> Self {
        Self {
            polling: network.polling(),
            batch: None,
            later: VecDeque::new(),
            requesters: Requesters::default(),
            old_flows: Vec::new(),
        }
    }
}

impl Core {
    /// Makes one attempt to send to another node; tells if there is no room.
    pub(crate) fn attempt_remote(
        &mut self,
        (dest, flow, tag): (Dest, FlowId, u64),
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<SendAttempt> {
        let Some(network) = self.handler_context.context.network() else {
            return Err(ErrorKind::NoSuchDestination(dest.0).into());
        };
        // Checked before the stack's lock: in a forked child the lock's holder may not exist.
        self.handler_context.context.check_process()?;
        let request = |kind, words| Request { flow, tag, kind, handler: handler.0, words };
        let (pushed, size, bytes) = match body {
            Body::Short => (
                network.request(&request(FrameKind::Short, words), &[]),
                Size::Short,
                words.len() * 8,
            ),
            Body::Medium(data) => {
                debug_assert!(
                    data.len() <= self.handler_context.max_medium,
                    "Core::attempt checks it"
                );
                (
                    network.request(&request(FrameKind::Medium, words), data),
                    Size::Medium,
                    data.len(),
                )
            }
            Body::Long(offset, data, progress) => {
                let mut all = [0; MAX_CARRIED + 2];
                (all[0], all[1]) = (offset, data.len() as u64);
                all[2..words.len() + 2].copy_from_slice(words);
                let request = request(FrameKind::Long, &all[..words.len() + 2]);
                let mut so_far = progress.get();
                let pushed = network.request_long(&request, data, &mut so_far);
                progress.set(so_far);
                (pushed, Size::Long, data.len())
            }
        };
        let counters = self.handler_context.counters();
        match pushed {
            Pushed::Accepted => {
                counters.bump(Counter::messages(Role::Request, size, Flow::Sent).over_network());
                let counter = Counter::bytes(Role::Request, size, Flow::Sent).over_network();
                counters.add(counter, bytes as u64);
                Ok(SendAttempt::Sent)
            }
            Pushed::Full => {
                counters.bump(Counter::NetFull);
                self.force_network_poll();
                Ok(SendAttempt::Full)
            }
            Pushed::Lost(refusal) => {
                self.return_to_sender(dest, Reason::from(refusal), handler, words, body);
                Ok(SendAttempt::Sent)
            }
        }
    }

    /// Makes the next poll poll the network.
    #[inline]
    pub(crate) fn force_network_poll(&mut self) {
        self.net_due = self.schedule.polls.wrapping_add(1);
        self.schedule.due = self.net_due;
    }

    /// Polls the network and handles what has arrived. Returns how many messages.
    #[inline(never)]
    pub(crate) fn poll_network(&mut self) -> Result<usize> {
        let Some(mut remote) = self.remote.take() else { return Ok(0) };
        let result = self.poll_stack(&mut remote);
        self.net_due = match &result {
            Ok((_, found)) => self.schedule.polls.wrapping_add(remote.polling.on_poll(*found)),
            Err(_) => self.schedule.polls.wrapping_add(1),
        };
        self.remote = Some(remote);
        result.map(|(handled, _)| handled)
    }

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
            let Some(arrival) = batch.arrival(at, &mut words) else { break };
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

    /// Sends stored replies, and handles the messages that waited for that.
    fn handle_later(&mut self, remote: &mut Remote) -> Result<usize> {
        if remote.later.is_empty() && self.handler_context.backlog.stuck_remote == 0 {
            return Ok(0);
        }
        let mut stuck = 0;
        for requester in &mut remote.requesters.all {
            while let Some(first) = requester.stash.pop_front() {
                let head = (first.kind, first.handler);
                match requester.answer(&self.handler_context, head, &first.words, &first.payload) {
                    ReplyAttempt::Sent => {}
                    ReplyAttempt::Refused => {
                        self.handler_context.reject(
                            requester.name,
                            head,
                            &first.words,
                            &first.payload,
                        );
                    }
                    ReplyAttempt::PutAside => break,
                }
            }
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
    fn handle_arrival(
        &mut self,
        arrival: &ArrivedMessage<'_>,
        requesters: &mut Requesters,
    ) -> Result<bool> {
        let from = Name::from_bits(arrival.route.from);
        let kind = match arrival.sort {
            Disposition::Message(kind) => kind,
            Disposition::Lost(kind, refusal) => {
                self.take_lost(arrival, kind, Reason::from(refusal))?;
                return Ok(true);
            }
        };
        match kind {
            FrameKind::Returned => return self.take_returned_remote(arrival).map(|()| true),
            FrameKind::Ask => {
                let requester = requesters.of(from);
                // Credit requests may overtake each other. The least is answered soonest: a
                // requester that asked for more asks again after the answer.
                let asked = arrival.words().first().copied();
                requester.asked = requester.asked.into_iter().chain(asked).min();
                requester.report(&self.handler_context);
                return Ok(true);
            }
            FrameKind::Credit | FrameKind::Part => return Ok(true),
            FrameKind::Short | FrameKind::Medium | FrameKind::Long => {}
        }
        if arrival.reply {
            self.run_remote(arrival, kind, ReplyTo::None)?;
            return Ok(true);
        }
        let requester = requesters.of(from);
        if requester.is_stuck() || self.inbox.is_holding() {
            return Ok(false);
        }
        let result = self.run_remote(arrival, kind, ReplyTo::Remote(requester));
        let bytes = if kind == FrameKind::Medium { arrival.payload.len() as u64 } else { 0 };
        requester.consumed += REQUEST_COST + bytes;
        requester.report(&self.handler_context);
        result.map(|()| true)
    }

    /// Runs the handler of a message, or returns the message to its sender if there is none.
    #[inline]
    fn run_remote(
        &mut self,
        arrival: &ArrivedMessage<'_>,
        kind: FrameKind,
        mut back: ReplyTo<'_>,
    ) -> Result<()> {
        let from = Name::from_bits(arrival.route.from);
        let all = arrival.words();
        let segment;
        let corrupt = || ErrorKind::CorruptPacket(from).into();
        let (payload, words, size) = match (kind, all) {
            (FrameKind::Long, &[offset, len, ..]) => {
                // The segment still exists: closing returns messages that were not handled.
                segment = self.handler_context.segment.clone();
                let bytes = segment.as_ref().and_then(|segment| segment.bytes(offset, len));
                let payload = Payload::new(bytes.ok_or_else(corrupt)?, Some(offset));
                (payload, all.get(2..).unwrap_or_default(), Size::Long)
            }
            (FrameKind::Long, _) => return Err(corrupt()),
            (FrameKind::Medium, _) => (Payload::own(arrival.payload), all, Size::Medium),
            _ => (Payload::none(), all, Size::Short),
        };
        if words.len() > MAX_CARRIED {
            return Err(corrupt());
        }
        let role = if arrival.reply { Role::Reply } else { Role::Request };
        let bytes = if size == Size::Short { words.len() * 8 } else { payload.len() };
        let counters = self.handler_context.counters();
        counters.bump(Counter::messages(role, size, Flow::Received).over_network());
        let counter = Counter::bytes(role, size, Flow::Received).over_network();
        counters.add(counter, bytes as u64);
        counters.bump(Counter::HandlerRuns);
        let header = header_of(kind, arrival.handler, all.len());
        let failure = match self.table.find(arrival.handler) {
            Some(handler) => {
                handler.run(from, back.reborrow(), &mut self.handler_context, words, &payload)
            }
            None => Some(Box::new(HandlerFailure::Refused(Reason::BadHandler))),
        };
        let Some(failure) = failure else { return Ok(()) };
        failed(header, *failure, |reason| {
            self.return_remote_request(arrival, kind, reason, &mut back).map(|()| true)
        })
        .map(drop)
    }

    /// Returns a request to its sender on another node; for a reply this is an error.
    #[cold]
    fn return_remote_request(
        &mut self,
        arrival: &ArrivedMessage<'_>,
        kind: FrameKind,
        reason: Reason,
        back: &mut ReplyTo<'_>,
    ) -> Result<()> {
        let ReplyTo::Remote(requester) = back else {
            let dest = Name::from_bits(arrival.route.from);
            return Err(ErrorKind::Unclaimed { dest, reason }.into());
        };
        let (reason, kind) = (reason as u8, kind as u8);
        let original = Original { reason, kind, handler: arrival.handler, reply: false };
        let mut words = vec![original.pack()];
        words.extend_from_slice(arrival.words());
        let head = (FrameKind::Returned, 0);
        if requester.answer(&self.handler_context, head, &words, arrival.payload)
            == ReplyAttempt::PutAside
        {
            self.handler_context.backlog.stuck_remote += 1;
        }
        Ok(())
    }

    /// Takes a message of this endpoint that another node returned.
    #[cold]
    fn take_returned_remote(&mut self, arrival: &ArrivedMessage<'_>) -> Result<()> {
        let from = Name::from_bits(arrival.route.from);
        let Some((first, words)) = arrival.words().split_first() else { return Ok(()) };
        let original = Original::unpack(*first);
        let reason = Reason::from_bits(original.reason);
        let kind = match original.kind {
            2 => FrameKind::Medium,
            3 => FrameKind::Long,
            _ => FrameKind::Short,
        };
        let Some(reason) = reason else { return Err(ErrorKind::CorruptPacket(from).into()) };
        let header = header_of(kind, original.handler, words.len());
        let to = (self.handler_context.context.rank(), from);
        let returned = Returned::of(to, (reason, original.reply), header, words, arrival.payload);
        hand_over(&mut self.on_returned, self.handler_context.counters(), &returned)
    }

    /// Takes a message of this endpoint that its peer did not get before the peer was lost.
    #[cold]
    fn take_lost(
        &mut self,
        arrival: &ArrivedMessage<'_>,
        kind: FrameKind,
        reason: Reason,
    ) -> Result<()> {
        let to = (self.handler_context.context.rank(), Name::from_bits(arrival.route.to));
        let header = header_of(kind, arrival.handler, arrival.words().len());
        let why = (reason, arrival.reply);
        let returned = Returned::of(to, why, header, arrival.words(), arrival.payload);
        hand_over(&mut self.on_returned, self.handler_context.counters(), &returned)
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
        for flow in self.peers.iter().flatten().filter_map(|peer| peer.remote) {
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
            for reply in &requester.stash {
                let (from, to) = (name.to_bits(), requester.name.to_bits());
                network.reply_anyway(requester.name.rank(), &reply.between(from, to));
            }
        }
        // A peer that waits for this endpoint to consume its requests gets no other report.
        for requester in remote.requesters.all.iter().filter(|r| r.consumed != r.reported) {
            let (me, to) = (name.to_bits(), requester.name.to_bits());
            network.report(requester.name.rank(), me, to, requester.consumed);
        }
        network.close_endpoint(name.index(), name.to_bits());
        network.service();
        network.set_segment(name, None);
    }
}

impl HandlerContext {
    /// Returns to this endpoint a reply to another node that its requester will never take.
    #[cold]
    pub(crate) fn reject(
        &mut self,
        requester: Name,
        (kind, handler): (FrameKind, u8),
        words: &[u64],
        payload: &[u8],
    ) {
        if kind == FrameKind::Returned {
            return;
        }
        let to = (self.context.rank(), requester);
        let header = header_of(kind, handler, words.len());
        let payload = if kind == FrameKind::Long { &[] } else { payload };
        self.return_to_sender(Returned::of(
            to,
            (Reason::ReplyRejected, true),
            header,
            words,
            payload,
        ));
    }
}

fn header_of(kind: FrameKind, handler: u8, words: usize) -> Header {
    let kind = match kind {
        FrameKind::Medium => SlotKind::Medium,
        FrameKind::Long => SlotKind::Long,
        _ => SlotKind::Short,
    };
    Header::new(kind, handler, words, 0)
}
