//! Messages whose flow control others do: those that a proxy sends for the ranks of its node.

use super::{MAX_WAITING, Nanos, Pushed, Stack};
use crate::endpoint_table::Refusal;
use crate::outbox::{Outbox, PayloadFragment, Progress};
use crate::queued_message::QueuedMessage;
use clump_wire::frame::{FrameHead, FrameKind};

/// A fragment of a long message.
#[derive(Debug, Clone, Copy)]
pub struct RelayedFragment<'a> {
    /// Bytes of the whole payload.
    pub total: usize,
    /// Offset of this fragment.
    pub at: usize,
    /// Bytes of this fragment.
    pub bytes: &'a [u8],
}

/// The end of the data handed to a stack at one time, for each peer.
#[derive(Debug)]
pub struct Mark(Vec<(u32, u64)>);

impl Mark {
    /// Iterates over the peers that data had been handed over for.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|(id, _)| *id)
    }
}

impl Stack {
    /// Marks the data handed over up to now.
    pub fn mark(&self) -> Mark {
        let open = (0..).zip(&self.peers).filter_map(|(id, peer)| Some((id, peer.as_ref()?)));
        let ends = open.filter_map(|(id, peer)| Some((id, peer.connection.as_ref()?.outbox.end())));
        Mark(ends.collect())
    }

    /// Returns the end of the data packed for a peer: for [`Stack::has_sent_before`].
    pub fn packed_before(&self, peer: u32) -> u64 {
        self.outbox_of(peer).map_or(0, Outbox::end)
    }

    /// Returns true if everything packed for a peer up to `number` has been sent, or will never be.
    pub fn has_sent_before(&self, peer: u32, number: u64) -> bool {
        self.outbox_of(peer).is_none_or(|outbox| outbox.has_sent_before(number))
    }

    /// Returns true if a message that found no room would find it now, or would be returned.
    pub fn would_take(&self, peer: u32, head: &FrameHead, ordered: bool, payload: &[u8]) -> bool {
        let known = self.peers.get(peer as usize).and_then(Option::as_ref);
        let Some(connection) =
            known.filter(|peer| peer.is_open()).and_then(|p| p.connection.as_deref())
        else {
            return true;
        };
        let long = matches!(head.kind, FrameKind::Long | FrameKind::Part);
        let most = if head.reply && !long { 2 * MAX_WAITING } else { MAX_WAITING };
        connection.outbox.waiting() < most || connection.passes(head, ordered, payload)
    }

    fn outbox_of(&self, peer: u32) -> Option<&Outbox> {
        let known = self.peers.get(peer as usize)?.as_ref()?;
        known
            .connection
            .as_deref()
            .filter(|_| known.lost.is_none())
            .map(|connection| &connection.outbox)
    }

    /// Iterates over the smoothed round-trip times to connected peers, where they are known.
    pub fn round_trips(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.open_connections()
            .map(|(_, connection)| connection.channel.srtt())
            .filter(|&srtt| srtt != 0)
    }

    /// Returns true if everything handed over at `mark` has arrived, or cannot.
    pub fn is_past(&self, mark: &mut Mark) -> bool {
        mark.0.retain(|&(id, end)| {
            let peer = self.peers.get(id as usize).and_then(Option::as_ref);
            let open = peer.filter(|peer| peer.is_open());
            let connection = open.and_then(|peer| peer.connection.as_deref());
            connection.is_some_and(|connection| !connection.outbox.has_arrived_before(end))
        });
        mark.0.is_empty()
    }

    /// Sends a message to a peer, in order with others that ask for order. Replies find room for
    /// longer.
    #[inline]
    pub fn relay(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        head: FrameHead,
        ordered: bool,
        body: (&[u64], &[u8]),
    ) -> Pushed {
        let most = if head.reply { 2 * MAX_WAITING } else { MAX_WAITING };
        self.push(now, peer, head, ordered, body, most)
    }

    /// Sends the next fragment of a long message, all of it or nothing. `head.order` of a first
    /// fragment is ignored.
    pub fn relay_long(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        (mut head, ordered): (FrameHead, bool),
        words: &[u64],
        fragment: RelayedFragment<'_>,
        progress: &mut Progress,
    ) -> Pushed {
        let begun = *progress != Progress::default();
        if let Some(refusal) = self.lost(peer) {
            // A message that was begun has been returned already.
            return if begun { Pushed::Accepted } else { Pushed::Lost(refusal) };
        }
        let Some(connection) = self.connection(now(), peer) else { return Pushed::Full };
        let waiting = connection.outbox.waiting();
        if waiting >= MAX_WAITING {
            let at = now();
            self.kick(at, peer, false);
            return Pushed::Full;
        }
        head.order = None;
        if ordered && !begun {
            head.order = Some(connection.next_order);
            connection.next_order += 1;
        }
        let RelayedFragment { total, at, bytes } = fragment;
        let payload_fragment = PayloadFragment { total, at, bytes };
        let _ = connection.outbox.append_some(&head, words, payload_fragment, progress, usize::MAX);
        let at = now();
        if waiting == 0
            && let Some(connection) = self.connection(at, peer)
        {
            connection.opened_at = at;
        }
        self.kick(at, peer, false);
        Pushed::Accepted
    }

    /// Abandons a long message that was begun, since its sender is gone: the peer discards it, and
    /// waits for it no longer.
    pub fn abandon_long(&mut self, now: impl Fn() -> Nanos, peer: u32, progress: Progress) {
        if self.lost(peer).is_some() {
            return; // the begun message has been forgotten
        }
        let at = now();
        let Some(connection) = self.connection(at, peer) else { return };
        if !connection.outbox.has_waiting() {
            connection.opened_at = at;
        }
        connection.outbox.abandon(progress);
        self.kick(at, peer, false);
    }

    /// Returns to its sender a message that was handed over and that will not be handled.
    pub fn return_queued_for(
        &mut self,
        now: impl Fn() -> Nanos,
        queued: &QueuedMessage,
        why: Refusal,
    ) {
        self.return_to_sender(&now, queued, why);
    }

    /// Sends a message to an endpoint in the name of another, without regard to limits. For
    /// messages whose number is bounded by the endpoint's own.
    pub fn notify_endpoint(
        &mut self,
        now: impl Fn() -> Nanos,
        head: (FrameKind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) {
        let peer = self.endpoints.stack_of(names.1);
        self.reply_anyway(now, peer, head, names, body);
    }
}
