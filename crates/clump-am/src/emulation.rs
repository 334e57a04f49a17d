//! Emulation of a slower network: delays that an endpoint adds to its messages while the
//! laboratory's knobs are turned (docs/adr/0038).
//!
//! A message that is delayed is sent to handler 0, otherwise used for returned messages alone, and
//! carries a [`Stamp`] as its last word. So no transport depends on it, and a receiver checks for a
//! stamp only where a message without a handler would be returned.

use crate::message::{Handler, MessageKind, OutgoingMessage};
use clump_loggp::FlightWindow;
use clump_loggp::delay::{ArrivalClock, Injection, MAX_HELD_NS, Stamp};
use clump_loggp::knobs::TABLE_WORDS;
use clump_loggp::{KnobClass, KnobScope, KnobTable, Knobs};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::job::{JobBlock, KNOB_WORDS};
use clump_shm::name::Name;
use clump_shm::slot::MAX_WORDS;
use clump_wire::OwnedMessage;
use clump_wire::frame::FrameKind;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const _: () = assert!(KNOB_WORDS == TABLE_WORDS, "the node's memory holds a table");

/// Most requests that wait in one endpoint until they are due, and most replies besides. Further
/// ones stay in their lane.
const MAX_DELAYED: usize = 1 << 16;
/// Longest time that a message takes to another rank of the node where its receiver polls.
const MAX_SHM_NS: u64 = 1_000;
/// Longest time between nodes of one machine.
const MAX_NET_NS: u64 = 60_000;

/// Last part of an overhead, in ns, in which a rank that shares its processor does not sleep:
/// longer than an idle processor takes to wake it.
const AWAKE_NS: u64 = 100_000;

/// A rank as messages that are delayed on purpose use it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmulatedRank<'a> {
    pub(crate) interfaces: &'a Interfaces,
    /// True if there are more ranks than processors.
    pub(crate) shares_processor: bool,
}

impl EmulatedRank<'_> {
    /// Keeps the rank busy, without polling (paper 001, 3.2). Where ranks share processors, others
    /// run meanwhile: each rank of the emulated machine has a processor of its own.
    fn occupy(self, ns: u64) {
        if ns == 0 {
            return;
        }
        let until = clock::now_ns().saturating_add(ns);
        loop {
            let left = until.saturating_sub(clock::now_ns());
            match self.shares_processor {
                _ if left == 0 => break,
                true if left > 2 * AWAKE_NS => clock::pass(Duration::from_nanos(left - AWAKE_NS)),
                true => clock::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
        debug_assert!(clock::now_ns() >= until, "the rank was busy so long");
    }
}

/// The times at which the interfaces of a rank are free: one for each path.
#[derive(Debug, Default)]
pub(crate) struct Interfaces([AtomicU64; 2]);

impl Interfaces {
    /// Injects a message of `bytes` bytes, unless as many as an interface holds wait already.
    /// `bounded`: false for messages that cannot wait.
    fn inject(
        &self,
        scope: KnobScope,
        knobs: &Knobs,
        (bytes, bounded): (usize, bool),
    ) -> Option<Injection> {
        let free = &self.0[scope as usize];
        let now = clock::now_ns();
        debug_assert!(now > 0, "the clock runs");
        loop {
            let seen = free.load(Ordering::Relaxed);
            let injection = Injection::plan(knobs, now, seen, bytes);
            debug_assert!(injection.at_ns >= now, "nothing is injected in the past");
            debug_assert!(injection.free_ns >= injection.at_ns, "time goes on");
            if bounded && injection.is_too_far(knobs, now) {
                return None;
            }
            let next = injection.free_ns.min(now + MAX_HELD_NS);
            if free.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(injection);
            }
        }
    }
}

/// A message with its stamp.
#[derive(Debug)]
pub(crate) struct StampedWords {
    words: [u64; MAX_WORDS],
    count: usize,
    /// Time of the stamp.
    pub(crate) sent_ns: u64,
}

impl StampedWords {
    /// Stamps a message that leaves its sender's interface at `end_ns`.
    pub(crate) fn of(message: &OutgoingMessage<'_>, end_ns: u64) -> Self {
        let now = clock::now_ns();
        let stamp = Stamp::new(now, end_ns.saturating_sub(now), message.handler.0);
        let mut words = [0; MAX_WORDS];
        let given = message.words.iter().copied().chain([stamp.to_word()]);
        words.iter_mut().zip(given).for_each(|(to, word)| *to = word);
        debug_assert!(message.words.len() < MAX_WORDS, "two slots hold a message and its stamp");
        Self { words, count: message.words.len() + 1, sent_ns: now }
    }

    /// Returns `message` as it is sent.
    pub(crate) fn message<'a>(&'a self, message: &OutgoingMessage<'a>) -> OutgoingMessage<'a> {
        let words = self.words.get(..self.count).unwrap_or_default();
        debug_assert!(self.count > 0 && self.count <= MAX_WORDS, "a stamp at least");
        debug_assert_eq!(words.len(), message.words.len() + 1, "the stamp comes last");
        OutgoingMessage { handler: Handler(0), words, ..*message }
    }
}

/// A message that waits until it is due, and the time in its stamp; interfaces give none.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) message: Delayed,
    pub(crate) sent: Option<u32>,
}

/// A message that waits until it is due.
#[derive(Debug)]
pub(crate) enum Delayed {
    /// From an endpoint of this node.
    Local(LocalMessage),
    /// From an endpoint of another node.
    Remote(OwnedMessage),
}

/// A message of this node, copied out of its slots.
#[derive(Debug)]
pub(crate) struct LocalMessage {
    pub(crate) from: Name,
    /// For a request: the lane that it came by; `None`: a shared queue.
    pub(crate) lane: Option<usize>,
    pub(crate) request: bool,
    pub(crate) kind: MessageKind,
    pub(crate) handler: u8,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Vec<u8>,
}

impl Delayed {
    fn is_request(&self) -> bool {
        match self {
            Delayed::Local(message) => {
                debug_assert!(message.kind != MessageKind::Returned, "it is never hidden");
                debug_assert!(message.handler != 0, "its stamp named a handler");
                message.request
            }
            Delayed::Remote(message) => !message.reply,
        }
    }

    /// Returns the path and the class of the message.
    fn row(&self) -> (KnobScope, KnobClass) {
        match self {
            Delayed::Local(message) => (KnobScope::Shm, class_of(message.kind)),
            Delayed::Remote(message) => {
                let short = message.kind == FrameKind::Short;
                (KnobScope::Net, if short { KnobClass::Short } else { KnobClass::Bulk })
            }
        }
    }
}

/// An endpoint's copy of the knobs, and the messages that it hides until they are due.
#[derive(Debug, Default)]
pub(crate) struct Emulation {
    epoch: u64,
    table: KnobTable,
    /// True if a knob is turned; messages may wait although none is any more.
    pub(crate) on: bool,
    /// By time and number.
    waiting: BTreeMap<(u64, u64), Hidden>,
    /// Requests among them.
    requests: usize,
    numbered: u64,
    clocks: HashMap<Name, ArrivalClock>,
    /// The injection of a message that found no room afterwards, and is tried again.
    reserved: Option<Injection>,
    /// Requests in flight by path, where a capacity is set.
    flights: [FlightWindow; 2],
    /// Time before which not all requests to this node can have been handled.
    handled_ns: u64,
    /// Time at which the last answer of an interface was due.
    answered_ns: u64,
    /// Time for which the last request to an interface was held back.
    held_ns: u64,
    /// Answers of interfaces whose requests were held back, by their first word, and for how long.
    held_answers: HashMap<u64, u64>,
}

impl Emulation {
    /// Reads the node's settings, if they have changed. Returns true if they have.
    pub(crate) fn refresh(&mut self, job: &JobBlock) -> bool {
        if job.knob_epoch() == self.epoch {
            return false;
        }
        // Else they are changing just now, and the doorbell rings afterwards.
        let Some((epoch, words)) = job.knobs() else { return false };
        (self.epoch, self.table) = (epoch, KnobTable::from_words(&words));
        self.on = !self.table.is_off();
        if !self.on {
            self.held_answers.clear();
        }
        debug_assert!(self.epoch.is_multiple_of(2), "a complete change");
        debug_assert!(self.epoch != 0 || !self.on, "somebody has turned them");
        true
    }

    /// Keeps the rank busy for what sending `message` costs, and injects it. `None` if the
    /// interface takes no more now. `to_interface`: it is for a node's interface, which does not
    /// handle stamps; its latency is added to the answer.
    pub(crate) fn send(
        &mut self,
        rank: EmulatedRank<'_>,
        message: &OutgoingMessage<'_>,
        scope: KnobScope,
        (to_interface, bounded): (bool, bool),
    ) -> Option<StampedWords> {
        let class = if to_interface { KnobClass::OneSided } else { class_of(message.kind) };
        let knobs = *self.table.get(scope, class);
        debug_assert!(message.kind != MessageKind::Returned, "it goes back without delay");
        debug_assert!(message.handler.0 != 0, "the handler is in the stamp");
        if self.reserved.is_none() {
            let window = bounded && knobs.capacity > 0;
            let flights = &mut self.flights[scope as usize];
            if window && !flights.has_room(clock::now_ns(), knobs.capacity) {
                return None;
            }
            let size = (message.payload.len(), bounded);
            let injection = rank.interfaces.inject(scope, &knobs, size)?;
            if window {
                flights.add(injection.end_ns.saturating_add(2 * knobs.latency_ns));
            }
            self.reserved = Some(injection);
            rank.occupy(knobs.send_ns);
        }
        let end_ns = self.reserved.map_or(0, |reserved| reserved.end_ns);
        debug_assert!(end_ns > 0, "it was injected");
        if to_interface {
            self.held_ns = end_ns.saturating_sub(clock::now_ns());
        }
        if scope == KnobScope::Shm {
            self.handled_ns = self.handled_ns.max(end_ns.saturating_add(knobs.latency_ns));
        }
        Some(StampedWords::of(message, end_ns))
    }

    /// Returns true if all that was sent to this node can have been handled by now.
    pub(crate) fn is_past(&self) -> bool {
        self.handled_ns == 0 || clock::now_ns() >= self.handled_ns
    }

    /// Does the same for a reply, for which there is always room.
    pub(crate) fn reply(
        &mut self,
        rank: EmulatedRank<'_>,
        message: &OutgoingMessage<'_>,
        scope: KnobScope,
    ) -> StampedWords {
        self.reserved = None;
        let stamped = self.send(rank, message, scope, (false, false));
        debug_assert!(stamped.is_some(), "there is room without a bound");
        stamped.unwrap_or_else(|| StampedWords::of(message, 0))
    }

    /// Records that the message was injected; else the next one is taken for a retry of it.
    pub(crate) fn sent(&mut self) {
        self.reserved = None;
        debug_assert!(self.requests <= self.waiting.len(), "requests are some of all");
    }

    /// Returns true if there is room for another message.
    fn has_room(&self, request: bool) -> bool {
        debug_assert!(self.requests <= self.waiting.len(), "requests are some of all");
        let most = if request { self.requests } else { self.waiting.len() - self.requests };
        most < MAX_DELAYED
    }

    /// Hides a message until it is due. Returns false if there is no room. `one_clock`: the times
    /// in its stamp are of the clock that this process reads.
    pub(crate) fn hide(
        &mut self,
        (from, one_clock): (Name, bool),
        stamp: Stamp,
        message: Delayed,
    ) -> bool {
        if !self.has_room(message.is_request()) {
            return false;
        }
        let (scope, class) = message.row();
        let latency_ns = self.table.get(scope, class).latency_ns;
        let most_ns = longest_path_ns(scope, one_clock);
        let clock = self.clocks.entry(from).or_default();
        let due_ns = clock.due_ns(stamp, clock::now_ns(), latency_ns, most_ns);
        debug_assert!(due_ns >= latency_ns, "it is due after its latency");
        self.keep(due_ns, Hidden { message, sent: Some(stamp.sent_units()) });
        debug_assert!(self.is_waiting(), "it waits, or is due at once");
        true
    }

    /// Notes that the last request to an interface is answered by a message that begins with
    /// `name`.
    pub(crate) fn hold_answer(&mut self, name: u64) {
        debug_assert!(self.on, "nothing is held back otherwise");
        if self.held_ns > 0 {
            self.held_answers.insert(name, self.held_ns);
        }
        debug_assert_ne!(name, 0, "0 names no request");
    }

    /// Hides the answer of an interface: as long as its request was held back, for the latency of
    /// both directions, and at the gap of its requests.
    pub(crate) fn hide_answer(&mut self, answer: OwnedMessage) {
        let knobs = self.table.get(KnobScope::Net, KnobClass::OneSided);
        let now = clock::now_ns();
        debug_assert!(answer.reply, "interfaces answer");
        let bytes = answer.payload.len() as u64;
        let extra_ns = bytes.saturating_mul(knobs.byte_ps) / 1000;
        let held_ns = answer.words.first().and_then(|name| self.held_answers.remove(name));
        let due_ns = now.saturating_add(held_ns.unwrap_or(0));
        let due_ns = due_ns.saturating_add(2 * knobs.latency_ns).saturating_add(extra_ns);
        self.answered_ns = due_ns.max(self.answered_ns.saturating_add(knobs.gap_ns));
        debug_assert!(self.answered_ns >= now, "no answer is due before it has come");
        self.keep(self.answered_ns, Hidden { message: Delayed::Remote(answer), sent: None });
    }

    /// Keeps a message until `due_ns`.
    pub(crate) fn keep(&mut self, due_ns: u64, hidden: Hidden) {
        self.requests += usize::from(hidden.message.is_request());
        self.numbered += 1;
        let before = self.waiting.insert((due_ns, self.numbered), hidden);
        debug_assert!(before.is_none(), "numbers are given once");
    }

    /// Returns the next message that is due.
    pub(crate) fn take_due(&mut self) -> Option<(u64, Hidden)> {
        let entry = self.waiting.first_entry()?;
        let due_ns = entry.key().0;
        if due_ns > clock::now_ns() {
            return None;
        }
        let hidden = entry.remove();
        let request = usize::from(hidden.message.is_request());
        debug_assert!(self.requests >= request, "it was counted");
        self.requests -= request;
        debug_assert!(self.requests <= self.waiting.len(), "requests are some of all");
        Some((due_ns, hidden))
    }

    /// Takes all messages that wait.
    pub(crate) fn take_all(&mut self) -> Vec<Delayed> {
        self.requests = 0;
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let all: Vec<_> = waiting.map(|hidden| hidden.message).collect();
        debug_assert!(!self.is_waiting(), "all are taken");
        all
    }

    /// Returns true if messages wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the time at which the first message that waits is due.
    pub(crate) fn first_due_ns(&self) -> Option<u64> {
        let first = self.waiting.first_key_value().map(|(&(due_ns, _), _)| due_ns);
        debug_assert_eq!(first.is_some(), self.is_waiting(), "the first of all that wait");
        first
    }

    /// Keeps the rank busy for what receiving a message costs.
    pub(crate) fn occupy_receiver(&self, rank: EmulatedRank<'_>, message: &Delayed) {
        let (scope, class) = message.row();
        rank.occupy(self.table.get(scope, class).receive_ns);
    }
}

/// Returns the longest time that a path takes where both its ends read one clock.
fn longest_path_ns(scope: KnobScope, one_clock: bool) -> Option<u64> {
    debug_assert!(one_clock || scope != KnobScope::Shm, "processes of a node read one clock");
    let most_ns = if scope == KnobScope::Shm { MAX_SHM_NS } else { MAX_NET_NS };
    one_clock.then_some(most_ns)
}

fn class_of(kind: MessageKind) -> KnobClass {
    if kind == MessageKind::Short { KnobClass::Short } else { KnobClass::Bulk }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::split_stamp;

    /// A sender of this node.
    fn from() -> (Name, bool) {
        (Name::new(1, 0, 1), true)
    }

    fn hidden(request: bool, handler: u8) -> Hidden {
        Hidden { message: local(request, handler), sent: None }
    }

    fn local(request: bool, handler: u8) -> Delayed {
        let (kind, words, payload) = (MessageKind::Short, vec![1], Vec::new());
        let from = from().0;
        Delayed::Local(LocalMessage { from, lane: None, request, kind, handler, words, payload })
    }

    #[test]
    fn messages_come_out_when_they_are_due_and_in_their_order() {
        let mut emulation = Emulation::default();
        let now = clock::now_ns();
        emulation.keep(now, hidden(true, 2));
        emulation.keep(now, hidden(true, 3));
        emulation.keep(now.saturating_sub(1), hidden(false, 1));
        emulation.keep(u64::MAX, hidden(true, 4));
        let mut handlers = Vec::new();
        while let Some((_, taken)) = emulation.take_due() {
            let Delayed::Local(message) = taken.message else { panic!("of this node") };
            handlers.push(message.handler);
        }
        assert_eq!(handlers, [1, 2, 3]);
        assert_eq!(emulation.first_due_ns(), Some(u64::MAX));
        assert_eq!((emulation.take_all().len(), emulation.requests), (1, 0));
    }

    /// Returns a short request of another node.
    fn remote() -> Delayed {
        use clump_wire::frame::Route;
        let route = Route { from: from().0.to_bits(), to: 0, tag: 0 };
        let kind = FrameKind::Short;
        let (words, payload) = (vec![1], Default::default());
        Delayed::Remote(OwnedMessage { route, kind, handler: 1, reply: false, words, payload })
    }

    #[test]
    fn a_clock_of_another_machine_says_nothing_of_how_long_a_path_takes() {
        const LATENCY_NS: u64 = 1_000_000_000;
        let table = KnobTable::parse("L=+1s", &[Default::default(); 2]).unwrap();
        // The sender's clock is far behind, far ahead, a little behind.
        for behind in [5_000_000_000, 5_000_000_000_u64.wrapping_neg(), 1_000_000] {
            let mut emulation = Emulation { table, ..Emulation::default() };
            let now = clock::now_ns();
            let stamp = Stamp::new(now.wrapping_sub(behind), 0, 1);
            assert!(emulation.hide((from().0, false), stamp, remote()));
            let due = emulation.first_due_ns().unwrap();
            assert!(
                due >= now + LATENCY_NS,
                "clock {behind} behind: due {} ns early",
                now + LATENCY_NS - due
            );
            // On one machine it would have been polled late.
            let mut emulation = Emulation { table, ..Emulation::default() };
            assert!(emulation.hide(from(), stamp, remote()));
            assert!(emulation.first_due_ns().unwrap() < now + LATENCY_NS);
        }
    }

    #[test]
    fn requests_leave_room_for_replies() {
        let mut emulation = Emulation::default();
        for _ in 0..MAX_DELAYED {
            assert!(emulation.hide(from(), Stamp::new(0, 0, 1), local(true, 1)));
        }
        let stamp = Stamp::new(0, 0, 1);
        assert!(!emulation.hide(from(), stamp, local(true, 1)));
        assert!(emulation.hide(from(), stamp, local(false, 1)));
    }

    #[test]
    fn a_stamp_is_the_last_word() {
        let stamp = Stamp::new(clock::now_ns(), 0, 9);
        let words = [5, 6, stamp.to_word()];
        assert_eq!(split_stamp(MessageKind::Short, &words), Some((stamp, &words[..2])));
        assert_eq!(split_stamp(MessageKind::Returned, &words), None);
        assert_eq!(split_stamp(MessageKind::Short, &[]), None);
        assert_eq!(split_stamp(MessageKind::Short, &[7 << 8]), None);
    }
}
