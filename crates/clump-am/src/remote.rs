//! Messages to and from endpoints of other nodes.

mod requester;

use crate::core::{Attempt, Body, Core, Desk};
use crate::dispatch::{failed, hand_over};
use crate::error::{ErrorKind, Result};
use crate::handler::{Failure, Handler};
use crate::network::{Network, reason_of};
use crate::payload::Payload;
use crate::peer::Dest;
use crate::returned::{Reason, Returned};
use crate::token::{Back, MOST_CARRIED};
use clump_net::original::Original;
use clump_net::{Arrival, Batch, FlowId, Mail, Polling, Push, REQUEST_COST, Request, Sort, Words};
use clump_shm::name::Name;
use clump_shm::slot::{Header, Kind as SlotKind};
use clump_trace::{Counter, Flow, Role, Size};
use clump_wire::frame::Kind;
use requester::Requesters;
pub(crate) use requester::{Answer, Requester};
use std::collections::VecDeque;

/// What an endpoint keeps of the network.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) polling: Polling,
    batch: Option<Box<Batch>>,
    /// Messages that could not be handled yet: their way back is full, or a proxy has just brought them.
    pub(crate) later: VecDeque<Mail>,
    requesters: Requesters,
    /// Ways to unmapped destinations on which something may be outstanding.
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
    /// Sends to another node once, or says that there is no room.
    pub(crate) fn attempt_remote(
        &mut self,
        (dest, flow, tag): (Dest, FlowId, u64),
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<Attempt> {
        let Some(network) = self.desk.context.network() else {
            return Err(ErrorKind::NoSuchDestination(dest.0).into());
        };
        // Before the stack's lock: who holds it may not be there in a child.
        self.desk.context.check_process()?;
        let request = |kind, words| Request { flow, tag, kind, handler: handler.0, words };
        let (pushed, size, bytes) = match body {
            Body::Short => {
                (network.request(&request(Kind::Short, words), &[]), Size::Short, words.len() * 8)
            }
            Body::Medium(data) => {
                debug_assert!(data.len() <= self.desk.max_medium, "Core::attempt checks it");
                (network.request(&request(Kind::Medium, words), data), Size::Medium, data.len())
            }
            Body::Long(offset, data, progress) => {
                let mut all = [0; MOST_CARRIED + 2];
                (all[0], all[1]) = (offset, data.len() as u64);
                all[2..words.len() + 2].copy_from_slice(words);
                let request = request(Kind::Long, &all[..words.len() + 2]);
                let mut so_far = progress.get();
                let pushed = network.request_long(&request, data, &mut so_far);
                progress.set(so_far);
                (pushed, Size::Long, data.len())
            }
        };
        let counters = self.desk.counters();
        match pushed {
            Push::Accepted => {
                counters.bump(Counter::messages(Role::Request, size, Flow::Sent).over_network());
                let counter = Counter::bytes(Role::Request, size, Flow::Sent).over_network();
                counters.add(counter, bytes as u64);
                Ok(Attempt::Sent)
            }
            Push::Full => {
                counters.bump(Counter::NetFull);
                self.urge();
                Ok(Attempt::Full)
            }
            Push::Lost(refusal) => {
                self.come_back(dest, reason_of(refusal), handler, words, body);
                Ok(Attempt::Sent)
            }
        }
    }

    /// The next poll looks at the network.
    #[inline]
    pub(crate) fn urge(&mut self) {
        self.net_due = self.pulse.polls.wrapping_add(1);
        self.pulse.due = self.net_due;
    }

    /// Looks at the network and handles what is there. Returns how many messages.
    #[inline(never)]
    pub(crate) fn poll_network(&mut self) -> Result<usize> {
        let Some(mut remote) = self.remote.take() else { return Ok(0) };
        let result = self.look(&mut remote);
        self.net_due = match &result {
            Ok((_, found)) => self.pulse.polls.wrapping_add(remote.polling.on_look(*found)),
            Err(_) => self.pulse.polls.wrapping_add(1),
        };
        self.remote = Some(remote);
        result.map(|(handled, _)| handled)
    }

    fn look(&mut self, remote: &mut Remote) -> Result<(usize, bool)> {
        self.desk.context.check_process()?;
        let mut handled = self.handle_later(remote)?;
        let Some(network) = self.desk.context.network() else { return Ok((0, false)) };
        let mut batch = remote.batch.take().unwrap_or_default();
        let (received, timed) = network.look(self.desk.name.index(), &mut batch);
        let counters = self.desk.counters();
        counters.bump(Counter::NetLooks);
        if received == 0 && batch.is_empty() {
            counters.bump(Counter::NetLooksEmpty);
            remote.batch = Some(batch);
            return Ok((handled, handled > 0));
        }
        let (mut failure, mut words) = (None, Words::default());
        for at in 0..batch.len() {
            let Some(arrival) = batch.arrival(at, &mut words) else { break };
            if failure.is_some() {
                remote.later.push_back(arrival.to_mail());
                continue;
            }
            if timed == Some(at)
                && let Some(network) = self.desk.context.network()
            {
                network.on_delivery(arrival.payload.len());
            }
            match self.handle_arrival(&arrival, &mut remote.requesters) {
                Ok(true) => handled += 1,
                Ok(false) => remote.later.push_back(arrival.to_mail()),
                Err(error) => failure = Some(error),
            }
        }
        if !batch.is_empty()
            && let Some(network) = self.desk.context.network()
        {
            network.settle();
        }
        remote.batch = Some(batch);
        match failure {
            Some(error) => Err(error),
            None => Ok((handled, received > 0 || handled > 0)),
        }
    }

    /// Sends what was put aside, and handles what had to wait for that.
    fn handle_later(&mut self, remote: &mut Remote) -> Result<usize> {
        if remote.later.is_empty() && self.desk.backlog.stuck_remote == 0 {
            return Ok(0);
        }
        let mut stuck = 0;
        for requester in &mut remote.requesters.all {
            while let Some(first) = requester.stash.pop_front() {
                let head = (first.kind, first.handler);
                match requester.answer(&self.desk, head, &first.words, &first.payload) {
                    Answer::Sent => {}
                    Answer::Refused => {
                        self.desk.reject(requester.name, head, &first.words, &first.payload);
                    }
                    Answer::PutAside => break,
                }
            }
            stuck += usize::from(requester.is_stuck());
        }
        self.desk.backlog.stuck_remote = stuck;
        let mut handled = 0;
        for _ in 0..remote.later.len() {
            let Some(mail) = remote.later.pop_front() else { break };
            match self.handle_arrival(&mail.arrival(), &mut remote.requesters)? {
                true => handled += 1,
                false => remote.later.push_back(mail),
            }
        }
        Ok(handled)
    }

    /// Handles a message from another node; false when it has to wait.
    fn handle_arrival(
        &mut self,
        arrival: &Arrival<'_>,
        requesters: &mut Requesters,
    ) -> Result<bool> {
        let from = Name::from_bits(arrival.route.from);
        let kind = match arrival.sort {
            Sort::Message(kind) => kind,
            Sort::Lost(kind, refusal) => {
                self.take_lost(arrival, kind, reason_of(refusal))?;
                return Ok(true);
            }
        };
        match kind {
            Kind::Returned => return self.take_returned_remote(arrival).map(|()| true),
            Kind::Ask => {
                let requester = requesters.of(from);
                // Questions overtake each other, and the least is answered soonest: whoever asked more asks
                // again after an answer.
                let asked = arrival.words().first().copied();
                requester.asked = requester.asked.into_iter().chain(asked).min();
                requester.report(&self.desk);
                return Ok(true);
            }
            Kind::Credit | Kind::Part => return Ok(true),
            Kind::Short | Kind::Medium | Kind::Long => {}
        }
        if arrival.reply {
            self.run_remote(arrival, kind, Back::None)?;
            return Ok(true);
        }
        let requester = requesters.of(from);
        if requester.is_stuck() || self.inbox.is_holding() {
            return Ok(false);
        }
        let result = self.run_remote(arrival, kind, Back::Remote(requester));
        let bytes = if kind == Kind::Medium { arrival.payload.len() as u64 } else { 0 };
        requester.consumed += REQUEST_COST + bytes;
        requester.report(&self.desk);
        result.map(|()| true)
    }

    /// Runs the handler of a message, or sends the message back when there is none.
    #[inline]
    fn run_remote(&mut self, arrival: &Arrival<'_>, kind: Kind, mut back: Back<'_>) -> Result<()> {
        let from = Name::from_bits(arrival.route.from);
        let all = arrival.words();
        let segment;
        let corrupt = || ErrorKind::CorruptPacket(from).into();
        let (payload, words, size) = match (kind, all) {
            (Kind::Long, &[offset, len, ..]) => {
                // The segment cannot have gone: closing gives back what was not handled.
                segment = self.desk.segment.clone();
                let bytes = segment.as_ref().and_then(|segment| segment.bytes(offset, len));
                let payload = Payload::new(bytes.ok_or_else(corrupt)?, Some(offset));
                (payload, all.get(2..).unwrap_or_default(), Size::Long)
            }
            (Kind::Long, _) => return Err(corrupt()),
            (Kind::Medium, _) => (Payload::own(arrival.payload), all, Size::Medium),
            _ => (Payload::none(), all, Size::Short),
        };
        if words.len() > MOST_CARRIED {
            return Err(corrupt());
        }
        let role = if arrival.reply { Role::Reply } else { Role::Request };
        let bytes = if size == Size::Short { words.len() * 8 } else { payload.len() };
        let counters = self.desk.counters();
        counters.bump(Counter::messages(role, size, Flow::Received).over_network());
        let counter = Counter::bytes(role, size, Flow::Received).over_network();
        counters.add(counter, bytes as u64);
        counters.bump(Counter::HandlerRuns);
        let header = header_of(kind, arrival.handler, all.len());
        let failure = match self.table.find(arrival.handler) {
            Some(handler) => handler.run(from, back.again(), &mut self.desk, words, &payload),
            None => Some(Box::new(Failure::Refused(Reason::BadHandler))),
        };
        let Some(failure) = failure else { return Ok(()) };
        failed(header, *failure, |reason| {
            self.send_back_remote(arrival, kind, reason, &mut back).map(|()| true)
        })
        .map(drop)
    }

    /// Sends a request back to another node; what is left of a reply is an error.
    #[cold]
    fn send_back_remote(
        &mut self,
        arrival: &Arrival<'_>,
        kind: Kind,
        reason: Reason,
        back: &mut Back<'_>,
    ) -> Result<()> {
        let Back::Remote(requester) = back else {
            let dest = Name::from_bits(arrival.route.from);
            return Err(ErrorKind::Unclaimed { dest, reason }.into());
        };
        let (reason, kind) = (reason as u8, kind as u8);
        let original = Original { reason, kind, handler: arrival.handler, reply: false };
        let mut words = vec![original.pack()];
        words.extend_from_slice(arrival.words());
        let head = (Kind::Returned, 0);
        if requester.answer(&self.desk, head, &words, arrival.payload) == Answer::PutAside {
            self.desk.backlog.stuck_remote += 1;
        }
        Ok(())
    }

    /// A message of this endpoint came back from another node.
    #[cold]
    fn take_returned_remote(&mut self, arrival: &Arrival<'_>) -> Result<()> {
        let from = Name::from_bits(arrival.route.from);
        let Some((first, words)) = arrival.words().split_first() else { return Ok(()) };
        let original = Original::unpack(*first);
        let reason = Reason::from_bits(original.reason);
        let kind = match original.kind {
            2 => Kind::Medium,
            3 => Kind::Long,
            _ => Kind::Short,
        };
        let Some(reason) = reason else { return Err(ErrorKind::CorruptPacket(from).into()) };
        let header = header_of(kind, original.handler, words.len());
        let to = (self.desk.context.rank(), from);
        let returned = Returned::of(to, (reason, original.reply), header, words, arrival.payload);
        hand_over(&mut self.on_returned, self.desk.counters(), &returned)
    }

    /// A message of this endpoint that its peer did not get before it was lost.
    #[cold]
    fn take_lost(&mut self, arrival: &Arrival<'_>, kind: Kind, reason: Reason) -> Result<()> {
        let to = (self.desk.context.rank(), Name::from_bits(arrival.route.to));
        let header = header_of(kind, arrival.handler, arrival.words().len());
        let why = (reason, arrival.reply);
        let returned = Returned::of(to, why, header, arrival.words(), arrival.payload);
        hand_over(&mut self.on_returned, self.desk.counters(), &returned)
    }

    /// Whether anything waits to be handled; called after the announcement of a sleep.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        let index = self.desk.name.index();
        let mail = self.desk.context.network().is_some_and(|n| n.has_mail(index));
        // Asked in any case: what a sender left in a lane before it was told to ring is found by this alone.
        self.inbox.anything_waiting() || mail
    }

    /// Whether everything sent to other nodes was consumed, or came back; asks those who have not said.
    pub(crate) fn is_drained_remotely(&mut self) -> bool {
        let Some(network) = self.desk.context.network() else { return true };
        let Some(remote) = &mut self.remote else { return true };
        // Requests that are held back are others'.
        let held = |mail: &Mail| {
            matches!(mail.sort, Sort::Message(Kind::Short | Kind::Medium | Kind::Long))
                && !mail.reply
        };
        let holding = self.inbox.is_holding();
        let idle = remote.later.iter().all(|mail| holding && held(mail));
        let mut drained = idle && !network.has_mail(self.desk.name.index());
        remote.old_flows.retain(|&flow| network.ask(flow));
        drained &= remote.old_flows.is_empty();
        for flow in self.peers.iter().flatten().filter_map(|peer| peer.remote) {
            drained &= !network.ask(flow);
        }
        network.service();
        drained
    }

    /// Closes the endpoint towards other nodes: what it has not handled goes back.
    pub(crate) fn close_remotely(&mut self) {
        let Some(remote) = self.remote.take() else { return };
        let Some(network) = self.desk.context.network() else { return };
        let name = self.desk.name;
        network.return_mail(remote.later);
        for requester in &remote.requesters.all {
            for reply in &requester.stash {
                let names = (name.to_bits(), requester.name.to_bits());
                let body = (reply.words.as_slice(), reply.payload.as_slice());
                let head = (reply.kind, reply.handler);
                network.reply_anyway(requester.name.rank(), head, names, body);
            }
        }
        // Who waits for this endpoint to consume what it was sent will get no other answer.
        for requester in remote.requesters.all.iter().filter(|r| r.consumed != r.reported) {
            let (me, to) = (name.to_bits(), requester.name.to_bits());
            network.report(requester.name.rank(), me, to, requester.consumed);
        }
        network.close_endpoint(name.index(), name.to_bits());
        network.service();
        network.registry.set_segment(name, None);
    }
}

impl Desk {
    /// A reply to another node that its requester will never take comes back.
    #[cold]
    pub(crate) fn reject(
        &mut self,
        requester: Name,
        (kind, handler): (Kind, u8),
        words: &[u64],
        payload: &[u8],
    ) {
        if kind == Kind::Returned {
            return;
        }
        let to = (self.context.rank(), requester);
        let header = header_of(kind, handler, words.len());
        let payload = if kind == Kind::Long { &[] } else { payload };
        self.come_back(Returned::of(to, (Reason::ReplyRejected, true), header, words, payload));
    }
}

fn header_of(kind: Kind, handler: u8, words: usize) -> Header {
    let kind = match kind {
        Kind::Medium => SlotKind::Medium,
        Kind::Long => SlotKind::Long,
        _ => SlotKind::Short,
    };
    Header::new(kind, handler, words, 0)
}
