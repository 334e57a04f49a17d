//! The clock of a rank in virtual time, and its turns.

use super::computation::Computation;
use super::messages::{Arrival, PendingMessage};
use super::summary::mix;
use super::table::{ActorLine, TimeTable};
use super::thread::Call;
use super::turns::{End, State, time_of};
use crate::node::NodeMemory;
use clump_os::futex;
use clump_os::sync::{AtomicU64, Ordering, Ordering::Relaxed};
use clump_virtual::turn::{self, NEVER};
use clump_virtual::{CallKind, Compute};
use std::ops::Range;
use std::time::Duration;

/// Time of the clocks at the beginning, so that no time is 0.
pub(super) const BEGIN_NS: u64 = 1_000_000_000;
/// Machine time between two checks for deaths of those that wait for their turn.
const DEATH_CHECK: Duration = Duration::from_millis(100);
/// First time after which a wait without a known end looks again, because the condition may be one
/// that nothing announces; and the longest one, or a sixteenth of what it has waited.
const MIN_NAP_NS: u64 = 50_000;
const MAX_NAP_NS: u64 = 10_000_000;
/// Cost of an empty poll, and of a clock read in a loop.
pub(super) const EMPTY_POLL_NS: u64 = 10;
/// Empty polls, or clock reads, in a row before they count as a loop that waits.
pub(super) const LOOP: u64 = 256;

/// The clock of a rank, kept by the thread that joined.
#[derive(Debug)]
pub struct Actor {
    pub(super) table: TimeTable,
    pub(super) node: NodeMemory,
    /// Its number: a rank's, or that of an executor behind all ranks.
    pub(super) me: usize,
    computation: Computation,
    /// Time after which the next wait looks again.
    nap_ns: AtomicU64,
    /// Empty polls and clock reads in a row.
    empty_polls: AtomicU64,
    pub(super) clock_reads: AtomicU64,
    /// Time of its last act that was no wait.
    acted_ns: AtomicU64,
    /// Messages that the program has sent, and those of the handler that runs, with the key of its
    /// own message.
    program_sends: AtomicU64,
    handler_sends: AtomicU64,
    handled_key: AtomicU64,
}

impl Actor {
    /// Creates actor number `me`; [`Actor::join`] follows.
    pub(crate) fn new(table: TimeTable, node: NodeMemory, me: usize) -> Self {
        let is_rank = me < table.node_of.len();
        let compute = if is_rank { table.compute } else { Compute::Fixed(0) };
        let computation = Computation::new(compute, table.machine.cpu_ppm);
        debug_assert!(me < table.actors.len(), "each rank is an actor");
        let [nap_ns, empty_polls, clock_reads, acted_ns] =
            [MIN_NAP_NS, 0, 0, 0].map(AtomicU64::new);
        let [program_sends, handler_sends, handled_key] = [0, 0, 0].map(AtomicU64::new);
        Self {
            table,
            node,
            me,
            computation,
            nap_ns,
            empty_polls,
            clock_reads,
            acted_ns,
            program_sends,
            handler_sends,
            handled_key,
        }
    }

    /// Returns the computation of this actor, for its recording.
    pub(super) fn computation(&self) -> &Computation {
        &self.computation
    }

    /// Returns the key of the next message: the same whatever other messages are handled meanwhile.
    fn next_key(&self) -> u64 {
        let in_handler = self.computation.is_in_handler();
        let count = if in_handler { &self.handler_sends } else { &self.program_sends };
        let number = count.load(Relaxed) + 1;
        debug_assert!(number > 0, "they are counted from 1");
        count.store(number, Relaxed);
        let of = if in_handler { self.handled_key.load(Relaxed) } else { self.me as u64 };
        mix(of, number)
    }

    /// Joins, and waits until all actors have and this one is the first.
    pub fn join(&self) {
        self.set_state(State::Ready);
        let joined = self.table.header.joined.fetch_add(1, Ordering::AcqRel) + 1;
        debug_assert!(joined as usize <= self.table.actors.len(), "each rank joins once");
        if joined as usize == self.table.actors.len() {
            self.pass_turn();
        } else {
            self.await_turn();
        }
    }

    /// Leaves: the others go on.
    pub fn leave(&self) {
        debug_assert!(self.table.header.joined.load(Relaxed) > 0, "it has joined");
        debug_assert!(self.line().state.load(Relaxed) != State::Absent as u32, "it leaves once");
        self.enter(CallKind::Other);
        self.line().diverged_ns.store(self.computation.diverged_ns(), Relaxed);
        self.set_state(State::Absent);
        self.note_left();
        if let Some(next) = self.table.choose() {
            self.table.hand_over(next);
        }
    }

    /// Returns the number of virtual nodes.
    pub fn nodes(&self) -> u32 {
        self.table.nodes
    }

    /// Returns the virtual node of a rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        self.table.node_of.get(rank as usize).copied()
    }

    /// Returns the virtual node of this actor.
    pub fn node(&self) -> u32 {
        self.table.node_of_actor(self.me).unwrap_or(0)
    }

    /// Returns the ranks of a virtual node.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        let [first, end] = [node, node + 1].map(|node| self.table.first_of(node) as u32);
        debug_assert!(first < end, "each node has a rank");
        first..end
    }

    /// Returns how the job ended early, if it did: then clocks stand still.
    pub fn end(&self) -> Option<End> {
        self.table.end()
    }

    /// Notes the time limit of sends: a wait of that length is no deadlock.
    pub fn note_send_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(NEVER));
        self.table.header.send_timeout_ns.fetch_max(ns, Relaxed);
    }

    /// Returns the clock, in ns since the beginning.
    pub fn clock_ns(&self) -> u64 {
        let clock_ns = self.line().clock_ns.load(Relaxed);
        debug_assert!(clock_ns != NEVER, "clocks end before");
        clock_ns
    }

    /// Enters a call of the runtime, which costs what the machine says: charges the part of the
    /// program before it. Returns false, without effect, inside of such a call.
    pub fn enter(&self, kind: CallKind) -> bool {
        let Some(ns) = self.computation.end_part(kind) else { return false };
        self.charge(ns);
        self.clock_reads.store(0, Relaxed);
        true
    }

    /// Charges computation.
    fn charge(&self, ns: u64) {
        let computed = &self.line().computed_ns;
        debug_assert!(ns != NEVER, "clocks end before");
        computed.store(computed.load(Relaxed).saturating_add(ns), Relaxed);
        self.advance(ns);
    }

    /// Enters a call of the runtime again that has been left for nothing.
    pub fn enter_quietly(&self) {
        self.computation.skip_part();
    }

    /// Enters a call of the runtime that makes others of its calls, until the result is dropped.
    pub fn call(&self) -> Call<'_> {
        let began = self.enter(CallKind::Other);
        self.computation.hold(true);
        Call::new(self, began)
    }

    /// Begins a part of the program.
    pub fn begin_part(&self) {
        self.computation.begin_part();
    }

    /// Gives the cost of the part of the program that runs, instead of its time.
    pub fn give_cost(&self, ns: u64) {
        self.computation.give(ns);
    }

    /// Reads the clock for the program: an act of its own, so that loops on the clock end.
    pub fn read_clock(&self) -> u64 {
        self.enter(CallKind::Poll);
        self.advance(EMPTY_POLL_NS);
        self.note_act();
        self.begin_part();
        self.clock_ns()
    }

    /// Begins to send a request; `None`: too many messages are in flight.
    pub fn begin_send(&self) -> Option<PendingMessage> {
        self.table.take_record(true)
    }

    /// Begins to send a reply, for which there is always a record.
    pub fn begin_reply(&self) -> PendingMessage {
        let record = self.table.take_record(false);
        debug_assert!(record.is_some(), "requests leave records for their replies");
        record.unwrap_or_default()
    }

    /// Gives a message up that found no room.
    pub fn give_up(&self, message: PendingMessage) {
        debug_assert!(self.line().state.load(Relaxed) != State::Waits as u32, "it runs");
        self.table.give_back(message);
    }

    /// Sends a message to `to`: charges its sender, and hands it over to a NIC. Returns the time
    /// at which that has it.
    pub fn send(&self, message: PendingMessage, to: u32, bytes: u64, request: bool) -> u64 {
        let (to, line) = (to as usize, self.line());
        let costs = *self.table.machine.costs(self.table.is_between_nodes(self.me, to));
        debug_assert!(to < self.table.actors.len(), "a rank of the job");
        debug_assert!(costs.send_ns > 0 && bytes > 0, "a message takes time");
        self.advance(costs.send_ns);
        self.note_act();
        let number = line.sent.load(Relaxed);
        line.sent.store(number + 1, Relaxed);
        if request {
            line.unhandled.store(line.unhandled.load(Relaxed) + 1, Relaxed);
        }
        let sent_ns = self.clock_ns();
        if let Some(record) = self.table.record(message) {
            record.sent_ns.store(sent_ns, Relaxed);
            record.source.store(self.me as u64, Relaxed);
            record.number.store(number, Relaxed);
            record.to.store(to as u64, Relaxed);
            record.bytes.store(bytes, Relaxed);
            record.key.store(self.next_key(), Relaxed);
        }
        self.table.enqueue(message);
        self.note(&[1, sent_ns, to as u64, bytes]);
        sent_ns
    }

    /// Returns the arrival of a message, once its due time is known, and forgets its record.
    pub fn arrival(&self, message: PendingMessage) -> Option<Arrival> {
        let record = self.table.record(message)?;
        let words = [&record.due_ns, &record.source, &record.number, &record.key];
        let [due_ns, source, number, key] = words.map(|word| word.load(Relaxed));
        if due_ns == 0 {
            return None;
        }
        debug_assert_eq!(record.to.load(Relaxed), self.me as u64, "another rank's message");
        self.table.give_back(message);
        Some(Arrival { due_ns, source, number, key })
    }

    /// Notes the time of the first message of this rank that is due; `None`: none is known.
    pub fn set_first_due(&self, due_ns: Option<u64>) {
        debug_assert!(due_ns.is_none_or(|due_ns| due_ns > 0), "no message is due at the beginning");
        self.line().due_ns.store(due_ns.unwrap_or(NEVER), Relaxed);
    }

    /// Begins the handler of a message: charges its receiver.
    pub fn begin_handler(&self, arrival: Arrival, request: bool) {
        debug_assert!(arrival.due_ns <= self.clock_ns(), "no message is handled before it is due");
        let source = usize::try_from(arrival.source).unwrap_or(usize::MAX);
        let between = self.table.is_between_nodes(source, self.me);
        self.advance(self.table.machine.costs(between).receive_ns);
        self.note_act();
        let handled = &self.line().handled;
        handled.store(handled.load(Relaxed) + 1, Relaxed);
        self.note(&[2, self.clock_ns(), arrival.due_ns, arrival.source, arrival.number]);
        if request {
            self.note_handled(source);
        }
        self.handled_key.store(arrival.key, Relaxed);
        self.handler_sends.store(0, Relaxed);
        self.computation.set_handled(Some(arrival.key));
        self.begin_part();
    }

    /// Notes that a request of another actor is handled: it hears of it as soon as a message could
    /// tell it.
    fn note_handled(&self, source: usize) {
        let Some(line) = self.table.actors.get(source) else {
            clump_bug::bug!("a request of actor {source}, which there is not, was handled");
            return;
        };
        let left = line.unhandled.load(Relaxed).saturating_sub(1);
        line.unhandled.store(left, Relaxed);
        if left == 0 && source != self.me {
            let costs = self.table.machine.costs(self.table.is_between_nodes(source, self.me));
            let heard_ns = self.clock_ns().saturating_add(costs.latency_ns);
            line.wake_ns.store(line.wake_ns.load(Relaxed).min(heard_ns), Relaxed);
        }
    }

    /// Returns true if all requests of this actor were handled.
    pub fn is_drained(&self) -> bool {
        self.line().unhandled.load(Relaxed) == 0
    }

    /// Ends it.
    pub fn end_handler(&self) {
        self.enter(CallKind::Other);
        debug_assert!(self.line().handled.load(Relaxed) > 0, "it was counted at its beginning");
        let left_ns = self.computation.set_handled(None);
        self.charge(left_ns);
    }

    /// Waits until no other actor can have an effect on this one at its time: what is due by now is
    /// known then.
    pub fn order(&self) {
        let lookahead_ns = self.table.machine.lookahead_ns();
        debug_assert!(lookahead_ns > 0, "the actor with the least time always goes on");
        while self.end().is_none() {
            let now_ns = self.clock_ns();
            let other_ns = self.table.first_of_others(self.me);
            if turn::sees_all(now_ns, other_ns, lookahead_ns) {
                let first_ns = now_ns.min(other_ns).min(self.table.first_arrival());
                if !self.table.resolve(turn::horizon(first_ns, self.table.machine.least_send_ns()))
                {
                    return;
                }
            } else {
                self.set_state(State::Ready);
                self.pass_turn();
            }
        }
    }

    /// Notes that a poll of the program has found nothing: it costs some time, and waits if it is
    /// one of many. Returns true if it has waited.
    pub fn note_empty_poll(&self) -> bool {
        self.advance(EMPTY_POLL_NS);
        let polls = self.empty_polls.load(Relaxed) + 1;
        debug_assert!(!self.enter(CallKind::Poll), "a poll is a call of the runtime");
        self.empty_polls.store(polls, Relaxed);
        if polls < LOOP {
            return false;
        }
        self.suspend(State::Waits, self.nap(None), None);
        true
    }

    pub(super) fn line(&self) -> &ActorLine {
        debug_assert!(self.me < self.table.actors.len(), "each rank is an actor");
        &self.table.actors[self.me]
    }

    pub(super) fn advance(&self, ns: u64) {
        let clock = &self.line().clock_ns;
        let before_ns = clock.load(Relaxed);
        debug_assert!(before_ns != NEVER, "invariant 3");
        clock.store(before_ns.saturating_add(ns).min(NEVER - 1), Relaxed);
        debug_assert!(clock.load(Relaxed) >= before_ns, "invariant 3");
    }

    pub(super) fn set_state(&self, state: State) {
        debug_assert!(state as u32 <= State::Sleeps as u32, "a state in shared memory");
        self.line().state.store(state as u32, Relaxed);
    }

    /// Adds what this actor does to its digest.
    fn note(&self, words: &[u64]) {
        let digest = &self.line().digest;
        digest.store(words.iter().copied().fold(digest.load(Relaxed), mix), Relaxed);
    }

    /// Notes an act that is no wait: the job makes progress.
    pub(super) fn note_act(&self) {
        self.table.header.active_ns.fetch_max(self.clock_ns(), Relaxed);
        self.acted_ns.store(self.clock_ns(), Relaxed);
        self.nap_ns.store(MIN_NAP_NS, Relaxed);
        self.empty_polls.store(0, Relaxed);
    }

    /// Returns the length of the next wait that nothing known ends, at most `limit`.
    pub(super) fn nap(&self, limit: Option<Duration>) -> u64 {
        let nap_ns = self.nap_ns.load(Relaxed);
        self.nap_ns.store((nap_ns * 2).min(MAX_NAP_NS), Relaxed);
        // After a long wait it is late by a small part of that.
        let waited_ns = self.clock_ns().saturating_sub(self.acted_ns.load(Relaxed));
        let nap_ns = nap_ns.max(waited_ns / 16);
        debug_assert!(nap_ns >= MIN_NAP_NS, "waits become longer");
        let limit = limit.filter(|limit| limit.as_nanos() < u128::from(MAX_NAP_NS));
        limit.map_or(nap_ns, |limit| nap_ns.min(limit.as_nanos() as u64)).max(1)
    }

    /// Gives the token to the actor that is next, and waits for it if that is another one.
    pub(super) fn pass_turn(&self) {
        match self.table.choose() {
            Some(next) if next != self.me => {
                self.table.hand_over(next);
                self.await_turn();
            }
            _ => {}
        }
    }

    /// Waits for the token, or the end of virtual time.
    fn await_turn(&self) {
        let turn = &self.line().turn;
        while turn.swap(0, Ordering::Acquire) == 0 && self.end().is_none() {
            let woken = futex::sleep(turn, 0, Some(DEATH_CHECK));
            if !woken && self.node.job().first_death().is_some() {
                self.table.break_off(End::Death);
            }
        }
    }

    /// Lets the others go on until this actor's wait ends; then its clock says when. `word`: the
    /// place of the word that it waits for.
    pub(super) fn suspend(&self, state: State, span_ns: u64, word: Option<u32>) {
        let line = self.line();
        let until_ns = self.clock_ns().saturating_add(span_ns).min(NEVER - 1);
        line.timer_ns.store(until_ns, Relaxed);
        line.wake_ns.store(NEVER, Relaxed);
        line.word.store(word.unwrap_or(u32::MAX), Relaxed);
        debug_assert!(state != State::Absent && state != State::Ready, "it waits for something");
        debug_assert!(until_ns < NEVER, "a wait ends by its timer at last");
        self.set_state(state);
        self.pass_turn();
        if self.end().is_none() {
            line.clock_ns.store(time_of(line), Relaxed);
        }
        line.word.store(u32::MAX, Relaxed);
        line.wake_ns.store(NEVER, Relaxed);
        self.set_state(State::Ready);
    }
}
