//! Closing: peers that are lost or close, endpoints that close, and this stack's own end.

use super::Stack;
use clump_proto::Nanos;
use clump_wire::PacketKind;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, OwnedMessage, Reason};

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
            debug_assert!(unsent.kind != FrameKind::Part, "messages come back whole");
            // One that was being returned, to the peer itself, is gone.
            let Some(back) = unsent.returned(why) else { continue };
            if let Ok(index) = self.deliveries.endpoints.admit(back.route.to, None) {
                self.deliveries.queue(index, back);
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
        self.return_queued(now, queued, Reason::EndpointGone);
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
        queued: impl IntoIterator<Item = OwnedMessage>,
        why: Reason,
    ) {
        for message in queued {
            self.return_to_sender(&now, message, why);
        }
    }

    /// Returns to their senders the messages that were refused while a packet was handled.
    #[cold]
    pub(super) fn send_returns(&mut self, now: &impl Fn() -> Nanos) {
        for (message, why) in self.deliveries.take_returns() {
            self.return_to_sender(now, message, why);
        }
        debug_assert!(!self.deliveries.has_returns(), "a returned message is not refused here");
    }

    /// Returns a message to its sender, with the reason in front.
    fn return_to_sender(&mut self, now: &impl Fn() -> Nanos, message: OwnedMessage, why: Reason) {
        if message.kind == FrameKind::Ask && why == Reason::PeerLost {
            // No endpoint will ever report how much was consumed: it is taken to be all.
            let Route { from, to, .. } = message.route;
            let report = Message::answer((FrameKind::Credit, 0), (to, from), (&message.words, &[]));
            return self.push_back(now, &report);
        }
        if let Some(back) = message.returned(why) {
            self.transmitter.stats.returned_here += 1;
            self.push_back(now, &back.message());
        }
    }

    /// Sends a message the way back that another has come. Bounded by the sender's outstanding
    /// requests.
    fn push_back(&mut self, now: &impl Fn() -> Nanos, back: &Message<'_>) {
        let peer = self.deliveries.endpoints.stack_of(back.route.to);
        self.reply_anyway(now, peer, back);
    }
}
