//! The executor of one-sided operations: an engine, and its connection to the interface's stack.

use crate::answer_tally::AnswerTally;
use crate::delayed_sends::DelayedSends;
use crate::engine::{Engine, EngineCounts, ReplySink};
use crate::memory::NodeSegments;
use crate::service::Services;
use clump_net::{FlowId, Stack};
use clump_onesided::Refusal;
use clump_onesided::protocol::{TAG, interface_name, tell};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_trace::{Counter, Counters};
use clump_transport::{Clock, DeliveryQueue, Result, Routes, Wire, Work, credit_bytes, gone};
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, Original, OwnedMessage, Reason, SendResult};

/// Longest time until an unreported change is seen, in ns.
const UNSEEN_NS: u64 = 100_000_000;

/// Maximal number of ranks that one housekeeping checks.
const LIVING_AT_ONCE: usize = 4096;

/// The engine, and the name under which it sends answers and requests.
pub(crate) struct Executor {
    pub(crate) engine: Engine<NodeSegments>,
    name: Name,
    memory: NodeMemory,
    /// Block of this node's first interface, where ranks leave calls.
    own: Option<Shared<RankBlock>>,
    /// Ranks that may still send requests: those of other nodes, and those of this one, where
    /// proxies carry their messages.
    living: Vec<u32>,
    /// The place among them at which the next housekeeping begins.
    next_living: usize,
    /// Answers to ranks of this node.
    answers: Vec<OwnedMessage>,
    /// Flows to the interfaces of other nodes, by node, once they are open.
    flows: Vec<Option<FlowId>>,
    /// Time at which all watched words were checked, and the deaths known then.
    looked: (u64, u64),
    /// True if all watched words are to be checked.
    suspects: bool,
    /// Messages to other interfaces, while the network is slower on purpose.
    delayed: DelayedSends,
    tally: AnswerTally,
}

impl Executor {
    /// Creates the executor of requests to `name`, which works on `segments`.
    ///
    /// # Errors
    /// Address space has run out.
    pub(crate) fn new(
        memory: &NodeMemory,
        segments: NodeSegments,
        services: Services,
        name: Name,
    ) -> Result<Self> {
        let ranks = memory.interface_id(0);
        let tally = AnswerTally::new(memory, name.rank())?;
        let proxies = memory.proxies() != 0;
        let senders = (0..ranks).filter(|&rank| proxies || !memory.is_local(rank));
        let living = senders.collect();
        let engine = Engine::new(name, segments, ranks, credit_bytes(memory));
        let engine = engine.with_services(services, memory.all_interfaces().end);
        let (memory, flows) = (memory.clone(), vec![None; memory.nnodes() as usize]);
        let own = memory.rank(memory.interface_id(memory.node()));
        let (answers, looked, suspects, delayed) = (Vec::new(), (0, 0), false, Default::default());
        let next_living = 0;
        Ok(Self {
            engine,
            name,
            memory,
            own,
            living,
            next_living,
            answers,
            flows,
            looked,
            suspects,
            delayed,
            tally,
        })
    }

    /// Returns the engine, and an outlet for it.
    #[inline]
    pub(crate) fn over<'a, C: Clock>(
        &'a mut self,
        stack: &'a mut Stack,
        clock: &'a C,
        routes: &'a Routes,
    ) -> (&'a mut Engine<NodeSegments>, Outlet<'a, C>) {
        let Self { engine, name, memory, flows, answers, delayed, tally, .. } = self;
        let name = *name;
        (engine, Outlet { stack, clock, routes, name, memory, flows, answers, delayed, tally })
    }

    /// Begins a turn: sends what has waited for room, and executes the requests of ranks of this
    /// node that its proxy has taken.
    pub(crate) fn begin_turn(
        &mut self,
        requests: Option<&mut Vec<OwnedMessage>>,
        stack: &mut Stack,
        clock: &impl Clock,
        routes: &Routes,
    ) {
        self.delayed.refresh(self.memory.job());
        let (engine, mut out) = self.over(stack, clock, routes);
        if engine.wants_room() {
            engine.handle_room(&mut out);
        }
        for queued in requests.into_iter().flat_map(|requests| requests.drain(..)) {
            clock.spend(Work::Execute(queued.payload.len()));
            take(engine, &queued.message(), &mut out);
        }
    }

    /// Ends a turn: answers waiting requests, and sends the services' requests to other interfaces.
    /// Returns true if ranks of this node have changed words or left calls.
    pub(crate) fn end_turn(
        &mut self,
        stack: &mut Stack,
        clock: &impl Clock,
        routes: &Routes,
    ) -> bool {
        let mut changed = self.look_at_changes(stack, clock, routes);
        changed |= self.serve_calls(stack, clock, routes);
        self.end_waits(stack, clock, routes);
        if self.delayed.delays() {
            changed |= self.send_due(stack, clock, routes);
        }
        changed
    }

    /// Transmits the delayed messages that are due. Returns true if there were some.
    #[cold]
    fn send_due(&mut self, stack: &mut Stack, clock: &impl Clock, routes: &Routes) -> bool {
        let (engine, mut out) = self.over(stack, clock, routes);
        let mut sent = false;
        while let Some(kept) = out.delayed.due(clock.now_ns()).cloned() {
            let status = match kept.reply {
                true => out.transmit_answer(&kept.message()),
                false => out.transmit(&kept.message()),
            };
            if status == SendResult::Full {
                break;
            }
            out.delayed.pop();
            sent = true;
            let cookie = kept.words.get(2).copied().unwrap_or(0);
            if matches!(status, SendResult::Refused(_)) && !kept.reply && cookie != 0 {
                engine.handle_answer(cookie, Err(Refusal::NodeLost), &mut out);
            }
        }
        sent
    }

    /// Returns the time at which a delayed message is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.delayed.next_due_ns()
    }

    /// Delivers the answers to ranks of this node.
    pub(crate) fn deliver_answers(
        &mut self,
        delivery_queues: &mut DeliveryQueue,
        stack: &mut Stack,
        clock: &impl Clock,
    ) {
        for answer in self.answers.drain(..) {
            let to = Name::from_bits(answer.route.to).rank();
            debug_assert!(self.memory.is_local(to), "others are answered over the network");
            delivery_queues.deliver(&mut Wire { stack, clock }, &answer.message());
        }
    }

    /// Writes counts of what was executed into the counters of the interface.
    pub(crate) fn count(&self, counters: Counters<'_>) {
        let counts = self.engine.counts();
        let EngineCounts { executed, refused, services, later, asked, joined, delayed } = counts;
        counters.set(Counter::RmaExecuted, executed);
        counters.set(Counter::RmaRefused, refused);
        counters.set(Counter::RmaServices, services);
        counters.set(Counter::RmaServicesLater, later);
        counters.set(Counter::RmaServicesAsked, asked);
        counters.set(Counter::RmaServicesJoined, joined);
        counters.set(Counter::RmaServicesDelayed, delayed);
    }

    /// Forgets ranks that have died or left.
    pub(crate) fn housekeeping(&mut self, now: u64) {
        let Self { engine, living, next_living, memory, looked, suspects, .. } = self;
        for _ in 0..living.len().min(LIVING_AT_ONCE) {
            if *next_living >= living.len() {
                *next_living = 0;
            }
            let Some(&rank) = living.get(*next_living) else { break };
            if memory.peer(rank).and_then(gone).is_none() {
                *next_living += 1;
                continue;
            }
            living.swap_remove(*next_living);
            match memory.is_local(rank) {
                true => engine.drop_requests(rank),
                false => engine.forget(rank),
            }
        }
        let deaths = memory.job().deaths();
        if engine.has_watches() && (deaths != looked.1 || now >= looked.0 + UNSEEN_NS) {
            (*looked, *suspects) = ((now, deaths), true);
        }
    }

    /// Takes in the watched words that ranks of this node have changed. Returns true if there were
    /// some.
    pub(crate) fn look_at_changes(
        &mut self,
        stack: &mut Stack,
        clock: &impl Clock,
        routes: &Routes,
    ) -> bool {
        if !self.engine.has_watches() {
            return false;
        }
        let block = self.memory.rank(self.memory.interface_id(self.memory.node()));
        let told = block.map_or(0, |block| block.take_changed());
        let changed = if std::mem::take(&mut self.suspects) { u64::MAX } else { told };
        if changed != 0 {
            let (engine, mut out) = self.over(stack, clock, routes);
            engine.handle_changes(changed, &mut out);
        }
        told != 0
    }

    /// Takes in calls of ranks of this node for services, and sends what services have to send.
    /// Returns true if there were calls.
    pub(crate) fn serve_calls(
        &mut self,
        stack: &mut Stack,
        clock: &impl Clock,
        routes: &Routes,
    ) -> bool {
        let calls = self.own.as_ref().map_or(0, |block| block.take_called());
        let (engine, mut out) = self.over(stack, clock, routes);
        if calls != 0 {
            engine.handle_calls(calls, &mut out);
        }
        engine.send_messages(&mut out);
        calls != 0
    }

    /// Answers requests for locks and flags that need not wait any more.
    pub(crate) fn end_waits(&mut self, stack: &mut Stack, clock: &impl Clock, routes: &Routes) {
        if self.engine.has_waits() {
            let (engine, mut out) = self.over(stack, clock, routes);
            engine.handle_waits(&mut out);
        }
    }

    /// Returns true if a message is for the engine, and not for an endpoint.
    #[inline]
    pub(crate) fn is_for(&self, arrival: &Message<'_>) -> bool {
        arrival.route.to == self.name.to_bits()
    }
}

/// Hands an arrival to the engine.
#[inline]
pub(crate) fn take(
    engine: &mut Engine<NodeSegments>,
    arrival: &Message<'_>,
    out: &mut impl ReplySink,
) {
    if arrival.is_request() {
        engine.handle_request(arrival, out);
    } else if arrival.kind == FrameKind::Ask {
        let word = |at: usize| arrival.words.get(at).copied().unwrap_or(0);
        engine.handle_credit_request(Name::from_bits(arrival.route.from), (word(0), word(1)), out);
    } else {
        take_answer(engine, arrival, out);
    }
}

/// Hands the answer to a request of this interface to the engine, or its return.
#[cold]
fn take_answer(engine: &mut Engine<NodeSegments>, arrival: &Message<'_>, out: &mut impl ReplySink) {
    let word = |at: usize| arrival.words.get(at).copied().unwrap_or(0);
    match (arrival.kind, arrival.reply) {
        (FrameKind::Short | FrameKind::Medium, true) => {
            let value = word(1).to_le_bytes();
            let answer = match arrival.handler {
                tell::FAILED => Err(Refusal::from_bits(word(1))),
                tell::BYTES => Ok(arrival.payload),
                tell::VALUE => Ok(&value[..]),
                _ => Ok(&[][..]),
            };
            engine.handle_answer(word(0), answer, out);
        }
        // A returned request: its cookie is its third word.
        (FrameKind::Returned, _) if !Original::unpack(word(0)).reply => {
            engine.handle_answer(word(3), Err(Refusal::NodeLost), out);
        }
        // Answers whose requester has left; credit, which the stack took.
        _ => {}
    }
}

/// Outlet of answers and requests over the interface's stack.
pub(crate) struct Outlet<'a, C> {
    stack: &'a mut Stack,
    clock: &'a C,
    routes: &'a Routes,
    name: Name,
    memory: &'a NodeMemory,
    flows: &'a mut Vec<Option<FlowId>>,
    answers: &'a mut Vec<OwnedMessage>,
    delayed: &'a mut DelayedSends,
    tally: &'a AnswerTally,
}

impl<C: Clock> Outlet<'_, C> {
    /// Sends an answer to an endpoint of another node.
    fn transmit_answer(&mut self, answer: &Message<'_>) -> SendResult {
        let peer = self.routes.stack_of(answer.route.to);
        self.stack.reply(|| self.clock.ticked_ns(), peer, answer)
    }

    /// Sends a request to the interface of another node.
    fn transmit(&mut self, request: &Message<'_>) -> SendResult {
        let Route { from, to, .. } = request.route;
        let node = self.memory.node_of_interface(Name::from_bits(to).rank());
        let node = node.filter(|&node| !self.memory.is_node_lost(node));
        let Some(place) = node.and_then(|node| self.flows.get_mut(node as usize)) else {
            return SendResult::Refused(Reason::PeerLost);
        };
        let (stack, peer) = (&mut *self.stack, self.routes.stack_of(to));
        let flow = *place.get_or_insert_with(|| stack.open_flow(from, to, peer, false));
        stack.request(|| self.clock.ticked_ns(), flow, request)
    }
}

impl<C: Clock> ReplySink for Outlet<'_, C> {
    fn answer(&mut self, answer: &Message<'_>) -> bool {
        let to = Name::from_bits(answer.route.to).rank();
        if self.memory.is_local(to) {
            // Until the turn's end. What ranks are owed is bounded by what they may have
            // outstanding.
            self.answers.push(answer.to_owned());
            self.tally.note(answer, false);
            return true;
        }
        // Answers to ranks are delayed by the receiving rank.
        let to_rank = !self.memory.all_interfaces().contains(&to);
        if self.delayed.delays() && !to_rank {
            return self.delayed.keep(self.clock.now_ns(), answer);
        }
        let sent = self.transmit_answer(answer);
        if to_rank && sent == SendResult::Sent {
            self.tally.note(answer, true);
        }
        // A lost peer needs no answer.
        sent != SendResult::Full
    }

    fn report(&mut self, to: Name, consumed: [u64; 2]) {
        let (from, to, local) =
            (self.name.to_bits(), to.to_bits(), self.memory.is_local(to.rank()));
        if local {
            let report = Message::answer((FrameKind::Credit, 0), (from, to), (&consumed, &[]));
            return self.answers.push(report.to_owned());
        }
        let peer = self.routes.stack_of(to);
        self.stack.report(|| self.clock.ticked_ns(), peer, (from, to), consumed);
    }

    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> SendResult {
        let is_known = node < self.memory.nnodes() && node != self.memory.node();
        if !is_known || self.memory.is_node_lost(node) {
            return SendResult::Refused(Reason::PeerLost);
        }
        let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
        let to = interface_name(self.memory, node).to_bits();
        let route = Route { from: self.name.to_bits(), to, tag: TAG };
        let request = Message::request((kind, handler), route, (words, payload));
        if !self.delayed.delays() {
            return self.transmit(&request);
        }
        match self.delayed.keep(self.clock.now_ns(), &request) {
            true => SendResult::Sent,
            false => SendResult::Full,
        }
    }
}
