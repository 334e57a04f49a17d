//! Receiving: from the datagram to the frame.

use super::{Nanos, Peer, PeerConnection, Stack};
use crate::endpoint_table::Refusal;
use crate::queued_message::{Batch, Found};
use clump_driver::Ecn;
use clump_proto::UnitStatus;
use clump_wire::frame::{FrameHead, FrameKind, Frames};
use clump_wire::{MAX_SACK_WORDS, Packet, PacketKind as Sent, UnitFragment};

/// Messages that one receive takes from an endpoint's queue.
const MAX_MAIL: usize = 1024;

impl Peer {
    /// Returns true if a packet of that number has come before.
    #[inline]
    fn has_received(&self, number: u64) -> bool {
        self.connection.as_deref().is_some_and(|connection| connection.channel.is_replay(number))
    }

    /// Returns true if the peer has sent this packet.
    #[cold]
    fn authenticates(&self, packet: &Packet, datagram: &mut [u8]) -> bool {
        let (head, sealed) = datagram.split_at_mut(packet.sealed_at);
        self.opener.open(packet.header.number, head, sealed).is_some()
    }
}

impl Stack {
    /// Receives available packets once. Messages for endpoint `wanted` are handed over in `batch`,
    /// all others are queued. Returns the number of packets received; the next [`Stack::service`]
    /// sends the packets that they cause. `now` is called after the driver, so that packets
    /// arriving meanwhile are not taken for late.
    pub fn receive(
        &mut self,
        now: impl Fn() -> Nanos,
        wanted: Option<u8>,
        batch: &mut Batch,
    ) -> usize {
        batch.clear();
        let Batch { inbound, found } = batch;
        if let Some(queued) = wanted.and_then(|index| self.queued.get_mut(usize::from(index)))
            && !queued.is_empty()
        {
            for queued in queued.drain(..queued.len().min(MAX_MAIL)) {
                found.push_queued(queued);
            }
        }
        let result = self.driver.receive(inbound);
        let now = now();
        let received = result.unwrap_or_else(|e| {
            self.on_receive_failed(now, &e);
            0
        });
        // A packet has lain in the socket since the last look at most.
        let unseen = now.saturating_sub(self.looked_at);
        self.looked_at = now;
        for at in 0..received {
            let datagram = inbound.datagram(at);
            let marked = datagram.ecn == Ecn::Ce;
            // An unknown wait is bounded by the time since the last poll.
            let late = datagram.waited_ns.unwrap_or(unseen);
            found.begin(at);
            // New messages must not overtake queued ones, which may have come as unit fragments a
            // moment ago.
            let wanted = wanted.filter(|&index| !self.has_queued(index));
            let path = datagram.path;
            self.on_datagram((now, late), wanted, datagram.bytes, (marked, path), found);
        }
        received
    }

    fn on_datagram(
        &mut self,
        (now, late): (Nanos, Nanos),
        wanted: Option<u8>,
        datagram: &mut [u8],
        (marked, path): (bool, u8),
        found: &mut Found,
    ) {
        let bytes = datagram.len();
        let Ok(packet) = Packet::parse(datagram) else {
            self.stats.packets_malformed += 1;
            return;
        };
        let header = packet.header;
        let known = self.peers.get_mut(header.source as usize).and_then(Option::as_mut);
        let Some(known) = known.filter(|known| {
            header.job == self.job
                && header.target == self.config.me
                && header.target_epoch == self.config.epoch
                && header.epoch == known.epoch
                && (known.lost.is_none() || header.kind == Sent::Close)
        }) else {
            self.stats.packets_foreign += 1;
            return;
        };
        if known.has_received(header.number) {
            self.stats.packets_replayed += 1;
            // It may be a copy that tests another path: its arrival is news, if it is authentic.
            if self.many_paths && known.authenticates(&packet, datagram) {
                self.driver.on_authenticated(known.address, path);
            }
            return;
        }
        // Everything above is cheap, and nothing below happens to a packet that is not the peer's:
        // no state, no answer.
        let opened = known.opener.open_whole(header.number, datagram, packet.sealed_at);
        let Some(end) = opened else {
            self.stats.packets_forged += 1;
            return;
        };
        if self.many_paths {
            self.driver.on_authenticated(known.address, path);
        }
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes as u64;
        self.stats.marks_received += u64::from(marked);
        self.on_packet((now, late), wanted, (&packet, datagram, end), marked, found);
    }

    /// Handles a packet that is the peer's own; its body ends at `end` of the datagram.
    #[inline]
    fn on_packet(
        &mut self,
        (now, late): (Nanos, Nanos),
        wanted: Option<u8>,
        (packet, datagram, end): (&Packet, &[u8], usize),
        marked: bool,
        found: &mut Found,
    ) {
        let mut header = packet.header;
        let (peer, body_at, bytes) = (header.source, packet.sealed_at, datagram.len());
        let body = datagram.get(body_at..end).unwrap_or_default();
        if self.lost(peer).is_some() {
            // A peer that closed and has not heard that this side knows.
            return self.confirm_close(now, peer);
        }
        if self.closed && matches!(header.kind, Sent::Data | Sent::Slice) {
            return; // its sender learns from the closing packet that this did not get here
        }
        let mut words;
        let sack: &[u64] = if packet.sack_words() == 0 {
            &[]
        } else {
            words = [0; MAX_SACK_WORDS];
            packet.sack(datagram, &mut words)
        };
        let Some(connection) = self.connection(now, peer) else { return };
        let mut joined = None;
        if header.kind == Sent::Slice {
            (header.kind, joined) = connection.join(header.unit, body);
        }
        let arrival = connection.channel.handle_late(now, late, &header, sack, bytes, marked);
        while let Some(unit) = connection.channel.poll_acked() {
            connection.outbox.on_acked(unit);
        }
        self.touch(peer);
        match (header.kind, arrival.unit) {
            (Sent::Data, UnitStatus::New) => {
                if let Some(whole) = joined {
                    // It lies in no buffer of the driver: all of it is queued.
                    return self.unpack(now, None, peer, (&whole, 0), found);
                }
                self.unpack(now, wanted, peer, (body, body_at), found);
            }
            (Sent::Data, _) => self.stats.units_duplicate += 1,
            (Sent::Close, _) => {
                self.confirm_close(now, peer);
                self.lose(peer, Refusal::EndpointGone);
            }
            (Sent::CloseAck, _) => self.on_close_ack(peer),
            _ => {}
        }
    }

    fn confirm_close(&mut self, now: Nanos, peer: u32) {
        if self.connection(now, peer).is_some() {
            self.send_plain(now, peer, Sent::CloseAck, 0);
        }
    }

    fn on_close_ack(&mut self, peer: u32) {
        if let Some(Some(known)) = self.peers.get_mut(peer as usize) {
            known.close_handshake.seen |= self.closed;
        }
    }

    /// Routes every frame of a new unit.
    fn unpack(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        (body, at): (&[u8], usize),
        found: &mut Found,
    ) {
        let mut frames = Frames::new(body);
        // A frame with the same route as the one before it, for the polling endpoint, needs no
        // second lookup.
        let mut before: Option<FrameHead> = None;
        while let Some(frame) = frames.next() {
            let Ok(frame) = frame else {
                self.stats.frames_malformed += 1;
                return;
            };
            // Words and payload end where the rest begins.
            let tail = frame.word_count() * 8 + frame.payload.len().next_multiple_of(8);
            let words_at = at + body.len() - frames.left() - tail;
            if before.is_some_and(|before| follows(&before, &frame.head)) {
                found.push_same(&frame, words_at);
                continue;
            }
            before = None;
            match self.route(now, wanted, peer, &frame, words_at, found) {
                Ok(true) => before = Some(frame.head),
                Ok(false) => {}
                Err(_) => self.stats.frames_malformed += 1,
            }
        }
    }
}

impl PeerConnection {
    /// Handles a unit fragment: returns the meaning of its packet to the channel, and the unit once
    /// that is whole.
    #[cold]
    fn join(&mut self, unit: u64, body: &[u8]) -> (Sent, Option<Vec<u8>>) {
        let Self { channel, unit_fragments, .. } = self;
        unit_fragments.retain(|unit| channel.wants_unit(unit));
        let Some((unit_fragment, part)) = UnitFragment::parse(body) else {
            return (Sent::Slice, None);
        };
        if !channel.wants_unit(unit) {
            return (Sent::Data, None);
        }
        match unit_fragments.take(unit, unit_fragment, part) {
            Some(whole) => (Sent::Data, Some(whole)),
            None => (Sent::Slice, None),
        }
    }
}

/// Returns true if a frame is a whole small message on the route of the one before it.
#[inline]
fn follows(before: &FrameHead, head: &FrameHead) -> bool {
    matches!(head.kind, FrameKind::Short | FrameKind::Medium)
        && head.reply == before.reply
        && head.order.is_none()
        && head.fragment.is_none()
        && head.route == before.route
}
