//! The connection to one peer: its channel, what goes to it, and what comes from it.

mod bulk;
mod bulk_receiver;
mod flush;
mod idle;
mod long;
mod peer_streams;
mod record_reader;
mod rx;
mod sink;
mod traffic_count;
mod tx;

use crate::deliveries::Delivery;
use crate::outbox::{Outbox, Progress, Unit};
use crate::seal::Sealer;
use clump_proto::{Channel, Nanos, SocketWait, UnitStatus};
use clump_wire::OwnedMessage;
use clump_wire::SendResult;
use clump_wire::frame::FrameHead;
use clump_wire::{MAX_SACK_WORDS, Packet, PacketKind};
pub(crate) use long::LongBody;
use peer_streams::{MIN_BULK, PeerStreams};
use rx::Rx;
pub(crate) use sink::PacketSink;
use traffic_count::TrafficCount;
pub(crate) use tx::MAX_WAITING;
use tx::Tx;

/// A message to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) head: FrameHead,
    /// True if it is handled in the order in which such messages are sent.
    pub(crate) ordered: bool,
    pub(crate) words: &'a [u64],
    pub(crate) payload: &'a [u8],
    /// Bytes that may wait before it finds no room.
    pub(crate) max_waiting: usize,
}

/// A packet of the peer's own, as it arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub(crate) packet: &'a Packet,
    pub(crate) datagram: &'a [u8],
    /// Offset at which its body ends.
    pub(crate) end: usize,
    /// Time that it waited in the socket.
    pub(crate) late: SocketWait,
    /// True if it bears a congestion mark.
    pub(crate) marked: bool,
}

/// The state that a stack keeps for a peer that it communicates with.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The protocol's state, and the units in flight.
    channel: Channel<Unit>,
    tx: Tx,
    rx: Rx,
    /// The streams to and from the peer, once there was bulk.
    bulk: Option<Box<PeerStreams>>,
    /// Tells whether the connection is idle.
    traffic: TrafficCount,
    /// True once it was reported that the path carries less than before.
    told_narrow: bool,
}

impl Connection {
    /// Creates a connection over which nothing was sent.
    pub(crate) fn new(now: Nanos, config: &clump_proto::Config, sealer: &Sealer) -> Self {
        let channel = Channel::new(config, now);
        let tx = Tx::new(now, channel.datagram_bytes(), config.control_first, sealer);
        debug_assert!(channel.is_quiet() && !tx.outbox.has_waiting(), "nothing was sent");
        let (rx, traffic) = (Rx::default(), TrafficCount::default());
        Self { channel, tx, rx, bulk: None, traffic, told_narrow: false }
    }

    /// Sends a message, or finds no room for it.
    // Measured: as a call it takes 14 % of the rate of short messages.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &Outgoing<'_>,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        let Outgoing { mut head, ordered, words, payload, max_waiting } = *message;
        debug_assert!(head.order.is_none(), "the connection numbers ordered messages");
        if payload.len() >= MIN_BULK && self.takes_stream(now(), &head, payload.len(), sink) {
            return self.push_record(now(), message, sink);
        }
        if !self.has_room(&head, ordered, payload, max_waiting) {
            self.kick(now(), false, sink);
            return SendResult::Full;
        }
        head.order = self.tx.take_order(ordered);
        let first = !self.tx.outbox.has_waiting();
        let whole = self.tx.outbox.whole_units();
        self.tx.outbox.append(&head, words, payload);
        debug_assert!(self.tx.outbox.has_waiting(), "the message waits to be sent");
        if first {
            let at = now();
            self.tx.opened_at = at;
            self.kick(at, false, sink);
        } else if self.tx.outbox.whole_units() > whole || self.tx.outbox.has_control() {
            self.kick(now(), false, sink);
        }
        SendResult::Sent
    }

    /// Returns true if a message finds room behind, or ahead of, those that wait.
    #[inline]
    pub(crate) fn has_room(
        &self,
        head: &FrameHead,
        ordered: bool,
        payload: &[u8],
        max_waiting: usize,
    ) -> bool {
        if let Some(room) = self.would_take_record(head, payload) {
            return room;
        }
        self.tx.outbox.waiting() < max_waiting || (!ordered && self.tx.outbox.passes(head, payload))
    }

    /// Returns true if a packet of this number was taken in, or is too old to tell.
    #[inline]
    pub(crate) fn is_replay(&self, number: u64) -> bool {
        self.channel.is_replay(number)
    }

    /// Handles a packet of the peer's own: acknowledgements, then the messages of a new unit.
    /// Returns true if it is the last closing packet.
    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        now: Nanos,
        arrived: &Arrived<'_>,
        delivery: &mut Delivery<'_>,
    ) -> bool {
        let Arrived { packet, datagram, end, late, marked } = *arrived;
        debug_assert!(end <= datagram.len(), "the body lies in the datagram");
        let (mut header, body_at) = (packet.header, packet.sealed_at);
        debug_assert!(body_at <= end, "an opened packet has its head");
        let body = datagram.get(body_at..end).unwrap_or_default();
        let mut words;
        let sack: &[u64] = if packet.sack_words() == 0 {
            &[]
        } else {
            words = [0; MAX_SACK_WORDS];
            packet.sack(datagram, &mut words)
        };
        let mut joined = None;
        if header.kind == PacketKind::Fragment {
            let channel = &self.channel;
            (header.kind, joined) =
                self.rx.join(header.unit, body, |unit| channel.wants_unit(unit));
        }
        let arrival = self.channel.handle_late(now, late, &header, sack, datagram.len(), marked);
        while let Some((number, unit)) = self.channel.poll_acked() {
            debug_assert!(self.channel.has_arrived(number), "buffers are freed after that");
            self.tx.outbox.on_arrived(unit);
        }
        debug_assert!(joined.is_none() || header.kind == PacketKind::Data, "a joined unit is one");
        match (header.kind, arrival.unit) {
            (PacketKind::Data, UnitStatus::New) => match joined {
                Some(whole) => {
                    // It lies in no buffer of the driver: all of it is queued.
                    let wanted = delivery.wanted.take();
                    self.rx.unpack(&whole, 0, delivery);
                    delivery.wanted = wanted;
                }
                None => self.rx.unpack(body, body_at, delivery),
            },
            (PacketKind::Data, _) => delivery.stats.units_duplicate += 1,
            _ => {}
        }
        arrival.ends
    }

    /// Takes every message that has not arrived, after the peer is lost. The channel stays: its
    /// packet numbers must not be used again.
    pub(crate) fn take_undelivered(&mut self, sealer: &Sealer) -> Vec<OwnedMessage> {
        self.rx.on_lost();
        // Units behind a gap are not acknowledged in order, but may have arrived.
        let Self { tx: Tx { outbox, .. }, channel, .. } = self;
        let undelivered = outbox.take_all(sealer, channel.take_bodies());
        debug_assert!(channel.newest_body().is_none(), "nothing is kept for a lost peer");
        debug_assert!(!outbox.has_waiting(), "nothing is sent to a lost peer");
        let mut undelivered = undelivered;
        undelivered.extend(self.take_undelivered_records());
        undelivered
    }

    /// Takes the messages that wait for an earlier one and are for an endpoint that closes.
    pub(crate) fn take_ordered_for(&mut self, name: u64) -> Vec<OwnedMessage> {
        self.rx.take_ordered_for(name)
    }

    /// Abandons a long message that was begun, since its sender is gone.
    pub(crate) fn abandon_long(
        &mut self,
        now: Nanos,
        progress: Progress,
        sink: &mut PacketSink<'_>,
    ) {
        if self.is_on_stream(&progress) {
            return self.abandon_record(now, progress, sink);
        }
        self.tx.note_opening(now);
        debug_assert!(progress.done > 0 || progress.message.is_none(), "it was begun");
        self.tx.outbox.abandon(progress);
        self.kick(now, false, sink);
    }

    /// Sets the bytes that the peer may have in flight, and those of buffers kept for reuse.
    pub(crate) fn set_shares(&mut self, window: u32, spare: usize) {
        debug_assert!(window > 0, "a closed window stops the peer");
        self.channel.set_receive_window(window);
        self.tx.outbox.set_growth(spare);
    }

    /// Returns the outgoing data.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.tx.outbox
    }

    /// Returns the channel.
    pub(crate) fn channel(&self) -> &Channel<Unit> {
        &self.channel
    }

    /// Returns the bytes kept: in flight, waiting, not whole or in turn yet.
    pub(crate) fn memory_bytes(&self) -> usize {
        let in_flight: usize = self.channel.bodies().map(Unit::bytes).sum();
        in_flight + self.tx.outbox.bytes() + self.rx.bytes() + self.bulk_bytes()
    }

    /// Returns true if everything sent has been acknowledged, and nothing waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.channel.is_quiet() && !self.tx.outbox.has_waiting() && self.is_bulk_quiet()
    }

    /// Takes the length of the longest datagram that the path was found to carry, if that is less
    /// than before; reported once.
    pub(crate) fn take_narrowed(&mut self, now: Nanos) -> Option<usize> {
        if self.told_narrow {
            return None;
        }
        let bytes = self.channel.narrowed(now)?;
        debug_assert!(bytes == self.channel.datagram_bytes(), "the path carries that now");
        debug_assert!(self.channel.stats().black_holes > 0, "long datagrams had vanished");
        self.told_narrow = true;
        Some(bytes)
    }

    /// Asserts what always holds between calls; `lost`: the peer is.
    pub(crate) fn check_invariants(&self, lost: bool) {
        self.channel.check_invariants();
        self.tx.check_invariants(self.channel.bodies());
        self.rx.check_invariants();
        assert!(!lost || !self.tx.outbox.has_waiting(), "nothing waits for a lost peer");
        assert!(!lost || self.channel.bodies().next().is_none(), "and nothing is in flight");
    }
}
