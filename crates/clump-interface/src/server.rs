//! The work of a network interface, turn by turn: no thread, and no time but that of its [`Clock`].
//! A thread ([`crate::NetworkInterface`]) or a simulation runs its turns, and puts it to sleep when
//! a turn found nothing.

use crate::executor::{Executor, take};
use crate::node_endpoints::{INDEX, NodeEndpoints};

use crate::memory::NodeSegments;
use crate::service::Services;
use clump_net::{Batch, EndpointTable, PeerDirectory, Stack, Words};
use clump_onesided::protocol::interface_name;
use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::park::Announced;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_trace::{Counter, Counters};
use clump_transport::{
    Clock, DeliveryQueue, Error, NodeDirectory, Result, Routes, SubmissionQueue, Watcher, Wire,
    Work, control_endpoint_name, count_stack, gone_peers, note_narrowed, note_receive_failure,
    note_unanswered,
};
use clump_wire::Message;
use clump_wire::frame::FrameKind;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep: an actor that dies or changes a lock rings, so this is for unforeseen cases.
const NAP: Duration = Duration::from_millis(100);
/// Longest sleep while messages wait for endpoints that are not open yet: opening one rings no
/// doorbell.
const NAP_FOR_OPENING: Duration = Duration::from_micros(500);
/// Shortest sleep while all that was answered only has to be acknowledged. Setting a timer that is
/// due before the kernel's next tick costs a virtual machine some 10 us, and a lost answer is rare:
/// a requester that misses it retries sooner.
const MIN_NAP: Duration = Duration::from_millis(4);
/// Turns between two checks of which ranks have died or finalized.
const HOUSEKEEPING_TURNS: u32 = 256;

/// A network interface without its thread.
pub struct Server<C> {
    memory: NodeMemory,
    id: u32,
    /// Name of its control endpoint.
    control_endpoint: u64,
    routes: Routes,
    stack: Stack,
    /// Present at the first interface of a node, which executes one-sided operations.
    engine: Option<Executor>,
    /// Present where proxies drive the network for ranks.
    submission_queue: Option<SubmissionQueue>,
    delivery_queues: DeliveryQueue,
    watcher: Watcher,
    /// Block to which the stack's counters are copied: that of the interface's first endpoint.
    tally: Shared<EndpointBlock>,
    turns: u32,
    clock: C,
}

/// Parameters of an interface's stack.
pub struct Wiring {
    /// Number and incarnation of the interface.
    pub me: (u32, u32),
    /// Peers of the interface.
    pub peers: Arc<dyn PeerDirectory>,
    /// Endpoint table of the interface.
    pub endpoints: Box<dyn EndpointTable>,
}

impl<C: Clock> Server<C> {
    /// Creates interface number `which` of the node of `memory`, in which its place is registered;
    /// `connect` makes its stack. The first of a node executes the requests to `services`.
    ///
    /// # Errors
    /// Fails if it has no place, if address space has run out, or if no stack can be made.
    pub fn new(
        memory: &NodeMemory,
        which: u32,
        services: Services,
        clock: C,
        connect: impl FnOnce(Wiring) -> Result<Stack>,
    ) -> Result<Self> {
        let node = memory.node();
        let id = memory.interface_id(node) + which;
        let missing = || Error::Unusable("this node's interface has no address".into());
        let block = memory.rank(id).ok_or_else(missing)?;
        let place = memory.peer(id).and_then(|own| own.place()).ok_or_else(missing)?;
        let watcher = Watcher::new(block, &clock);
        let tally = memory.endpoint_block(id, 0)?;
        let routes = Routes::new(memory.clone(), which);
        let name = (which == 0).then(|| interface_name(memory, node));
        let proxies = memory.proxies() != 0;
        // Interfaces send requests to each other; without proxies ranks of other nodes do, too.
        let peers = Arc::new(NodeDirectory::new(memory, id, which, !proxies));
        let control_endpoint = control_endpoint_name(id).to_bits();
        let segments = NodeSegments::new(memory.clone());
        let executes = name.map(Name::to_bits);
        let (deposits, table) = (segments.for_deposits(), routes.clone());
        let endpoints = NodeEndpoints::new(memory, executes, control_endpoint, table, deposits);
        let stack =
            connect(Wiring { me: (id, place.epoch), peers, endpoints: Box::new(endpoints) })?;
        let engine =
            name.map(|name| Executor::new(memory, segments, services, name)).transpose()?;
        let submission_queue =
            proxies.then(|| SubmissionQueue::open(memory, id, routes.clone())).transpose()?;
        let delivery_queues = DeliveryQueue::new(memory, Name::new(id, 0, 1));
        let (memory, turns) = (memory.clone(), 0);
        Ok(Self {
            memory,
            id,
            control_endpoint,
            routes,
            stack,
            engine,
            submission_queue,
            delivery_queues,
            watcher,
            tally,
            turns,
            clock,
        })
    }

    /// Returns its stack, for information that only the stack has.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Notes that the thread waited until now for the stack's readiness.
    pub fn note_watched(&mut self) {
        self.stack.note_watched(self.clock.ticked_ns());
    }

    /// Returns the number of messages that wait for room at endpoints of its node.
    pub fn held(&self) -> usize {
        self.delivery_queues.held().0
    }

    /// Returns its clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Takes one turn. Returns true if there was work. After a turn without work, and before a
    /// sleep, [`Server::housekeeping`] is due.
    pub fn turn(&mut self, batch: &mut Batch) -> bool {
        let began = self.clock.ticked_ns();
        let busy = self.work(batch);
        if busy {
            self.watcher.on_turn(began, self.clock.ticked_ns());
            self.turns = self.turns.wrapping_add(1);
            if self.turns.is_multiple_of(HOUSEKEEPING_TURNS) {
                self.housekeeping();
            }
        }
        busy
    }

    /// Takes messages that ranks have handed over, receives once, handles what has arrived, and
    /// sends the results. Returns true if there was work.
    fn work(&mut self, batch: &mut Batch) -> bool {
        let Self {
            stack,
            engine,
            submission_queue,
            delivery_queues,
            routes,
            control_endpoint,
            watcher,
            clock,
            ..
        } = self;
        let now = || clock.ticked_ns();
        clock.spend(Work::Look);
        let mut taken = 0;
        if let Some(submission_queue) = submission_queue {
            taken = submission_queue.poll(&mut Wire { stack, clock }, watcher);
            for queued in submission_queue.lost.drain(..) {
                delivery_queues.deliver(&mut Wire { stack, clock }, &queued.message());
            }
        }
        // Ahead of the network: a rank waits for each.
        let called = engine.as_mut().is_some_and(|e| e.serve_calls(stack, clock, routes));
        if called && stack.wants_service() {
            stack.service(now(), true);
        }
        let received = stack.receive(now, Some(INDEX), batch);
        if delivery_queues.wants_room() {
            delivery_queues.handle_room(&mut Wire { stack, clock });
        }
        if let Some(executor) = engine {
            let own = submission_queue.as_mut().map(|submission_queue| &mut submission_queue.own);
            executor.begin_turn(own, stack, clock, routes);
        }
        // Where ranks drive the network themselves all that arrives here is for the engine, and is
        // this queue.
        let arrived = submission_queue.is_none().then(|| stack.polled_at());
        if let Some(arrived) = arrived {
            watcher.on_operations(arrived, batch.len());
        }
        for at in 0..batch.len() {
            let mut words = Words::default();
            let Some(arrival) = batch.arrival(at, &mut words) else { break };
            match engine {
                Some(executor) if executor.is_for(&arrival) => {
                    clock.spend(Work::Execute(arrival.payload.len()));
                    let (engine, mut out) = executor.over(stack, clock, routes);
                    take(engine, &arrival, &mut out);
                    watcher.on_executed(clock, arrived, arrival.payload.len());
                }
                _ if arrival.route.to == *control_endpoint => {
                    let queue = submission_queue.as_mut();
                    take_control(&arrival, queue, delivery_queues, &mut Wire { stack, clock });
                }
                _ => {
                    delivery_queues.deliver(&mut Wire { stack, clock }, &arrival);
                    watcher.on_brought(clock, stack.polled_at(), arrival.payload.len());
                }
            }
        }
        if arrived.is_some() {
            watcher.on_none_left(clock);
        }
        let mut changed = false;
        if let Some(executor) = engine {
            changed = executor.end_turn(stack, clock, routes);
            executor.deliver_answers(delivery_queues, stack, clock);
        }
        let now = clock.ticked_ns();
        if stack.wants_service() || stack.next_timeout().is_some_and(|at| at <= now) {
            stack.service(now, true);
        }
        watcher.on_sent(stack, clock);
        received + taken > 0 || !batch.is_empty() || called || changed
    }

    /// Gives up ranks that died or finalized, on other nodes and on this one.
    pub fn housekeeping(&mut self) {
        let Self { memory, id, stack, engine, submission_queue, delivery_queues, .. } = self;
        let Self { watcher, clock, tally, routes, .. } = self;
        watcher.on_housekeeping(stack);
        let counters = Counters::over(tally.counters());
        count_stack(counters, stack);
        counters.set(
            Counter::NetFull,
            submission_queue.as_ref().map_or(0, |submission_queue| submission_queue.full),
        );
        counters.set(Counter::NetHeld, delivery_queues.held().1);
        for (peer, why) in gone_peers(stack, memory) {
            stack.lose(peer, why);
        }
        if let Some(block) = memory.rank(*id) {
            note_unanswered(&block, stack, (clock.ticked_ns(), clock.now_ns()));
            note_narrowed(&block, stack, clock.ticked_ns());
            note_receive_failure(&block, stack);
        }
        if let Some(executor) = engine {
            executor.count(counters);
            executor.housekeeping(clock.ticked_ns());
            executor.look_at_changes(stack, clock, routes);
            executor.end_waits(stack, clock, routes);
            executor.deliver_answers(delivery_queues, stack, clock);
        }
        if let Some(submission_queue) = submission_queue {
            submission_queue.drop_lost_ranks(&mut Wire { stack, clock });
            delivery_queues.return_unread(&mut Wire { stack, clock });
        }
    }

    /// Acknowledges arrivals before a sleep. Returns the longest permitted sleep.
    pub fn before_sleep(&mut self) -> Duration {
        let now = self.clock.ticked_ns();
        self.stack.acknowledge_all(now);
        // Paced packets go out in time, and so do answers that wait for them; messages handed over
        // by ranks are retransmitted in time.
        let in_time = match &self.submission_queue {
            Some(_) => !self.stack.is_quiet(),
            None => self.stack.holds_back(),
        };
        let due = self.stack.next_timeout().map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let nap = nap(due, in_time, self.delivery_queues.wants_opening());
        let nap = self.stack.driver().due_in().map_or(nap, |due| nap.min(due));
        let delayed = self.engine.as_ref().and_then(Executor::next_due_ns);
        delayed.map_or(nap, |due| {
            nap.min(Duration::from_nanos(due.saturating_sub(self.clock.now_ns())))
        })
    }

    /// Announces its sleep to ranks: they ring from now on for calls and for submitted messages.
    /// Returns `None` when something has arrived meanwhile, or a peer was lost: messages in flight
    /// to it have been returned.
    pub fn announce(&mut self) -> Option<SleepAnnouncement> {
        if self.stack.has_queued(INDEX) {
            return None;
        }
        let Some(block) = self.memory.rank(self.id) else { return Some(SleepAnnouncement(None)) };
        let Some(submission_queue) = &mut self.submission_queue else {
            // Callers execute a full fence, too: calls are rarer than messages.
            let announced = block.park().announce(FenceKind::Symmetric);
            if block.has_calls() {
                block.park().withdraw(announced);
                return None;
            }
            return Some(SleepAnnouncement(Some((block, announced))));
        };
        submission_queue.arm_notifications();
        let announced = block.park().announce(self.memory.fence());
        let had_to_send = self.stack.wants_service();
        if self.delivery_queues.wants_room() {
            // Messages read before the announcement have made room; from now on their reader wakes
            // this interface.
            self.delivery_queues.request_room();
            self.delivery_queues
                .handle_room(&mut Wire { stack: &mut self.stack, clock: &self.clock });
        }
        let has_to_send = !had_to_send && self.stack.wants_service();
        let waiting = submission_queue.anything_waiting(&self.stack) || block.has_calls();
        if waiting || has_to_send {
            block.park().withdraw(announced);
            return None;
        }
        Some(SleepAnnouncement(Some((block, announced))))
    }
}

/// An announced sleep of an interface.
#[derive(Debug)]
#[must_use = "ranks ring for a sleeper until it has slept"]
pub struct SleepAnnouncement(Option<(Shared<RankBlock>, Announced)>);

impl SleepAnnouncement {
    /// Withdraws the announcement without having slept; for callers that wait by other means.
    pub fn cancel(self, alarm: &Alarm) {
        if let Some((block, announced)) = self.0 {
            block.park().withdraw(announced);
        }
        alarm.clear();
    }

    /// Sleeps until `alarm` is rung or `other` has something to read, `nap` at most.
    pub fn sleep(self, alarm: &Alarm, other: Option<BorrowedFd<'_>>, nap: Duration) {
        match self.0 {
            Some((block, announced)) => {
                block.park().sleep_on(announced, alarm, other, Some(nap));
            }
            None => {
                if alarm.wait(other, Some(nap)).rung {
                    alarm.clear();
                }
            }
        }
    }
}

/// Returns the time to sleep when the next timer is `due`; `in_time`: it is not to be late.
fn nap(due: Option<Duration>, in_time: bool, wants_opening: bool) -> Duration {
    let due = due.unwrap_or(NAP).min(NAP);
    let nap = if in_time { due } else { due.max(MIN_NAP) };
    if wants_opening { nap.min(NAP_FOR_OPENING) } else { nap }
}

/// Handles a message to the control endpoint: a credit request, or an answer to a close handshake.
fn take_control(
    arrival: &Message<'_>,
    submission_queue: Option<&mut SubmissionQueue>,
    delivery_queues: &mut DeliveryQueue,
    wire: &mut Wire<'_, impl Clock>,
) {
    let (from, words) = (arrival.route.from, arrival.words);
    let token = words.first().copied().unwrap_or(0);
    match (arrival.kind, submission_queue) {
        (FrameKind::Ask, _) => {
            let rank = words.get(1).copied().unwrap_or(0) as u32;
            delivery_queues.handle_credit_request(wire, from, token, rank);
        }
        (FrameKind::Credit, Some(submission_queue)) => {
            submission_queue.close_handshakes.on_answer(from, token);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_sleeps_no_longer_than_until_something_has_to_be_sent_again() {
        let soon = Some(Duration::from_micros(50));
        assert_eq!(nap(soon, true, false), Duration::from_micros(50));
        assert_eq!(nap(soon, false, false), MIN_NAP);
        assert_eq!(nap(None, true, false), NAP);
        assert_eq!(nap(None, false, true), NAP_FOR_OPENING);
        assert_eq!(nap(soon, true, true), Duration::from_micros(50));
    }
}
