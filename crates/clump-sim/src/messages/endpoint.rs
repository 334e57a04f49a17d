//! An endpoint of a simulated rank: its planned requests, the replies it owes, and the messages it
//! has consumed.

use super::content;
use super::endpoints::{OUTSIDE, TOO_LONG, offset_of};
use super::ledger::{self, ExpectedEnd, Ledger, NO_HANDLER};
use super::plan::ProgramDemand;
use crate::kernel::{Random, Time};
use clump_net::{FlowId, Progress, REQUEST_COST, Stack};
use clump_transport::{Arrival, ReplyOutlet, Requester, Requesters};
use clump_wire::frame::{FrameKind, stack_of};
use clump_wire::{Message, Original, OwnedMessage, Reason, SendResult};
use std::collections::{BTreeMap, VecDeque};

/// Handler that only consumes the message.
const TAKE: u8 = 1;
/// Handler that replies.
const REPLY: u8 = 2;

/// Returns the name of an endpoint, made of rank, generation and index.
pub(crate) fn name_of(rank: u32, generation: u64, index: u8) -> u64 {
    u64::from(rank) << 40 | generation << 8 | u64::from(index)
}

/// Request that waits to be sent, or is being sent.
#[derive(Debug)]
struct Sending {
    id: u64,
    kind: FrameKind,
    handler: u8,
    tag: u64,
    offset: u64,
    bytes: usize,
    progress: Progress,
}

/// Requests queued for one other endpoint.
#[derive(Debug)]
struct Lane {
    flow: FlowId,
    ordered: bool,
    queue: VecDeque<Sending>,
}

/// A simulated endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: u64,
    pub(crate) index: u8,
    pub(crate) tag: u64,
    /// Polling interval of a slow endpoint.
    pub(crate) slow_every: Option<Time>,
    pub(crate) next_look: Time,
    pub(crate) renew: bool,
    lanes: BTreeMap<u64, Lane>,
    requesters: Requesters,
    /// Requests that wait until replies to their senders have found room.
    later: VecDeque<OwnedMessage>,
}

/// Environment in which an endpoint acts.
pub(crate) struct EndpointEnvironment<'a> {
    pub(crate) now: Time,
    pub(crate) stack: &'a mut Stack,
    pub(crate) ledger: &'a ledger::SharedLedger,
    pub(crate) random: &'a mut Random,
    pub(crate) demand: &'a ProgramDemand,
    pub(crate) credit: u64,
    pub(crate) buffer: &'a mut Vec<u8>,
}

impl EndpointEnvironment<'_> {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        ledger::lock(self.ledger)
    }
}

impl Endpoint {
    pub(crate) fn new(rank: u32, generation: u64, index: u8, tag: u64) -> Self {
        let name = name_of(rank, generation, index);
        Self {
            name,
            index,
            tag,
            slow_every: None,
            next_look: 0,
            renew: false,
            lanes: BTreeMap::new(),
            requesters: Requesters::new(name, clump_transport::pool_of(1)),
            later: VecDeque::new(),
        }
    }

    /// Returns true if replies wait for room, or requests for replies.
    pub(crate) fn is_stuck(&self) -> bool {
        self.requesters.is_stuck() || !self.later.is_empty()
    }

    /// Returns true if nothing of it waits to be sent, and nothing that it took to be handled.
    pub(crate) fn has_sent_all(&self) -> bool {
        !self.is_stuck() && self.lanes.values().all(|lane| lane.queue.is_empty())
    }

    /// Describes the messages that wait to be sent, for a failure report.
    pub(crate) fn describe(&self, stack: &Stack) -> String {
        let lanes = self.lanes.iter().filter_map(|(to, lane)| {
            let front = lane.queue.front()?;
            let (bytes, done) = (front.bytes, front.progress.done);
            let open = stack.outstanding(lane.flow);
            let count = lane.queue.len();
            Some(format!(
                "to {to:x}: {count}, first {done} of {bytes} bytes, {open} bytes unconsumed"
            ))
        });
        let lanes: Vec<_> = lanes.collect();
        format!("{:x}: {} wait for replies; {}", self.name, self.later.len(), lanes.join("; "))
    }

    /// Returns true if the endpoint may be closed without leaving half a message behind.
    pub(crate) fn may_close(&self) -> bool {
        let begun =
            |lane: &Lane| lane.queue.front().is_some_and(|s| s.progress != Progress::default());
        !self.is_stuck() && !self.lanes.values().any(begun)
    }

    /// Gives up all requests not yet sent.
    pub(crate) fn abandon(&mut self, ledger: &mut Ledger) {
        for sending in self.lanes.values().flat_map(|lane| &lane.queue) {
            ledger.withdraw(sending.id);
        }
        self.lanes.clear();
    }

    /// Returns true if everything it sent is known to be consumed or returned. Sends credit
    /// requests to all peers that have not reported.
    pub(crate) fn is_consumed(&self, environment: &mut EndpointEnvironment<'_>) -> bool {
        let now = environment.now;
        let open = self
            .lanes
            .values()
            .filter(|lane| environment.stack.request_consumption_report(|| now, lane.flow));
        open.count() == 0
    }

    /// Queues a request to endpoint `to`, which has the tag `tag`.
    pub(crate) fn queue_request(
        &mut self,
        environment: &mut EndpointEnvironment<'_>,
        to: u64,
        tag: u64,
    ) {
        let Self { lanes, name, .. } = self;
        let random = &mut *environment.random;
        let lane = lanes.entry(to).or_insert_with(|| {
            let ordered = random.chance(environment.demand.ordered);
            let flow = environment.stack.open_flow(*name, to, stack_of(to), ordered);
            Lane { flow, ordered, queue: VecDeque::new() }
        });
        let drawn = random.below(1_000_000) as u32;
        let (short, long) = (environment.demand.short, environment.demand.long);
        let most = environment.demand.max_payload;
        let (kind, mut bytes) = match drawn {
            _ if drawn < short => (FrameKind::Short, 0),
            _ if drawn < short + long => (FrameKind::Long, random.magnitude(1, most)),
            _ => (FrameKind::Medium, random.magnitude(1, most)),
        };
        if random.one_in(40) {
            bytes = 0;
        }
        let bad = random.chance(environment.demand.bad).then(|| random.below(3));
        let handler = if random.chance(environment.demand.replied) { REPLY } else { TAKE };
        let (handler, tag, aim) = match bad {
            Some(0) => (handler, tag.wrapping_add(1), ExpectedEnd::Refused),
            Some(1) => (NO_HANDLER, tag, ExpectedEnd::NoHandler),
            Some(_) if kind == FrameKind::Long => (handler, tag, ExpectedEnd::Refused),
            _ => (handler, tag, ExpectedEnd::Handled),
        };
        let what = (kind, false, aim, lane.ordered);
        let id = ledger::lock(environment.ledger).enter(what, (*name, to), bytes as usize);
        let offset = match bad {
            Some(2..) if id.is_multiple_of(2) => OUTSIDE,
            Some(2..) => TOO_LONG,
            _ => offset_of(id),
        };
        let (bytes, progress) = (bytes as usize, Progress::default());
        lane.queue.push_back(Sending { id, kind, handler, tag, offset, bytes, progress });
    }

    /// Queues a request to an endpoint that does not exist.
    pub(crate) fn queue_undeliverable(
        &mut self,
        environment: &mut EndpointEnvironment<'_>,
        rank: u32,
    ) {
        let to = name_of(rank, 77, 31);
        self.queue_request(environment, to, 0);
        let Some(sending) = self.lanes.get_mut(&to).and_then(|lane| lane.queue.back_mut()) else {
            return;
        };
        sending.handler = TAKE;
        ledger::lock(environment.ledger).expect_refusal(sending.id);
    }

    /// Sends messages as far as there is room, and handles those that waited for that. Returns the
    /// number of messages sent and handled.
    pub(crate) fn send(&mut self, environment: &mut EndpointEnvironment<'_>) -> usize {
        self.flush_replies(environment);
        let mut sent = 0;
        for _ in 0..self.later.len() {
            let Some(queued) = self.later.pop_front() else { break };
            let waiting = self.later.len();
            self.handle(environment, &queued.message());
            sent += usize::from(self.later.len() == waiting);
        }
        for lane in self.lanes.values_mut() {
            while let Some(front) = lane.queue.front_mut() {
                match environment.attempt(lane.flow, front) {
                    SendResult::Sent => sent += 1,
                    SendResult::Full => break,
                    SendResult::Refused(_) => environment.ledger().withdraw(front.id),
                }
                lane.queue.pop_front();
            }
        }
        sent
    }

    /// Handles a message.
    pub(crate) fn handle(
        &mut self,
        environment: &mut EndpointEnvironment<'_>,
        arrival: &Message<'_>,
    ) {
        let route = arrival.route;
        let hold = false;
        let Self { requesters, name, later, .. } = self;
        let step = requesters.admit(&mut environment.outlet(), arrival, hold);
        if route.to != *name {
            let what = format!("{name:x} was handed a message for {route:x?}");
            return environment.ledger().complain(what);
        }
        match step {
            Arrival::Wait => later.push_back(arrival.to_owned()),
            Arrival::Answer if arrival.kind == FrameKind::Returned => {
                environment.take_back(arrival);
            }
            Arrival::Answer => {
                environment.take(arrival);
            }
            Arrival::Request(requester) => {
                if environment.take(arrival) {
                    environment.answer(requester, arrival);
                }
                requester.note_consumed(&mut environment.outlet(), arrival.payload.len());
            }
            Arrival::Done => {}
        }
        self.requesters.check_invariants();
    }

    /// Sends kept replies as far as there is room.
    fn flush_replies(&mut self, environment: &mut EndpointEnvironment<'_>) {
        let ledger = environment.ledger;
        let refused = |reply: &Message<'_>| withdraw_answer(ledger, reply.kind, reply.words);
        self.requesters.flush(&mut environment.outlet(), refused);
    }

    /// Reports consumption to all other endpoints before this one closes: later, credit requests
    /// would get no answer.
    pub(crate) fn report_all(&mut self, stack: &mut Stack, at: Time, credit: u64) {
        debug_assert!(!self.is_stuck(), "an endpoint that owes a reply may not close");
        self.requesters.close(&mut SimOutlet { stack, now: at, credit });
    }
}

/// Transport of a simulated endpoint's replies: its rank's stack.
pub(crate) struct SimOutlet<'a> {
    pub(crate) stack: &'a mut Stack,
    pub(crate) now: Time,
    pub(crate) credit: u64,
}

impl ReplyOutlet for SimOutlet<'_> {
    fn reply(&mut self, reply: &Message<'_>) -> SendResult {
        let now = self.now;
        self.stack.reply(|| now, stack_of(reply.route.to), reply)
    }

    fn reply_anyway(&mut self, reply: &Message<'_>) {
        let now = self.now;
        self.stack.reply_anyway(|| now, stack_of(reply.route.to), reply);
    }

    fn report(&mut self, from: u64, to: u64, consumed: [u64; 2]) {
        let now = self.now;
        self.stack.report(|| now, stack_of(to), (from, to), consumed);
    }

    fn credit(&self) -> u64 {
        self.credit
    }
}

impl EndpointEnvironment<'_> {
    fn outlet(&mut self) -> SimOutlet<'_> {
        SimOutlet { stack: self.stack, now: self.now, credit: self.credit }
    }

    fn take_back(&mut self, arrival: &Message<'_>) {
        let (first, words) = arrival.words.split_first().unwrap_or((&0, &[]));
        let original = Original::unpack(*first);
        let kind = match original.kind {
            2 => FrameKind::Medium,
            3 => FrameKind::Long,
            _ => FrameKind::Short,
        };
        let names = (arrival.route.to, arrival.route.from);
        self.ledger().on_returned((kind, original.reply), names, words, arrival.payload);
    }

    /// Handles a message; returns true if it is in the ledger.
    fn take(&mut self, arrival: &Message<'_>) -> bool {
        let names = (arrival.route.from, arrival.route.to);
        let what = (arrival.kind, arrival.reply, arrival.handler);
        self.ledger().on_handled(what, names, arrival.words, arrival.payload).is_some()
    }

    /// Replies to a request, or returns it.
    fn answer(&mut self, requester: &mut Requester, arrival: &Message<'_>) {
        let handler = arrival.handler;
        let (head, words, payload) = match handler {
            NO_HANDLER => {
                let reason = Reason::BadHandler as u8;
                let original =
                    Original { reason, kind: arrival.kind as u8, handler, reply: false }.pack();
                let words = [&[original], arrival.words].concat();
                ((FrameKind::Returned, 0), words, arrival.payload.to_vec())
            }
            REPLY => self.make_reply(arrival.route.to, requester.name()),
            _ => return,
        };
        let pushed = requester.send(&mut self.outlet(), head, &words, &payload);
        if let SendResult::Refused(_) = pushed {
            withdraw_answer(self.ledger, head.0, &words);
        }
    }

    fn make_reply(&mut self, from: u64, to: u64) -> ((FrameKind, u8), Vec<u64>, Vec<u8>) {
        let kind = *self.random.pick(&[
            FrameKind::Short,
            FrameKind::Short,
            FrameKind::Medium,
            FrameKind::Long,
        ]);
        let most = (self.demand.max_payload / 4).max(1);
        let bytes =
            if kind == FrameKind::Short { 0 } else { self.random.magnitude(1, most) as usize };
        let what = (kind, true, ExpectedEnd::Handled, false);
        let id = self.ledger().enter(what, (from, to), bytes);
        let mut payload = vec![0; bytes];
        content::fill(id, &mut payload);
        let place = [offset_of(id), bytes as u64];
        let place = if kind == FrameKind::Long { &place[..] } else { &[] };
        let words = place.iter().copied().chain(content::words(id)).collect();
        ((kind, TAKE), words, payload)
    }

    /// Tries to send a request, or the rest of it.
    fn attempt(&mut self, flow: FlowId, sending: &mut Sending) -> SendResult {
        let now = self.now;
        let long = sending.kind == FrameKind::Long;
        let cost = REQUEST_COST + if long { 0 } else { sending.bytes as u64 };
        let open = self.stack.outstanding(flow);
        if open != 0 && open + cost > self.credit && sending.progress == Progress::default() {
            // The peer reports consumption in quarters of the credit; a message that needs more
            // room sends a credit request.
            if cost + self.credit / 4 > self.credit {
                self.stack.request_consumption_report(|| now, flow);
            }
            return SendResult::Full;
        }
        if self.buffer.len() < sending.bytes {
            self.buffer.resize(sending.bytes, 0);
        }
        let payload = &mut self.buffer[..sending.bytes];
        content::fill(sending.id, payload);
        let place = [sending.offset, sending.bytes as u64];
        let place = if sending.kind == FrameKind::Long { &place[..] } else { &[] };
        let words: Vec<u64> = place.iter().copied().chain(content::words(sending.id)).collect();
        let Sending { kind, handler, tag, progress, .. } = sending;
        let Some(route) = self.stack.route_of(flow, *tag) else {
            clump_bug::bug!("requests go over open flows");
            return SendResult::Refused(Reason::EndpointGone);
        };
        let request = Message::request((*kind, *handler), route, (&words, payload));
        match kind {
            FrameKind::Long => self.stack.request_long(|| now, flow, &request, progress),
            _ => self.stack.request(|| now, flow, &request),
        }
    }
}

/// Notes that a reply cannot be sent any more: its target is lost.
fn withdraw_answer(ledger: &ledger::SharedLedger, kind: FrameKind, words: &[u64]) {
    // The number of a message returned to sender belongs to the other side.
    if kind != FrameKind::Returned
        && let Some(&id) = words.get(if kind == FrameKind::Long { 2 } else { 0 })
    {
        ledger::lock(ledger).withdraw(id);
    }
}
