//! The clock of a rank in virtual time, and its turns.

use super::computation::Computation;
use super::messages::{Arrival, MessageRole, PendingMessage};
use super::own_line::OwnLine;
use super::summary::mix;
use super::table::TimeTable;
use super::turns::State;
use crate::node::NodeMemory;
use clump_os::sync::{AtomicU64, Ordering, Ordering::Relaxed};
use clump_virtual::turn::NEVER;
use clump_virtual::{CallKind, Compute};
use std::ops::Deref;
use std::time::Duration;

/// First time after which a wait without a known end looks again, because the condition may be one
/// that nothing announces; and the longest one, or a sixteenth of what it has waited.
const MIN_NAP_NS: u64 = 50_000;
const MAX_NAP_NS: u64 = 10_000_000;
/// Cost of an empty poll, and of a clock read in a loop.
pub(super) const EMPTY_POLL_NS: u64 = 10;
/// Empty polls, or clock reads, in a row before they count as a loop that waits.
pub(super) const LOOP: u64 = 256;

/// Returns the key of message `number` of a rank, or of the handler of a message with key `of`.
fn key(of: u64, number: u64) -> u64 {
    debug_assert!(number > 0, "they are counted from 1");
    // Mixed twice: numbers of ranks and of messages are of one size.
    mix(mix(0, of), number)
}

/// The clock of a rank, kept by the thread that joined.
#[derive(Debug)]
pub struct Actor {
    own: OwnLine,
    pub(super) computation: Computation,
    /// Time after which the next wait looks again.
    nap_ns: AtomicU64,
    /// Empty polls and clock reads in a row.
    empty_polls: AtomicU64,
    pub(super) clock_reads: AtomicU64,
    /// Time of its last act that was no wait.
    acted_ns: AtomicU64,
    /// Messages that the program has sent, those of what the runtime has collected, and those of
    /// the handler that runs, with the key of its own message.
    program_sends: AtomicU64,
    collected_sends: AtomicU64,
    handler_sends: AtomicU64,
    handled_key: AtomicU64,
}

impl Deref for Actor {
    type Target = OwnLine;

    fn deref(&self) -> &OwnLine {
        &self.own
    }
}

impl Actor {
    /// Time that reading the clock takes.
    pub const CLOCK_READ_NS: u64 = EMPTY_POLL_NS;

    /// Creates actor number `me`; [`Actor::join`] follows.
    pub(crate) fn new(table: TimeTable, node: NodeMemory, me: usize) -> Self {
        let is_rank = me < table.node_of.len();
        let compute = if is_rank { table.compute } else { Compute::Fixed(0) };
        let computation = Computation::new(compute, table.machine.cpu_ppm);
        debug_assert!(me < table.actors.len(), "each rank is an actor");
        let [nap_ns, empty_polls, clock_reads, acted_ns] =
            [MIN_NAP_NS, 0, 0, 0].map(AtomicU64::new);
        let [program_sends, collected_sends, handler_sends, handled_key] =
            [0, 0, 0, 0].map(AtomicU64::new);
        Self {
            own: OwnLine { table, node, me },
            computation,
            nap_ns,
            empty_polls,
            clock_reads,
            acted_ns,
            program_sends,
            collected_sends,
            handler_sends,
            handled_key,
        }
    }

    /// Returns the key of the next message: the same whatever other messages are handled meanwhile.
    fn next_key(&self, role: MessageRole) -> u64 {
        let (of, count) = if role.of_runtime || self.computation.is_collected() {
            (!(self.me as u64), &self.collected_sends)
        } else if self.computation.is_in_handler() {
            (self.handled_key.load(Relaxed), &self.handler_sends)
        } else {
            (self.me as u64, &self.program_sends)
        };
        let number = count.load(Relaxed) + 1;
        count.store(number, Relaxed);
        key(of, number)
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

    /// Enters a call of the runtime, which costs what the machine says: charges the part of the
    /// program before it. Returns false, without effect, inside of such a call.
    pub fn enter(&self, kind: CallKind) -> bool {
        let entered = self.end_part(kind);
        if entered {
            self.clock_reads.store(0, Relaxed);
        }
        entered
    }

    /// Charges the part of the program that ends here. Returns false, without effect, inside of a
    /// call.
    pub(super) fn end_part(&self, kind: CallKind) -> bool {
        let part = self.computation.end_part(kind);
        part.is_some_and(|ns| {
            self.charge(ns);
            true
        })
    }

    /// Charges work of the runtime that no message stands for.
    pub fn work(&self, ns: u64) {
        self.advance(ns);
        self.note_act();
    }

    /// Returns the computation of its program.
    pub fn computation(&self) -> &Computation {
        &self.computation
    }

    /// Charges computation.
    fn charge(&self, ns: u64) {
        let computed = &self.line().computed_ns;
        debug_assert!(ns != NEVER, "clocks end before");
        computed.store(computed.load(Relaxed).saturating_add(ns), Relaxed);
        self.advance(ns);
    }

    /// Reads the clock for the program: an act of its own, so that loops on the clock end.
    pub fn read_clock(&self) -> u64 {
        self.enter(CallKind::Poll);
        self.advance(EMPTY_POLL_NS);
        self.note_act();
        self.begin_part();
        self.clock_ns()
    }

    /// Sends a message to `to`: charges its sender, and hands it over to a NIC. Returns the time
    /// at which that has it.
    pub fn send(&self, message: PendingMessage, to: u32, bytes: u64, role: MessageRole) -> u64 {
        let (to, line) = (to as usize, self.line());
        let costs = *self.table.machine.costs(self.table.is_between_nodes(self.me, to));
        debug_assert!(to < self.table.actors.len(), "a rank of the job");
        debug_assert!(costs.send_ns > 0 && bytes > 0, "a message takes time");
        self.advance(costs.send_ns);
        self.note_act();
        let number = line.sent.load(Relaxed);
        line.sent.store(number + 1, Relaxed);
        if role.request {
            line.unhandled.store(line.unhandled.load(Relaxed) + 1, Relaxed);
        }
        let sent_ns = self.clock_ns();
        if let Some(record) = self.table.record(message) {
            record.sent_ns.store(sent_ns, Relaxed);
            record.source.store(self.me as u64, Relaxed);
            record.number.store(number, Relaxed);
            record.to.store(to as u64, Relaxed);
            record.bytes.store(bytes, Relaxed);
            record.key.store(self.next_key(role), Relaxed);
        }
        self.table.enqueue(message);
        self.note(&[1, sent_ns, to as u64, bytes]);
        sent_ns
    }

    /// Begins the handler of a message: charges its receiver.
    pub fn begin_handler(&self, arrival: Arrival, role: MessageRole) {
        debug_assert!(arrival.due_ns <= self.clock_ns(), "no message is handled before it is due");
        let source = usize::try_from(arrival.source).unwrap_or(usize::MAX);
        let between = self.table.is_between_nodes(source, self.me);
        self.advance(self.table.machine.costs(between).receive_ns);
        self.note_act();
        let handled = &self.line().handled;
        handled.store(handled.load(Relaxed) + 1, Relaxed);
        self.note(&[2, self.clock_ns(), arrival.due_ns, arrival.source, arrival.number]);
        if role.request {
            self.note_handled(source);
        }
        if role.of_runtime {
            return;
        }
        self.handled_key.store(arrival.key, Relaxed);
        self.handler_sends.store(0, Relaxed);
        self.computation.set_handled(Some(arrival.key));
        self.begin_part();
    }

    /// Ends it.
    pub fn end_handler(&self, role: MessageRole) {
        if role.of_runtime {
            return;
        }
        self.enter(CallKind::Other);
        debug_assert!(self.line().handled.load(Relaxed) > 0, "it was counted at its beginning");
        let left_ns = self.computation.set_handled(None);
        self.charge(left_ns);
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
}

#[cfg(test)]
mod tests {
    use super::key;
    use std::collections::HashSet;

    #[test]
    fn messages_of_all_ranks_and_handlers_have_different_keys() {
        let of_programs = (0..64).flat_map(|rank| (1..65).map(move |number| key(rank, number)));
        let of_handlers = of_programs.clone().flat_map(|of| [key(of, 1), key(of, 2)]);
        let all: Vec<u64> = of_programs.chain(of_handlers).collect();
        let different: HashSet<&u64> = all.iter().collect();
        assert_eq!((different.len(), all.len()), (3 * 64 * 64, 3 * 64 * 64));
    }
}
