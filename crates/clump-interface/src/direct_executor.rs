//! The engine of a node without an interface, where time is virtual: requests are messages to an
//! endpoint, and so are answers.

use crate::engine::{Engine, ReplySink};
use crate::memory::NodeSegments;
use crate::service::Services;
use clump_onesided::protocol::TAG;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, OwnedMessage, Reason, SendResult};

/// Bytes of requests that an endpoint may have unconsumed: lanes bound them.
const CREDIT: u64 = 1 << 40;

/// The executor of one-sided operations of a virtual node.
#[derive(Debug)]
pub struct DirectExecutor {
    engine: Engine<NodeSegments>,
    name: Name,
    answers: Answers,
}

/// Answers that wait to be sent.
#[derive(Debug, Default)]
struct Answers(Vec<OwnedMessage>);

impl ReplySink for Answers {
    fn answer(&mut self, answer: &Message<'_>) -> bool {
        debug_assert!(answer.handler != 0, "requesters have handlers from 1");
        self.0.push(answer.to_owned());
        true
    }

    /// Does nothing: a lane that is full says so by itself.
    fn report(&mut self, _: Name, _: [u64; 2]) {}

    fn ask(&mut self, _: u32, _: u8, _: &[u64], _: &[u8]) -> SendResult {
        SendResult::Refused(Reason::NoSuchEndpoint)
    }
}

impl DirectExecutor {
    /// Creates the executor of that name, which works on all of `memory`.
    pub fn new(memory: &NodeMemory, name: Name) -> Self {
        let ranks = memory.interface_id(0);
        debug_assert!(name.rank() < ranks, "its endpoint is a rank's");
        let engine = Engine::new(name, NodeSegments::new(memory.clone()), ranks, CREDIT);
        let engine = engine.with_services(Services::default(), ranks);
        Self { engine, name, answers: Answers::default() }
    }

    /// Executes a request of an endpoint.
    pub fn handle(&mut self, from: Name, handler: u8, words: &[u64], payload: &[u8]) {
        let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
        let route = Route { from: from.to_bits(), to: self.name.to_bits(), tag: TAG };
        let request = Message::request((kind, handler), route, (words, payload));
        debug_assert!(request.is_request(), "what it sends is answered by none");
        self.engine.handle_request(&request, &mut self.answers);
        self.end_waits();
    }

    /// Takes in that ranks of the node may have changed any word.
    pub fn note_changes(&mut self) {
        if self.engine.has_watches() {
            self.engine.handle_changes(u64::MAX, &mut self.answers);
        }
        self.end_waits();
    }

    fn end_waits(&mut self) {
        if self.engine.has_waits() {
            self.engine.handle_waits(&mut self.answers);
        }
        debug_assert!(!self.engine.wants_room(), "answers are taken at once");
    }

    /// Takes the first answer, if it goes to `to`.
    pub fn take_answer_to(&mut self, to: Name) -> Option<OwnedMessage> {
        let first = self.answers.0.iter().position(|answer| answer.route.to == to.to_bits())?;
        debug_assert!(first < self.answers.0.len(), "one of them");
        Some(self.answers.0.remove(first))
    }

    /// Takes all answers, in order.
    pub fn take_answers(&mut self) -> Vec<OwnedMessage> {
        std::mem::take(&mut self.answers.0)
    }
}
