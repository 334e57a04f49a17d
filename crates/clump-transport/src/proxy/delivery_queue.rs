//! The delivery queues of an interface: messages from other nodes, put into the lanes of this
//! node's endpoints as by a rank of this node.

use super::clock::{Clock, Wire, Work};
use super::close_handshakes::control_endpoint_name;
use super::forward::{Forward, Spill};
use crate::peers::gone;
use clump_shm::block::Openness;
use clump_shm::lane::CreditRequest;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::path::Path;
use clump_shm::slot::{Header, MAX_WORDS};
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage, Reason};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// A message that found no room in an endpoint's lane.
#[derive(Debug)]
struct Waiting {
    /// Number of messages that had to wait before it.
    number: u64,
    /// The rank that sent it.
    from: u32,
    header: Header,
    words: [u64; MAX_WORDS],
    payload: Vec<u8>,
}

/// The delivery queue of an endpoint of this node.
#[derive(Debug)]
struct EndpointDelivery {
    name: Name,
    /// The path to it; none before it is open.
    path: Option<Path>,
    waiting: VecDeque<Waiting>,
}

/// Returns true if a message may not enter an open endpoint.
fn refuses(path: &Path, forward: &Forward<'_>) -> bool {
    !forward.message.reply && path.is_open() && !path.admits(forward.message.route.tag)
}

impl EndpointDelivery {
    /// Returns true if the endpoint is open, and a message may not enter it.
    fn refuses(&self, forward: &Forward<'_>) -> bool {
        self.path.as_ref().is_some_and(|path| refuses(path, forward))
    }

    /// Delivers the waiting messages, as far as there is room, and tells `questions` of each.
    /// Requests that arrived before the endpoint was open have not shown their tags yet: those that
    /// may not enter go into `refused`.
    fn flush(&mut self, refused: &mut Vec<OwnedMessage>, questions: &mut CreditRequests) {
        while let Some(first) = self.waiting.front() {
            let Some(path) = &mut self.path else { return };
            let Waiting { header, words, payload, .. } = first;
            let mut spill = Spill::default();
            let decoded = Forward::decode(*header, words, payload, &mut spill);
            debug_assert!(decoded.is_some(), "what waits was encoded here");
            if let Some(forward) = decoded
                && refuses(path, &forward)
            {
                refused.push(forward.message.to_owned());
            } else if !push(path, *header, words, payload) {
                return;
            }
            questions.on_gone(first.from, first.number);
            self.waiting.pop_front();
        }
    }
}

/// The delivery queues of all endpoints of a node.
#[derive(Debug)]
pub struct DeliveryQueue {
    memory: NodeMemory,
    /// Name of this interface as a sender on its node.
    me: Name,
    all: HashMap<u64, EndpointDelivery>,
    /// Messages that wait for room, of all endpoints.
    waiting: usize,
    /// Total number of messages that had to wait.
    came: u64,
    /// Buffer in which messages with many words are assembled.
    beside: Vec<u8>,
    questions: CreditRequests,
}

impl DeliveryQueue {
    /// Creates the queue of the interface that sends under the name `me`.
    pub fn new(memory: &NodeMemory, me: Name) -> Self {
        debug_assert!(memory.own_interfaces().contains(&me.rank()), "interfaces deliver");
        Self {
            memory: memory.clone(),
            me,
            all: HashMap::new(),
            waiting: 0,
            came: 0,
            beside: Vec::new(),
            questions: CreditRequests::default(),
        }
    }

    /// Returns true if messages wait for room.
    pub fn wants_room(&self) -> bool {
        self.waiting > 0
    }

    /// Returns the number of messages that wait now, and of all that ever had to.
    pub fn held(&self) -> (usize, u64) {
        (self.waiting, self.came)
    }

    /// Delivers a message from another node to its endpoint.
    #[inline]
    pub fn deliver(&mut self, wire: &mut Wire<'_, impl Clock>, message: &Message<'_>) {
        wire.clock.spend(Work::Bring(message.payload.len()));
        let route = message.route;
        // The payload of a long message is in its segment.
        let payload = if message.kind == FrameKind::Long { &[] } else { message.payload };
        let message = Message { payload, ..*message };
        let forward = Forward { message, ordered: false, number: 0 };
        let Self { memory, me, all, waiting, came, beside, .. } = self;
        let encoded = forward.encode(beside);
        let Some((header, words, bytes)) = encoded else {
            clump_bug::bug!("packets have no more words than fit");
            return;
        };
        let Some((delivery_queue, is_new)) = endpoint_delivery(memory, *me, all, route.to) else {
            return return_to_sender(wire, &message, Reason::NoSuchEndpoint);
        };
        // A message that was admitted because its endpoint was awaited has not shown its tag.
        if is_new && delivery_queue.refuses(&forward) {
            return return_to_sender(wire, &message, Reason::BadTag);
        }
        let ready = match &mut delivery_queue.path {
            Some(path) if !path.is_open() => {
                return return_to_sender(wire, &message, Reason::EndpointGone);
            }
            Some(path) if delivery_queue.waiting.is_empty() => push(path, header, &words, bytes),
            _ => false,
        };
        if !ready && message.kind == FrameKind::Returned && delivery_queue.path.is_none() {
            return; // every sender has an endpoint
        }
        if !ready {
            let (number, from) = (*came, Name::from_bits(route.from).rank());
            let last = delivery_queue.waiting.back().map(|last| last.number);
            debug_assert!(last.is_none_or(|last| last < number), "messages wait in order");
            let payload = bytes.to_vec();
            delivery_queue.waiting.push_back(Waiting { number, from, header, words, payload });
            *came += 1;
            *waiting += 1;
            debug_assert!(*waiting as u64 <= *came, "what waits has come");
        }
    }

    /// Asks endpoints that have no room to wake this interface once they have; for one that has
    /// announced itself asleep.
    pub fn request_room(&self) {
        let full = self.all.values().filter(|delivery_queue| !delivery_queue.waiting.is_empty());
        for path in full.filter_map(|delivery_queue| delivery_queue.path.as_ref()) {
            path.request_credit(CreditRequest::Room);
        }
    }

    /// Returns true if messages wait for endpoints that are not open yet, which do not ring when
    /// they open.
    pub fn wants_opening(&self) -> bool {
        self.all.values().any(|delivery_queue| {
            delivery_queue.path.is_none() && !delivery_queue.waiting.is_empty()
        })
    }

    /// There may be room again, and endpoints may have opened.
    pub fn handle_room(&mut self, wire: &mut Wire<'_, impl Clock>) {
        let Self { memory, me, all, waiting, questions, .. } = self;
        let (mut refused, before) = (Vec::new(), *waiting);
        *waiting = 0;
        for delivery_queue in
            all.values_mut().filter(|delivery_queue| !delivery_queue.waiting.is_empty())
        {
            if delivery_queue.path.is_none() {
                delivery_queue.path = route_to(memory, *me, delivery_queue.name);
            }
            delivery_queue.flush(&mut refused, questions);
            *waiting += delivery_queue.waiting.len();
        }
        debug_assert!(*waiting + refused.len() <= before, "each is delivered, refused, or waits");
        for queued in refused {
            wire.stack.return_queued(|| wire.clock.ticked_ns(), [queued], Reason::BadTag);
        }
        debug_assert!(*waiting as u64 <= self.came, "what waits came before");
        self.answer_credit_requests(wire);
    }

    /// Handles the question of another proxy: when will all messages that have arrived so far from
    /// a rank of its node lie in the lanes of endpoints?
    pub fn handle_credit_request(
        &mut self,
        wire: &mut Wire<'_, impl Clock>,
        from: u64,
        token: u64,
        rank: u32,
    ) {
        let waiting = self.all.values().flat_map(|delivery_queue| &delivery_queue.waiting);
        let left = waiting.filter(|waiting| waiting.from == rank).count();
        debug_assert!(left <= self.waiting, "messages of one rank are some of all");
        self.questions.0.push(PeerCreditRequest { from, token, rank, before: self.came, left });
        self.answer_credit_requests(wire);
        self.check_invariants();
    }

    /// Answers questions of other proxies whose messages have been delivered.
    fn answer_credit_requests(&mut self, wire: &mut Wire<'_, impl Clock>) {
        if self.questions.0.is_empty() {
            return;
        }
        let me = control_endpoint_name(self.me.rank()).to_bits();
        for PeerCreditRequest { from, token, .. } in
            self.questions.0.extract_if(.., |asked| asked.left == 0)
        {
            wire.stack.notify_endpoint(
                || wire.clock.ticked_ns(),
                &Message::answer((FrameKind::Credit, 0), (me, from), (&[token], &[])),
            );
        }
    }

    /// Returns to sender the messages that endpoints that have closed, and ranks that are gone,
    /// have not read.
    pub fn return_unread(&mut self, wire: &mut Wire<'_, impl Clock>) {
        let Self { memory, all, waiting, questions, .. } = self;
        all.retain(|_, delivery_queue| {
            let why = memory.peer(delivery_queue.name.rank()).and_then(gone);
            let open = |path: &Path| path.openness() == Openness::Open;
            if delivery_queue.path.as_ref().is_none_or(open) && why.is_none() {
                return true;
            }
            let why = why.unwrap_or(Reason::EndpointGone);
            let mut unread = Vec::new();
            if let Some(path) = &mut delivery_queue.path {
                path.take_back(|header, words, payload| {
                    unread.push((header, words.to_vec(), payload.to_vec()));
                });
                path.abandon();
            }
            for Waiting { number, from, header, words, payload } in delivery_queue.waiting.drain(..)
            {
                debug_assert!(*waiting > 0, "waiting messages are counted");
                *waiting -= 1;
                questions.on_gone(from, number);
                unread.push((header, words[..header.words()].to_vec(), payload));
            }
            for (header, words, payload) in &unread {
                let mut spill = Spill::default();
                if let Some(forward) = Forward::decode(*header, words, payload, &mut spill) {
                    return_to_sender(wire, &forward.message, why);
                }
            }
            false
        });
        self.answer_credit_requests(wire);
        self.check_invariants();
    }

    /// Checks the count of waiting messages, their order, and the questions about them.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let all = || self.all.values().flat_map(|delivery_queue| &delivery_queue.waiting);
        debug_assert_eq!(all().count(), self.waiting, "waiting messages are counted");
        debug_assert!(all().all(|waiting| waiting.number < self.came), "numbers were given out");
        for (to, EndpointDelivery { name, path, waiting }) in &self.all {
            debug_assert_eq!(name.to_bits(), *to, "a queue is its endpoint's");
            debug_assert!(self.memory.is_local(name.rank()), "of this node");
            debug_assert!(path.as_ref().is_none_or(|path| path.to() == *name), "so is its path");
            let numbers = waiting.iter().map(|waiting| waiting.number);
            debug_assert!(numbers.is_sorted_by(|a, b| a < b), "messages wait in order");
        }
        for PeerCreditRequest { rank, before, left, .. } in &self.questions.0 {
            let about = |waiting: &&Waiting| waiting.from == *rank && waiting.number < *before;
            debug_assert_eq!(all().filter(about).count(), *left, "so many of them still wait");
            debug_assert!(*left > 0, "a question is answered once none waits");
        }
    }
}

/// Returns the delivery queue of the endpoint of that name, and true if its path is new; `None` if
/// it cannot be one of this node.
#[inline]
fn endpoint_delivery<'a>(
    memory: &NodeMemory,
    me: Name,
    all: &'a mut HashMap<u64, EndpointDelivery>,
    to: u64,
) -> Option<(&'a mut EndpointDelivery, bool)> {
    let delivery_queue = match all.entry(to) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let name = Name::from_bits(to);
            if !memory.is_local(name.rank()) {
                return None;
            }
            new.insert(EndpointDelivery { name, path: None, waiting: VecDeque::new() })
        }
    };
    debug_assert_eq!(delivery_queue.name.to_bits(), to, "a queue is its endpoint's");
    let was_open = delivery_queue.path.is_some();
    if !was_open {
        delivery_queue.path = route_to(memory, me, delivery_queue.name);
    }
    let is_new = !was_open && delivery_queue.path.is_some();
    Some((delivery_queue, is_new))
}

/// Returns the path to an endpoint; none while it is awaited. One that closes meanwhile has a path
/// that is not open, which is looked at before anything is sent.
#[cold]
fn route_to(memory: &NodeMemory, me: Name, name: Name) -> Option<Path> {
    debug_assert!(memory.is_local(name.rank()), "only endpoints of this node have lanes here");
    let block = memory.endpoint_block(name.rank(), usize::from(name.index())).ok()?;
    if block.openness(name.generation()) == Openness::Awaited {
        return None;
    }
    // Nothing is answered on these lanes; they are lanes of requests all the same.
    Path::for_requests(memory, me, name, Some(0)).ok()
}

/// Returns a message that its endpoint will never read to its sender.
#[cold]
fn return_to_sender(wire: &mut Wire<'_, impl Clock>, message: &Message<'_>, why: Reason) {
    wire.stack.return_queued(|| wire.clock.ticked_ns(), [message.to_owned()], why);
}

fn push(path: &mut Path, header: Header, words: &[u64; MAX_WORDS], payload: &[u8]) -> bool {
    let words = words.get(..header.words()).unwrap_or(words);
    debug_assert_eq!(header.payload() as usize, payload.len(), "the header tells the length");
    path.push_any(header, words, payload).is_ok()
}

/// Question of another proxy: when have the messages of a rank of its node been delivered?
#[derive(Debug)]
struct PeerCreditRequest {
    /// Name of the proxy that asks, and its token for the question.
    from: u64,
    token: u64,
    rank: u32,
    /// Number of messages that had had to wait by then.
    before: u64,
    /// Number of the rank's messages among them that still wait.
    left: usize,
}

#[derive(Debug, Default)]
struct CreditRequests(Vec<PeerCreditRequest>);

impl CreditRequests {
    /// Notes that a message no longer waits: its number and its rank.
    fn on_gone(&mut self, rank: u32, number: u64) {
        let about = |asked: &&mut PeerCreditRequest| asked.rank == rank && number < asked.before;
        for asked in self.0.iter_mut().filter(about) {
            debug_assert!(asked.left > 0, "what still waited was counted");
            asked.left = asked.left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_about_one_rank_and_what_had_come_by_then() {
        let asked = |rank, left| PeerCreditRequest { from: 1, token: 2, rank, before: 5, left };
        let mut questions = CreditRequests(vec![asked(3, 2), asked(4, 1)]);
        questions.on_gone(3, 4);
        questions.on_gone(3, 5);
        questions.on_gone(7, 1);
        assert_eq!(questions.0.iter().map(|asked| asked.left).collect::<Vec<_>>(), [1, 1]);
        questions.on_gone(3, 0);
        assert_eq!(questions.0.iter().map(|asked| asked.left).collect::<Vec<_>>(), [0, 1]);
    }
}
