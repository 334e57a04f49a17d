//! Emulation of a slower network: delays that an endpoint adds to its messages while the
//! laboratory's knobs are turned (docs/adr/0038).
//!
//! A message that is delayed is sent to handler 0, otherwise used for returned messages alone, and
//! carries a [`Stamp`] as its last word. So no transport depends on it, and a receiver checks for a
//! stamp only where a message without a handler would be returned.

use crate::interfaces::{Interfaces, Reservations};
use crate::message::{Handler, MessageKind, OutgoingMessage};
use clump_loggp::delay::{ArrivalClock, Stamp};
use clump_loggp::knobs::TABLE_WORDS;
use clump_loggp::{AnswerQueue, FlightWindow, KnobClass, KnobScope, KnobTable};
use clump_os::clock;
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

    /// Adds the word of virtual time to a message: its record, and its handler.
    pub(crate) fn numbered(message: &OutgoingMessage<'_>, record: u64) -> Self {
        let mut words = [0; MAX_WORDS];
        let last = record << 8 | u64::from(message.handler.0);
        let given = message.words.iter().copied().chain([last]);
        words.iter_mut().zip(given).for_each(|(to, word)| *to = word);
        debug_assert!(message.words.len() < MAX_WORDS, "two slots hold a message and its stamp");
        Self { words, count: message.words.len() + 1, sent_ns: 0 }
    }

    /// Returns `message` as it is sent.
    pub(crate) fn message<'a>(&'a self, message: &OutgoingMessage<'a>) -> OutgoingMessage<'a> {
        let words = self.words.get(..self.count).unwrap_or_default();
        debug_assert!(self.count > 0 && self.count <= MAX_WORDS, "a stamp at least");
        debug_assert_eq!(words.len(), message.words.len() + 1, "the stamp comes last");
        OutgoingMessage { handler: Handler(0), words, ..*message }
    }
}

/// A message that waits until it is due.
#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) message: Delayed,
    /// The time in its stamp; interfaces give none.
    pub(crate) sent: Option<u32>,
    /// True for a further fragment of an answer, whose reception costs nothing more.
    pub(crate) continues: bool,
}

/// A note about a request to an interface, which handles no stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestNote {
    /// The next request is for a further fragment of what the last one was for: both are one
    /// message, so it costs neither overhead nor gap.
    NextContinues,
    /// The request just sent is answered by a message whose first word is this: where it was held
    /// back, its answer is hidden for as long.
    AnsweredBy(u64),
}

/// The delay of a request to an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HeldRequest {
    /// Time for which it was held back.
    held_ns: u64,
    /// True if it requested a further fragment of what the request before it did.
    continues: bool,
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
    /// Injections of messages that found no room afterwards, and are tried again.
    reserved: Reservations,
    /// Requests in flight by path, where a capacity is set.
    flights: [FlightWindow; 2],
    /// Time before which not all requests to this node can have been handled.
    handled_ns: u64,
    answers: AnswerQueue,
    /// True if the next request to an interface continues the one before it.
    continues: bool,
    /// The last request to an interface.
    held: HeldRequest,
    /// Requests to interfaces that are not answered yet, by the first word of the answer.
    held_answers: HashMap<u64, HeldRequest>,
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

    /// Keeps the rank busy for what sending a request to `to` costs, and injects it, once however
    /// often it is tried. `None` if the interface takes no more now. `to_interface`: it is for a
    /// node's interface, which does not handle stamps; its latency is added to the answer.
    pub(crate) fn request(
        &mut self,
        rank: EmulatedRank<'_>,
        (to, message): (Name, &OutgoingMessage<'_>),
        scope: KnobScope,
        to_interface: bool,
    ) -> Option<StampedWords> {
        let class = if to_interface { KnobClass::OneSided } else { class_of(message.kind) };
        let knobs = *self.table.get(scope, class);
        debug_assert!(message.kind != MessageKind::Returned, "it goes back without delay");
        debug_assert!(message.handler.0 != 0, "the handler is in the stamp");
        let end_ns = match self.reserved.find(to, message) {
            Some(end_ns) => end_ns,
            None => {
                let flights = &mut self.flights[scope as usize];
                let window = knobs.capacity > 0;
                if window && !flights.has_room(clock::now_ns(), knobs.capacity) {
                    return None;
                }
                let continues = to_interface && self.continues;
                let part = (message.payload.len(), continues);
                let injection = rank.interfaces.inject_if_room(scope, &knobs, part)?;
                if window {
                    flights.add(injection.end_ns.saturating_add(2 * knobs.latency_ns));
                }
                self.reserved.keep(to, message, injection.end_ns);
                if to_interface {
                    let held_ns = injection.end_ns.saturating_sub(clock::now_ns());
                    self.held = HeldRequest { held_ns, continues };
                    self.continues = false;
                }
                rank.occupy(if continues { 0 } else { knobs.send_ns });
                injection.end_ns
            }
        };
        debug_assert!(end_ns > 0, "it was injected");
        debug_assert!(self.reserved.find(to, message).is_some(), "another attempt finds it");
        self.note_end(scope, end_ns.saturating_add(knobs.latency_ns));
        Some(StampedWords::of(message, end_ns))
    }

    /// Does the same with a reply, for which there is always room.
    pub(crate) fn reply(
        &mut self,
        rank: EmulatedRank<'_>,
        message: &OutgoingMessage<'_>,
        scope: KnobScope,
    ) -> StampedWords {
        let knobs = *self.table.get(scope, class_of(message.kind));
        debug_assert!(message.kind != MessageKind::Returned, "it goes back without delay");
        let part = (message.payload.len(), false);
        let injection = rank.interfaces.inject(scope, &knobs, part);
        debug_assert!(injection.end_ns >= injection.at_ns, "bytes take time");
        rank.occupy(knobs.send_ns);
        self.note_end(scope, injection.end_ns.saturating_add(knobs.latency_ns));
        StampedWords::of(message, injection.end_ns)
    }

    /// Notes that a message can be handled from `due_ns` on.
    fn note_end(&mut self, scope: KnobScope, due_ns: u64) {
        debug_assert!(due_ns > 0, "the clock runs");
        if scope == KnobScope::Shm {
            self.handled_ns = self.handled_ns.max(due_ns);
            debug_assert!(!self.is_past() || due_ns <= clock::now_ns(), "it can be handled then");
        }
    }

    /// Returns true if all that was sent to this node can have been handled by now.
    pub(crate) fn is_past(&self) -> bool {
        self.handled_ns == 0 || clock::now_ns() >= self.handled_ns
    }

    /// Records that a request was sent, has begun, or is given up: it is not tried again.
    pub(crate) fn sent(&mut self, to: Name, message: &OutgoingMessage<'_>) {
        self.reserved.drop(to, message);
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
        let sent = Some(stamp.sent_units());
        debug_assert!(due_ns >= stamp.held_ns, "it is held back for so long");
        self.keep(due_ns, Hidden { message, sent, continues: false });
        debug_assert!(self.is_waiting(), "it waits, or is due at once");
        true
    }

    /// Takes a note about a request to an interface.
    pub(crate) fn note_request(&mut self, note: RequestNote) {
        debug_assert!(self.on, "nothing is held back, and nothing costs anything, otherwise");
        match note {
            RequestNote::NextContinues => self.continues = true,
            RequestNote::AnsweredBy(name) => {
                debug_assert_ne!(name, 0, "0 names no request");
                let held = std::mem::take(&mut self.held);
                if held != HeldRequest::default() {
                    self.held_answers.insert(name, held);
                }
            }
        }
    }

    /// Hides the answer of an interface: as long as its request was held back, for the latency of
    /// both directions, and behind the bytes of the answers before it.
    pub(crate) fn hide_answer(&mut self, answer: OwnedMessage) {
        let knobs = self.table.get(KnobScope::Net, KnobClass::OneSided);
        debug_assert!(answer.reply, "interfaces answer");
        let held = answer.words.first().and_then(|name| self.held_answers.remove(name));
        let HeldRequest { held_ns, continues } = held.unwrap_or_default();
        let times = (clock::now_ns(), held_ns);
        let due_ns = self.answers.due_ns(knobs, times, (answer.payload.len(), continues));
        debug_assert!(due_ns >= times.0, "no answer is due before it has come");
        self.keep(due_ns, Hidden { message: Delayed::Remote(answer), sent: None, continues });
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
        debug_assert!(self.on || self.table.is_off(), "settings that are turned");
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
mod tests;
