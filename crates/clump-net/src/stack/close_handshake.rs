//! Closing: peers that are lost or close, endpoints that close, and this stack's own close
//! handshake.

use super::{Nanos, PeerConnection, Stack};
use crate::endpoint_table::Refusal;
use crate::queued_message::{Disposition, QueuedMessage};
use crate::reassembly::Reassembly;
use clump_wire::frame::{FrameHead, FrameKind};

/// A peer that has not answered after this time is told again that this stack is closed; every time
/// after twice as long, up to 32 times. Every answer of one peer triggers a check of the others, so
/// that without this they would all be told again each time.
const AGAIN_NS: Nanos = 1_000_000;
const MAX_DOUBLINGS: u32 = 5;

/// State of the close handshake with one peer.
#[derive(Debug, Default)]
pub(super) struct CloseHandshake {
    /// True if the peer has seen that this stack is closed.
    pub(super) seen: bool,
    told: u32,
    next_at: Nanos,
}

impl CloseHandshake {
    /// Returns true if the peer is to be told now; then it counts as told.
    fn is_due(&mut self, now: Nanos) -> bool {
        let due = !self.seen && (self.told == 0 || now >= self.next_at);
        if due {
            self.next_at = now.saturating_add(AGAIN_NS << self.told.min(MAX_DOUBLINGS));
            self.told += 1;
        }
        due
    }
}

impl Stack {
    /// Gives up a peer that is lost or has finalized: messages that it did not acknowledge are
    /// returned, and so is every message to it from now on.
    pub fn lose(&mut self, peer: u32, why: Refusal) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        if known.lost.is_some() {
            return;
        }
        known.lost = Some(why);
        for flow in self.flows.towards(peer) {
            flow.on_peer_lost();
        }
        // The channel stays: its packet numbers must not be used again.
        let Some(connection) = known.connection.as_deref_mut() else { return };
        connection.assembly = Reassembly::default();
        // Units behind a gap are not acknowledged in order, but may have arrived.
        let PeerConnection { outbox, channel, .. } = connection;
        for unsent in outbox.take_all(&known.sealer, |unit| channel.has_arrived(unit)) {
            let FrameHead { kind, reply, handler, route, .. } = unsent.head;
            if kind == FrameKind::Returned {
                continue; // its own message, being returned to it
            }
            let why = if reply { Refusal::ReplyRejected } else { why };
            let sort = Disposition::Lost(kind, why);
            let (words, payload) = (unsent.words, unsent.payload);
            let queued = QueuedMessage { sort, reply, handler, route, words, payload };
            if let Ok(index) = self.endpoints.admit(route.from, None) {
                self.deliver(index, queued);
            }
        }
    }

    /// Closes an endpoint: messages that wait for it are returned to their senders.
    pub fn close_endpoint(&mut self, now: impl Fn() -> Nanos, index: u8, name: u64) {
        let Some(queued) = self.queued.get_mut(usize::from(index)) else { return };
        let mut queued = std::mem::take(queued);
        // Messages that wait for an earlier one would be lost if this stack closed before that
        // came.
        for connection in
            self.peers.iter_mut().flatten().filter_map(|peer| peer.connection.as_deref_mut())
        {
            queued.extend(connection.order_in.take_for(name));
        }
        for queued in queued {
            self.return_to_sender(&now, &queued, Refusal::EndpointGone);
        }
        self.flows.forget(name);
    }

    /// Accepts nothing more from now on, and tells every peer which packets arrived, again where
    /// that is due. To be called again, with time and packets passing, until [`Stack::is_closed`];
    /// before the first call, [`Stack::is_quiet`] should hold.
    pub fn close(&mut self, now: Nanos) {
        self.closed = true;
        for at in 0..self.talking.len() {
            let Some(&peer) = self.talking.get(at) else { break };
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            if known.is_open() && known.close_handshake.is_due(now) {
                self.send_plain(now, peer, clump_wire::PacketKind::Close, 0);
            }
        }
    }

    /// Returns true if every peer knows that this stack is closed, or is lost.
    pub fn is_closed(&self) -> bool {
        let open = |id: &u32| {
            let known = self.peers.get(*id as usize).and_then(Option::as_ref);
            known.is_some_and(|known| known.is_open() && !known.close_handshake.seen)
        };
        self.closed && !self.talking.iter().any(open)
    }

    /// Returns to their senders messages that were handed over and not handled.
    pub fn return_queued(
        &mut self,
        now: impl Fn() -> Nanos,
        queued: impl IntoIterator<Item = QueuedMessage>,
    ) {
        for queued in queued {
            self.return_to_sender(&now, &queued, Refusal::EndpointGone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_told_less_and_less_often_until_it_has_seen() {
        let mut close_handshake = CloseHandshake::default();
        let told: Vec<_> =
            (0..200_u64).filter(|ms| close_handshake.is_due(ms * AGAIN_NS)).collect();
        assert_eq!(told, [0, 1, 3, 7, 15, 31, 63, 95, 127, 159, 191]);
        close_handshake.seen = true;
        assert!(!close_handshake.is_due(Nanos::MAX));
    }
}
