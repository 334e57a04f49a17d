//! The connection to one peer: its channel, what goes to it, and what comes from it.

mod bulk;
mod bulk_receiver;
mod flush;
mod idle;
mod long;
mod peer_streams;
mod record_reader;
mod rx;
mod traffic_count;

use crate::deliveries::Delivery;
use crate::message_part::Progress;
use crate::peer_path::PeerPath;
use crate::schedule::Schedule;
use crate::seal::Sealer;
use crate::transmitter::Transmitter;
use crate::tx_queue::{TxQueue, Unit};
use clump_proto::{Channel, Nanos, SocketWait, UnitStatus};
use clump_wire::{MAX_SACK_WORDS, Message, OwnedMessage, Packet, PacketKind, SendResult};
use peer_streams::{MIN_BULK, PeerStreams};
use rx::Rx;
use traffic_count::TrafficCount;

/// Everything needed to send packets to one peer: its path, and what all peers share.
pub(crate) struct PacketSink<'a> {
    pub(crate) path: &'a PeerPath,
    pub(crate) transmitter: &'a mut Transmitter,
    pub(crate) schedule: &'a mut Schedule,
}

/// Terms on which a message is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendTerms {
    /// True if it is handled in the order in which such messages are sent.
    pub(crate) ordered: bool,
    /// Bytes that may wait before it finds no room.
    pub(crate) max_waiting: usize,
}

impl SendTerms {
    /// Without regard to limits.
    pub(crate) const UNLIMITED: Self = Self { ordered: false, max_waiting: usize::MAX };
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
    queue: TxQueue,
    rx: Rx,
    /// The streams to and from the peer, once there was bulk.
    bulk: Option<Box<PeerStreams>>,
    /// Tells whether the connection is idle.
    traffic: TrafficCount,
    /// True once it was reported that the path carries less than before.
    narrowing_reported: bool,
    /// True if something happened that [`Stack::service`](crate::Stack::service) has to handle.
    touched: bool,
    /// True if the connection is in the list for that.
    listed: bool,
}

impl Connection {
    /// Creates a connection over which nothing was sent.
    pub(crate) fn new(now: Nanos, config: &clump_proto::Config, sealer: &Sealer) -> Self {
        let channel = Channel::new(config, now);
        let queue = TxQueue::new(now, channel.datagram_bytes(), config.control_first, sealer);
        debug_assert!(channel.is_quiet() && queue.waiting() == 0, "nothing was sent");
        Self {
            channel,
            queue,
            rx: Rx::default(),
            bulk: None,
            traffic: TrafficCount::default(),
            narrowing_reported: false,
            touched: false,
            listed: false,
        }
    }

    /// Sends a message, or finds no room for it.
    // Measured: as a call it takes 14 % of the rate of short messages.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &Message<'_>,
        terms: SendTerms,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        let bytes = message.payload.len();
        if bytes >= MIN_BULK && self.takes_stream(now(), message.kind, bytes, sink) {
            return self.push_record(now(), message, terms, sink);
        }
        if !self.has_room(message, terms) {
            self.kick(now(), false, sink);
            return SendResult::Full;
        }
        let (order, first) = (self.queue.take_order(terms.ordered), self.queue.waiting() == 0);
        if self.queue.append(message, order) {
            let now = now();
            if first {
                self.queue.opened_at = now;
            }
            self.kick(now, false, sink);
        }
        SendResult::Sent
    }

    /// Returns true if a message finds room behind, or ahead of, those that wait.
    #[inline]
    pub(crate) fn has_room(&self, message: &Message<'_>, terms: SendTerms) -> bool {
        let queued = || self.queue.has_room(message, terms.ordered, terms.max_waiting);
        self.would_take_record(message).unwrap_or_else(queued)
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
            self.queue.on_arrived(unit);
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
        let mut undelivered = self.queue.take_all(sealer, self.channel.take_bodies());
        debug_assert!(self.channel.newest_body().is_none(), "nothing is kept for a lost peer");
        debug_assert!(self.queue.waiting() == 0, "nothing is sent to a lost peer");
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
        self.queue.note_opening(now);
        debug_assert!(progress.done > 0 || progress.message.is_none(), "it was begun");
        self.queue.abandon(progress);
        self.kick(now, false, sink);
    }

    /// Sets the bytes that the peer may have in flight, and those of buffers kept for reuse.
    pub(crate) fn set_shares(&mut self, window: u32, spare: usize) {
        debug_assert!(window > 0, "a closed window stops the peer");
        self.channel.set_receive_window(window);
        self.queue.memory.set_growth(spare);
    }

    /// Returns the data that waits.
    pub(crate) fn queue(&self) -> &TxQueue {
        &self.queue
    }

    /// Returns the channel.
    pub(crate) fn channel(&self) -> &Channel<Unit> {
        &self.channel
    }

    /// Returns the bytes kept: in flight, waiting, not whole or in turn yet.
    pub(crate) fn memory_bytes(&self) -> usize {
        let in_flight: usize = self.channel.bodies().map(Unit::bytes).sum();
        let queued = self.queue.waiting() + self.queue.sent.kept_bytes();
        in_flight + queued + self.rx.bytes() + self.bulk_bytes()
    }

    /// Returns true if everything sent has been acknowledged, and nothing waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.channel.is_quiet() && self.queue.waiting() == 0 && self.is_bulk_quiet()
    }

    /// Takes the length of the longest datagram that the path was found to carry, if that is less
    /// than before; reported once.
    pub(crate) fn take_narrowed(&mut self, now: Nanos) -> Option<usize> {
        if self.narrowing_reported {
            return None;
        }
        let bytes = self.channel.narrowed(now)?;
        debug_assert!(bytes == self.channel.datagram_bytes(), "the path carries that now");
        debug_assert!(self.channel.stats().black_holes > 0, "long datagrams had vanished");
        self.narrowing_reported = true;
        Some(bytes)
    }

    /// Asserts what always holds between calls; `lost`: the peer is.
    pub(crate) fn check_invariants(&self, lost: bool) {
        self.channel.check_invariants();
        self.queue.check_invariants(self.channel.bodies());
        assert!(!self.touched || self.listed, "what needs service is listed");
        self.rx.check_invariants();
        assert!(!lost || self.queue.waiting() == 0, "nothing waits for a lost peer");
        assert!(!lost || self.channel.bodies().next().is_none(), "and nothing is in flight");
    }
}
