//! The submission queue of a proxy: messages that ranks of this node hand over, to be sent to other
//! nodes.

use super::clock::{Clock, Wire, Work};
use super::close_handshakes::CloseHandshakes;
use super::forward::{Forward, Spill, stamped};
use super::monitor::Watcher;
use super::relayed::{RelayedMessage, RelayedMessages};
use super::routes::Routes;
use crate::peers::gone;
use clump_net::{Progress, Stack};
use clump_shm::bulk::SharedBytes;
use clump_shm::inbox::Inbox;
use clump_shm::lane::Peek;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::queue::Take;
use clump_shm::slot::{Header, INLINE, SlotKind};
use clump_wire::frame::{FrameHead, FrameKind, Route};
use clump_wire::{Message, OwnedMessage, Reason, SendResult};

/// Messages of one lane taken in one turn, so that no rank waits long for another.
const BUDGET: usize = 64;

/// The messages that ranks hand to a proxy.
#[derive(Debug)]
pub struct SubmissionQueue {
    inbox: Inbox<()>,
    memory: NodeMemory,
    routes: Routes,
    begun: RelayedMessages,
    scratch: Vec<u8>,
    /// Close handshakes of ranks in progress.
    pub close_handshakes: CloseHandshakes,
    /// Messages that cannot be sent, on their way back to the ranks of this node.
    pub lost: Vec<OwnedMessage>,
    /// Requests to this interface itself, of ranks of its node.
    pub own: Vec<OwnedMessage>,
    /// Number of times a message had to stay in its lane, because its channel was full.
    pub full: u64,
    /// Messages left by the last poll: a lane holds one at most, the first.
    left: Vec<Left>,
}

/// A message that stays in its lane, because its channel is full.
#[derive(Debug)]
struct Left {
    /// Its lane; `None`: the shared queue.
    lane: Option<usize>,
    peer: u32,
    head: FrameHead,
    ordered: bool,
    short: bool,
}

/// Result of taking a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakeResult {
    Yes,
    /// It has to stay in its lane.
    NoRoom,
}

impl SubmissionQueue {
    /// Opens the proxy's own endpoint, to which ranks send.
    ///
    /// # Errors
    /// Fails if address space has run out.
    pub fn open(memory: &NodeMemory, id: u32, routes: Routes) -> clump_shm::Result<Self> {
        let inbox = Inbox::open(memory, id, 0)?;
        debug_assert!(memory.own_interfaces().contains(&id), "an interface is a proxy");
        debug_assert_eq!(inbox.name(), Name::new(id, 0, 1), "ranks know a proxy by this name");
        let close_handshakes = CloseHandshakes::new(memory, id);
        let (memory, begun) = (memory.clone(), RelayedMessages::default());
        let (scratch, lost, own, left) = Default::default();
        let full = 0;
        Ok(Self { inbox, memory, routes, begun, scratch, close_handshakes, lost, own, full, left })
    }

    /// Takes the messages that ranks have handed over, as far as there is room. Returns their
    /// number.
    pub fn poll(&mut self, wire: &mut Wire<'_, impl Clock>, watcher: &mut Watcher) -> usize {
        // A doorbell that belongs to no lane was rung by a rank that writes nonsense.
        let _ = self.inbox.process_doorbells();
        self.left.clear();
        let mut hot = std::mem::take(&mut self.inbox.hot);
        let mut taken = 0;
        for lane in &mut hot {
            let mut words = [0; 2 * INLINE];
            for _ in 0..BUDGET {
                let Peek::Message(header) = lane.receiver.peek(&mut words) else { break };
                let payload = lane.receiver.payload(header);
                if self.take((&mut *wire, watcher), lane.from, header, &words, payload)
                    == TakeResult::NoRoom
                {
                    self.note_left(Some(lane.index));
                    break;
                }
                lane.receiver.advance(header);
                lane.recent = lane.recent.wrapping_add(1);
                taken += 1;
            }
        }
        debug_assert!(taken <= hot.len() * BUDGET, "no rank waits long for another");
        debug_assert!(self.inbox.hot.is_empty(), "lanes get hot between turns only");
        self.inbox.hot = hot;
        if self.inbox.anything_pending() {
            taken += self.poll_shared_queue(wire, watcher);
            self.inbox.wake_queue_senders();
        }
        self.close_handshakes.handle_arrivals(wire.stack, wire.clock);
        self.check_invariants();
        taken
    }

    /// Takes the messages that ranks without a lane have handed over.
    #[cold]
    fn poll_shared_queue(
        &mut self,
        wire: &mut Wire<'_, impl Clock>,
        watcher: &mut Watcher,
    ) -> usize {
        let memory = self.memory.clone();
        debug_assert!(self.left.iter().all(|left| left.lane.is_some()), "lanes come first");
        let dead = |rank: u32| memory.death_of(rank).is_some();
        let mut taken = 0;
        for _ in 0..BUDGET {
            let mut words = [0; 2 * INLINE];
            match self.inbox.requests.take(&mut words, dead) {
                Take::Message(message) => {
                    let from = Name::from_bits(message.source);
                    let took = self.take(
                        (&mut *wire, watcher),
                        from,
                        message.header,
                        &words,
                        message.payload,
                    );
                    if took == TakeResult::NoRoom {
                        self.note_left(None);
                        return taken;
                    }
                    self.inbox.requests.done(&message);
                    taken += 1;
                }
                Take::Skipped => {}
                Take::Empty => {
                    self.inbox.pending = [self.inbox.requests.has_message(), false];
                    return taken;
                }
            }
        }
        taken
    }

    fn take(
        &mut self,
        (wire, watcher): (&mut Wire<'_, impl Clock>, &mut Watcher),
        from: Name,
        header: Header,
        words: &[u64; 2 * INLINE],
        payload: SharedBytes,
    ) -> TakeResult {
        let words = words.get(..header.words()).unwrap_or(words);
        let mut beside = std::mem::take(&mut self.scratch);
        beside.clear();
        payload.append_to(&mut beside);
        debug_assert_eq!(beside.len(), payload.len(), "all of it was copied");
        let took = self.take_copied((wire, watcher), from, header, words, &beside);
        self.scratch = beside;
        took
    }

    fn take_copied(
        &mut self,
        (wire, watcher): (&mut Wire<'_, impl Clock>, &mut Watcher),
        from: Name,
        header: Header,
        words: &[u64],
        beside: &[u8],
    ) -> TakeResult {
        let mut spill = Spill::default();
        // Correct ranks of this node write nothing else, and only in their own name.
        let Some(forward) = Some(header)
            .filter(|header| header.kind() == SlotKind::Forwarded)
            .and_then(|header| Forward::decode(header, words, beside, &mut spill))
            .filter(|forward| Name::from_bits(forward.message.route.from).rank() == from.rank())
        else {
            return TakeResult::Yes;
        };
        let message = forward.message;
        if message.route.to == self.inbox.name().to_bits() {
            match message.kind {
                FrameKind::Ask if message.words.is_empty() => {
                    self.close_handshakes.begin_close(from.rank(), wire.stack);
                }
                // Requests of one fragment, and credit requests; ranks send it nothing else.
                FrameKind::Ask | FrameKind::Short | FrameKind::Medium => {
                    self.own.push(message.to_owned());
                }
                _ => {}
            }
            return TakeResult::Yes;
        }
        let stamp = if message.kind == FrameKind::Long { 0 } else { forward.number };
        // A fragment was counted when its message began.
        let taking = (message.kind != FrameKind::Part).then(|| watcher.on_taking(wire.clock));
        wire.clock.spend(Work::Take(message.payload.len()));
        let took = match message.kind {
            FrameKind::Long => self.begin(wire, from, &forward),
            FrameKind::Part => self.go_on(wire, from, &forward),
            _ => self.send(wire, &forward),
        };
        if took == TakeResult::NoRoom {
            let peer = self.routes.stack_of(message.route.to);
            let (head, ordered) = (message.head(), forward.ordered);
            let short = message.payload.is_empty();
            self.left.push(Left { lane: None, peer, head, ordered, short });
            self.full += 1;
        }
        match (took, taking) {
            (TakeResult::Yes, Some(taking)) => {
                let peer = self.routes.stack_of(message.route.to);
                // The clock that all processes of the machine share.
                let handed_over = stamped(stamp, watcher.shared_ns(taking));
                watcher.on_taken(wire.stack, peer, (taking, handed_over), message.payload.len());
            }
            (TakeResult::NoRoom, Some(_)) => watcher.on_left(wire.clock),
            (_, None) => {}
        }
        let noted = self.left.last().is_some_and(|left| left.lane.is_none());
        debug_assert!(took == TakeResult::Yes || noted, "a message that stays is noted");
        took
    }

    fn send(&mut self, wire: &mut Wire<'_, impl Clock>, forward: &Forward<'_>) -> TakeResult {
        let message = &forward.message;
        let peer = self.routes.stack_of(message.route.to);
        match wire.stack.relay(|| wire.clock.ticked_ns(), peer, message, forward.ordered) {
            SendResult::Sent => TakeResult::Yes,
            SendResult::Full => TakeResult::NoRoom,
            SendResult::Refused(why) => {
                self.lose(message.to_owned(), why);
                TakeResult::Yes
            }
        }
    }

    fn begin(
        &mut self,
        wire: &mut Wire<'_, impl Clock>,
        from: Name,
        forward: &Forward<'_>,
    ) -> TakeResult {
        let message = &forward.message;
        let &[_, total, ..] = message.words else { return TakeResult::Yes };
        let Ok(total) = usize::try_from(total) else { return TakeResult::Yes };
        let (ordered, progress) = (forward.ordered, Progress::default());
        let beginning = Message { payload: &[], ..*message }.to_owned();
        let begun = RelayedMessage { message: beginning, ordered, total, done: 0, progress };
        let key = (from.rank(), forward.number);
        if let Some(same) = self.begun.remove(key) {
            self.abandon(wire, &same); // no correct rank gives two the same number
        }
        if !self.begun.has_room(from.rank()) {
            return TakeResult::Yes; // no correct rank begins so many
        }
        self.send_fragment(wire, key, begun, message.payload)
    }

    fn go_on(
        &mut self,
        wire: &mut Wire<'_, impl Clock>,
        from: Name,
        forward: &Forward<'_>,
    ) -> TakeResult {
        let key = (from.rank(), forward.number);
        match self.begun.remove(key) {
            Some(begun) => self.send_fragment(wire, key, begun, forward.message.payload),
            // Its message has been returned already.
            None => TakeResult::Yes,
        }
    }

    /// Sends the next fragment of a long message.
    fn send_fragment(
        &mut self,
        wire: &mut Wire<'_, impl Clock>,
        key: (u32, u32),
        mut begun: RelayedMessage,
        bytes: &[u8],
    ) -> TakeResult {
        let Some(end) = begun.done.checked_add(bytes.len()).filter(|&end| end <= begun.total)
        else {
            self.abandon(wire, &begun); // more than announced
            return TakeResult::Yes;
        };
        debug_assert!(begun.done <= end, "fragments follow each other");
        debug_assert!(self.begun.has_room(key.0), "it had room when it began");
        let RelayedMessage { message, ordered, total, done, progress } = &mut begun;
        let peer = self.routes.stack_of(message.route.to);
        let fragment = Message { payload: bytes, ..message.message() };
        let place = (*total, *done);
        let now = || wire.clock.ticked_ns();
        let pushed = wire.stack.relay_long(now, peer, (&fragment, *ordered), place, progress);
        match pushed {
            SendResult::Sent => {
                begun.done = end;
                if end < begun.total {
                    self.begun.insert(key, begun);
                }
                TakeResult::Yes
            }
            SendResult::Full => {
                if begun.done > 0 {
                    self.begun.insert(key, begun);
                }
                TakeResult::NoRoom
            }
            SendResult::Refused(why) => {
                self.lose(begun.message, why);
                TakeResult::Yes
            }
        }
    }

    /// Ends a message of which no further fragment will be sent.
    #[cold]
    fn abandon(&self, wire: &mut Wire<'_, impl Clock>, begun: &RelayedMessage) {
        let peer = self.routes.stack_of(begun.message.route.to);
        wire.stack.abandon_long(|| wire.clock.ticked_ns(), peer, begun.progress);
    }

    /// Returns a message whose target's node is lost to its sender.
    #[cold]
    fn lose(&mut self, message: OwnedMessage, why: Reason) {
        let back = match message.kind {
            // No report of consumption will ever arrive: all of it counts as consumed.
            FrameKind::Ask => {
                let Route { from, to, .. } = message.route;
                let route = Route { from: to, to: from, tag: 0 };
                Some(OwnedMessage { kind: FrameKind::Credit, route, ..message })
            }
            _ => message.returned(why),
        };
        self.lost.extend(back);
    }

    /// Gives up the messages that ranks had begun that are gone.
    pub fn drop_lost_ranks(&mut self, wire: &mut Wire<'_, impl Clock>) {
        let Self { begun, memory, .. } = self;
        let left = begun.take_of(|rank| memory.peer(rank).is_none_or(|rank| gone(rank).is_some()));
        for begun in left {
            debug_assert!(begun.done < begun.total, "the rank has not handed over all of it");
            self.abandon(wire, &begun);
        }
        self.inbox.tick();
        self.inbox.give_back_all();
    }

    /// Arms notification on all lanes, before a sleep is announced.
    pub fn arm_notifications(&mut self) {
        self.inbox.arm_all_notifications();
    }

    /// Notes the lane of the message that was left last.
    #[cold]
    fn note_left(&mut self, lane: Option<usize>) {
        let Some(left) = self.left.last_mut() else {
            clump_bug::bug!("a message that has no room is noted");
            return;
        };
        debug_assert_eq!(left.lane, None, "a message is left in one lane");
        left.lane = lane;
    }

    /// Checks that each lane has left one message at most, and the messages that have begun.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.begun.check_invariants();
        debug_assert!(self.left.len() as u64 <= self.full, "messages that stay are counted");
        for (at, left) in self.left.iter().enumerate() {
            let mut others = self.left.iter().skip(at + 1);
            debug_assert!(others.all(|other| other.lane != left.lane), "a lane leaves its first");
        }
        let shared = self.left.iter().rev().skip(1).all(|left| left.lane.is_some());
        debug_assert!(shared, "the shared queue is polled last");
    }

    /// Returns true if anything that can be taken has arrived meanwhile; called after the
    /// announcement. A message left because its channel is full waits for the channel: for a packet
    /// or a timer, which end a sleep by themselves.
    pub fn anything_waiting(&mut self, stack: &Stack) -> bool {
        if !self.inbox.anything_waiting() {
            return false;
        }
        let Self { inbox, left, .. } = self;
        let payload = |short: bool| if short { &[][..] } else { &[0][..] };
        let stays = |one: &Left| {
            let FrameHead { kind, reply, handler, route, .. } = one.head;
            let payload = payload(one.short);
            let message = Message { kind, reply, handler, route, words: &[], payload };
            !stack.would_take(one.peer, &message, one.ordered)
        };
        let is_left = |lane: Option<usize>| left.iter().any(|one| one.lane == lane && stays(one));
        inbox.block().doorbell().rung()
            || (inbox.anything_pending() && !(inbox.pending == [true, false] && is_left(None)))
            || !inbox.hot.iter().all(|lane| is_left(Some(lane.index)))
    }
}
