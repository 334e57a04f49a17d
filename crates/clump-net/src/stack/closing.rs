//! Closing: peers that are lost or close, endpoints that close, and this stack's own end.

use super::Stack;
use crate::connection::Outgoing;
use crate::queued_message::{Disposition, QueuedMessage};
use clump_proto::Nanos;
use clump_wire::PacketKind;
use clump_wire::frame::{FrameHead, FrameKind, Route};
use clump_wire::{Reason, SendResult};

impl Stack {
    /// Gives up a peer that is lost or has finalized: messages that it did not acknowledge are
    /// returned, and so is every message to it from now on.
    pub fn lose(&mut self, peer: u32, why: Reason) {
        let known = self.peers.introduced(peer, &mut self.transmitter);
        let Some(known) = known.filter(|known| known.lost.is_none()) else { return };
        known.lost = Some(why);
        debug_assert!(!known.is_open(), "nothing is sent to it any more");
        for flow in self.flows.towards(peer) {
            flow.on_peer_lost();
        }
        let Some(connection) = known.connection.as_deref_mut() else { return };
        for unsent in connection.take_undelivered(&known.path.sealer) {
            let FrameHead { kind, reply, handler, route, .. } = unsent.head;
            if kind == FrameKind::Returned {
                continue; // its own message, being returned to it
            }
            debug_assert!(kind != FrameKind::Part, "messages come back whole");
            let why = if reply { Reason::ReplyRejected } else { why };
            let sort = Disposition::Lost(kind, why);
            let (words, payload) = (unsent.words, unsent.payload);
            let message = QueuedMessage { sort, reply, handler, route, words, payload };
            if let Ok(index) = self.deliveries.endpoints.admit(route.from, None) {
                self.deliveries.queue(index, message);
            }
        }
    }

    /// Closes an endpoint: messages that wait for it are returned to their senders.
    pub fn close_endpoint(&mut self, now: impl Fn() -> Nanos, index: u8, name: u64) {
        let mut queued = self.deliveries.take_all(index);
        // Messages that wait for an earlier one would be lost if this stack closed before that
        // came.
        for at in 0..self.peers.connected_count() {
            let connected = self.peers.connected_mut(at);
            if let Some(connection) = connected.and_then(|peer| peer.connection.as_deref_mut()) {
                queued.extend(connection.take_ordered_for(name));
            }
        }
        self.return_queued(now, queued);
        debug_assert!(!self.deliveries.has_queued(index), "nothing waits for it");
        self.flows.forget(name);
        debug_assert!(!self.deliveries.has_returns(), "what is refused has been returned");
    }

    /// Accepts nothing more from now on, and tells every peer which packets arrived, again where
    /// that is due. To be called again, with time and packets passing, until [`Stack::is_closed`];
    /// before the first call, [`Stack::is_quiet`] should hold.
    pub fn close(&mut self, now: Nanos) {
        self.closed = true;
        let Self { peers, transmitter, schedule, .. } = self;
        for at in 0..peers.connected_count() {
            let Some(known) = peers.connected_mut(at).filter(|known| known.is_open()) else {
                continue;
            };
            if known.close_handshake.is_due(now)
                && let Some((connection, mut sink)) = known.split(transmitter, schedule)
            {
                connection.send_plain(now, PacketKind::Close, &mut sink);
            }
        }
    }

    /// Returns true if every peer knows that this stack is closed, or is lost.
    pub fn is_closed(&self) -> bool {
        self.closed
            && self.peers.talking().all(|(_, peer)| !peer.is_open() || peer.close_handshake.seen)
    }

    /// Returns to their senders messages that were handed over and not handled.
    pub fn return_queued(
        &mut self,
        now: impl Fn() -> Nanos,
        queued: impl IntoIterator<Item = QueuedMessage>,
    ) {
        for message in queued {
            self.return_to_sender(&now, &message, Reason::EndpointGone);
        }
    }

    /// Returns to its sender a message that was handed over and that will not be handled.
    pub fn return_queued_for(
        &mut self,
        now: impl Fn() -> Nanos,
        queued: &QueuedMessage,
        why: Reason,
    ) {
        self.return_to_sender(&now, queued, why);
    }

    /// Returns to their senders the messages that were refused while a packet was handled.
    #[cold]
    pub(super) fn send_returns(&mut self, now: &impl Fn() -> Nanos) {
        for (message, refusal) in self.deliveries.take_returns() {
            self.return_to_sender(now, &message, refusal);
        }
        debug_assert!(!self.deliveries.has_returns(), "a returned message is not refused here");
    }

    /// Returns a message to its sender, with the reason in front.
    fn return_to_sender(
        &mut self,
        now: &impl Fn() -> Nanos,
        message: &QueuedMessage,
        refusal: Reason,
    ) {
        let ask = message.sort == Disposition::Message(FrameKind::Ask);
        if ask && refusal == Reason::PeerLost {
            // No endpoint will ever report how much was consumed: it is taken to be all.
            return self.push_back(now, message, FrameKind::Credit, &message.words, &[]);
        }
        let Some(words) = message.on_its_way_back(refusal) else { return };
        debug_assert!(words.len() == message.words.len() + 1, "the reason goes in front");
        self.transmitter.stats.returned_here += 1;
        self.push_back(now, message, FrameKind::Returned, &words, &message.payload);
    }

    /// Sends a message the way back that another has come. Bounded by the sender's outstanding
    /// requests.
    fn push_back(
        &mut self,
        now: &impl Fn() -> Nanos,
        message: &QueuedMessage,
        kind: FrameKind,
        words: &[u64],
        payload: &[u8],
    ) {
        let route = Route { from: message.route.to, to: message.route.from, tag: 0 };
        let head = FrameHead { kind, reply: true, handler: 0, route, order: None, fragment: None };
        let peer = self.deliveries.endpoints.stack_of(route.to);
        let back = Outgoing { head, ordered: false, words, payload, max_waiting: usize::MAX };
        let pushed = self.push(now, peer, &back);
        debug_assert!(pushed != SendResult::Full, "there is room without a limit");
    }
}
