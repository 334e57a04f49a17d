//! A stack: one driver, one connection per peer, and the messages of its owner's endpoints.
//!
//! Pure but for its driver: time comes in as an argument, so the same code runs on sockets and in
//! simulation. Owned by one thread at a time.
//!
//! The face of the objects that do the work: each call looks its peer up once, and hands on.
//! [`PeerTable`] owns the peers, each with its [`Connection`](crate::connection::Connection);
//! [`Transmitter`] the driver, [`Schedule`] the timers, [`Deliveries`] what waits for endpoints.

mod closing;
mod config;
mod sending;
mod view;

use crate::batch::{Batch, Found};
use crate::connection::Arrived;
use crate::deliveries::{Deliveries, Delivery};
use crate::endpoint_table::EndpointTable;
use crate::flow::{FlowId, Flows};
use crate::peer_maker::PeerMaker;
use crate::peer_table::PeerTable;
use crate::schedule::Schedule;
use crate::seal::{JobKey, KeyError};
use crate::stream_port::{StreamPort, StreamUse};
use crate::transmitter::Transmitter;
use clump_driver::{Driver, Ecn, StreamNetwork};
use clump_proto::{Nanos, SocketWait};
use clump_wire::Reason;
use clump_wire::{Packet, PacketKind, Security};
pub use config::StackConfig;
pub use sending::Mark;

/// One driver, a connection to each peer that was talked to, and the queued messages of its owner's
/// endpoints.
pub struct Stack {
    /// Number of this stack.
    me: u32,
    job: u32,
    security: Security,
    credit_bytes: u64,
    closed: bool,
    peers: PeerTable,
    flows: Flows,
    transmitter: Transmitter,
    schedule: Schedule,
    deliveries: Deliveries,
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stack {} with {} channels", self.me, self.peers.connected_count())
    }
}

impl Stack {
    /// Creates a stack over `driver`, for the endpoints behind `endpoints`.
    ///
    /// # Errors
    /// The keys cannot be made.
    pub fn new(
        config: StackConfig,
        key: &JobKey,
        mut driver: Box<dyn Driver>,
        endpoints: Box<dyn EndpointTable>,
    ) -> Result<Self, KeyError> {
        let StackConfig { me, epoch, security, channel, credit_bytes, peers } = config;
        debug_assert!(credit_bytes > 0, "without credit no request leaves");
        let probe_key = key.probe_key()?;
        driver.set_probe_key(&probe_key);
        let job = key.job_tag();
        let maker = PeerMaker::new(peers, key.clone(), security, (me, epoch));
        let peers = PeerTable::new(channel, maker);
        Ok(Self {
            me,
            job,
            security,
            credit_bytes,
            closed: false,
            peers,
            flows: Flows::default(),
            transmitter: Transmitter::new(driver),
            schedule: Schedule::new(),
            deliveries: Deliveries::new(endpoints),
        })
    }

    /// Opens the flow between two endpoints, or returns the one that is open.
    pub fn open_flow(&mut self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        self.flows.open((from, to), peer, ordered, self.credit_bytes)
    }

    /// Has the messages that `stream_use` names go by streams, made by `network`, to peers that
    /// agree. To be called before anything is sent.
    ///
    /// # Errors
    /// The keys cannot be made.
    pub fn set_streams(
        &mut self,
        network: Box<dyn StreamNetwork>,
        key: &JobKey,
        stream_use: StreamUse,
    ) -> Result<(), KeyError> {
        debug_assert!(self.peers.connected_count() == 0, "nothing was sent");
        let port = StreamPort::new(network, key.stream_keys()?, self.security, stream_use);
        self.transmitter.streams = Some(port);
        Ok(())
    }

    /// Sets the bytes of buffers that may be kept for reuse beyond those in flight at one time, for
    /// all peers together. Long streams are faster with some; programs that count their memory set
    /// 0.
    pub fn set_spare(&mut self, bytes: usize) {
        self.peers.set_spare(bytes, &self.transmitter);
    }

    /// Takes the endpoints for which messages were queued since the last call, as bits.
    pub fn take_newly_queued(&mut self) -> u32 {
        self.deliveries.take_newly_queued()
    }

    /// Notes that the owner waited until now for the driver's readiness: what it receives next has
    /// just arrived.
    pub fn note_watched(&mut self, now: Nanos) {
        self.transmitter.note_watched(now);
    }

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
        debug_assert!(!self.deliveries.has_returns(), "what is refused has been returned");
        if let Some(index) = wanted.filter(|&index| self.has_queued(index)) {
            self.deliveries.take_into(index, &mut batch.found);
        }
        let (received, now, unseen) = self.transmitter.receive(now, &mut batch.inbound);
        batch.note_received(now, received);
        let Batch { inbound, found, .. } = batch;
        for at in 0..received {
            let datagram = inbound.datagram(at);
            let marked = datagram.ecn == Ecn::Ce;
            let bound = SocketWait::within(unseen);
            let late = datagram.waited_ns.map_or(bound, SocketWait::known);
            found.begin(at);
            // New messages must not overtake queued ones, which may have come as unit fragments a
            // moment ago.
            let wanted = wanted.filter(|&index| !self.has_queued(index));
            let path = datagram.path;
            self.on_datagram((now, late), wanted, datagram.bytes, (marked, path), found);
        }
        if self.schedule.has_streams() {
            return received + self.receive_streams(now, wanted, found);
        }
        received
    }

    /// Takes what streams have brought; returns the number of records, at least one if anything
    /// came.
    #[cold]
    fn receive_streams(&mut self, now: Nanos, wanted: Option<u8>, found: &mut Found) -> usize {
        let mut taken = 0;
        let mut at = 0;
        while let Some(id) = self.schedule.streams(at) {
            taken += self.receive_stream(now, id, wanted, found);
            at += 1;
        }
        debug_assert!(taken == 0 || at > 0, "it came by streams");
        taken
    }

    #[cold]
    fn receive_stream(
        &mut self,
        now: Nanos,
        id: u32,
        wanted: Option<u8>,
        found: &mut Found,
    ) -> usize {
        let wanted = wanted.filter(|&index| !self.has_queued(index));
        let Self { peers, transmitter, schedule, deliveries, flows, closed, .. } = self;
        let known = peers.get_mut(id).filter(|known| known.is_open() && !*closed);
        let Some(known) = known else { return 0 };
        let before = (transmitter.stats.records_received, transmitter.stats.bytes_received);
        let mut notice = None;
        if let Some(connection) = known.connection.as_deref_mut() {
            let stats = &mut transmitter.stats;
            let mut delivery = Delivery { wanted, found, deliveries, flows, stats };
            notice = connection.poll_stream(now, wanted.is_none(), &mut delivery);
        }
        let taken = transmitter.stats.records_received - before.0;
        // Part of a record shows too that more is coming.
        debug_assert!(notice.is_none() || known.connection.is_some(), "news of its stream");
        let moved = u64::from(transmitter.stats.bytes_received > before.1).max(taken);
        transmitter.stats.packets_received += moved;
        if let Some((connection, mut sink)) = known.split(transmitter, schedule) {
            connection.tell(now, notice, &mut sink);
        }
        if self.deliveries.has_returns() {
            self.send_returns(&|| now);
        }
        moved as usize
    }

    fn on_datagram(
        &mut self,
        (now, late): (Nanos, SocketWait),
        wanted: Option<u8>,
        datagram: &mut [u8],
        (marked, path): (bool, u8),
        found: &mut Found,
    ) {
        let Self { peers, transmitter, schedule, deliveries, flows, closed, .. } = self;
        let bytes = datagram.len();
        let Ok(packet) = Packet::parse(datagram) else {
            transmitter.stats.packets_malformed += 1;
            return;
        };
        let header = packet.header;
        let known = peers.source_of(&header).filter(|known| {
            known.path.matches(&header)
                && (known.lost.is_none() || header.kind == PacketKind::Close)
        });
        let Some(mut known) = known else {
            transmitter.stats.packets_foreign += 1;
            return;
        };
        if known.has_received(header.number) {
            transmitter.stats.packets_replayed += 1;
            // It may be a copy that tests another path: its arrival is news, if it is authentic.
            if transmitter.has_many_paths() && known.path.authenticates(&packet, datagram) {
                transmitter.driver.on_authenticated(known.path.address, path);
            }
            return;
        }
        // Everything above is cheap, but for a peer that was never talked to, and nothing below
        // happens to a packet that is not the peer's: no state, no answer.
        let opened = known.path.opener.open_whole(header.number, datagram, packet.sealed_at);
        let Some(end) = opened else {
            transmitter.stats.packets_forged += 1;
            return;
        };
        if transmitter.has_many_paths() {
            transmitter.driver.on_authenticated(known.path.address, path);
        }
        transmitter.stats.packets_received += 1;
        transmitter.stats.bytes_received += bytes as u64;
        transmitter.stats.marks_received += u64::from(marked);
        if *closed && matches!(header.kind, PacketKind::Data | PacketKind::Fragment) {
            return; // its sender learns from the closing packet that this did not get here
        }
        if known.connection.is_none() {
            let opened = peers.open(now, header.source, transmitter);
            debug_assert!(opened.is_ok(), "the peer is in the directory, and its keys are made");
            let Some(opened) = peers.get_mut(header.source) else { return };
            known = opened;
            if transmitter.has_many_paths() {
                transmitter.driver.on_authenticated(known.path.address, path);
            }
        }
        // What closing packets have not described in full may have arrived.
        let mut ends = header.kind == PacketKind::Close && known.lost.is_some();
        if let Some(connection) = known.connection.as_deref_mut().filter(|_| known.lost.is_none()) {
            let stats = &mut transmitter.stats;
            let mut delivery = Delivery { wanted, found, deliveries, flows, stats };
            let arrived = Arrived { packet: &packet, datagram, end, late, marked };
            ends = connection.handle_packet(now, &arrived, &mut delivery);
        }
        if let Some((connection, mut sink)) = known.split(transmitter, schedule) {
            connection.touch(&mut sink);
            connection.handle_notices(now, &mut sink);
            if ends {
                let body = datagram.get(packet.sealed_at..end).unwrap_or_default();
                connection.on_close_report(now, body);
                // Also where this is known: the peer may not have heard that it is.
                connection.send_plain(now, PacketKind::CloseAck, &mut sink);
            }
        }
        debug_assert!(known.connection.is_some(), "its packet was taken in");
        known.close_handshake.seen |= *closed && header.kind == PacketKind::CloseAck;
        if ends {
            self.lose(header.source, Reason::EndpointGone);
        }
        if self.deliveries.has_returns() {
            self.send_returns(&|| now);
        }
    }

    /// Services every connection that needs it, and timers that are due. `force` sends everything
    /// that waits; otherwise units that are not full may wait a little.
    pub fn service(&mut self, now: Nanos, force: bool) {
        let Self { peers, transmitter, schedule, .. } = self;
        let mut left = schedule.len();
        while left > 0 {
            left -= 1;
            let known = schedule.get(left).and_then(|id| peers.get_mut(id));
            debug_assert!(known.as_ref().is_some_and(|known| known.connection.is_some()));
            let Some(known) = known else { break };
            let lost = known.lost.is_some();
            let Some((connection, mut sink)) = known.split(transmitter, schedule) else { break };
            if connection.service(now, force, lost, &mut sink) {
                schedule.remove(left);
            }
        }
        debug_assert!(left == 0, "every listed connection was serviced");
        if schedule.take_due(now) {
            self.handle_timeouts(now);
        }
        if self.schedule.has_streams() {
            self.service_streams(now);
        }
    }

    #[cold]
    fn service_streams(&mut self, now: Nanos) {
        let Self { peers, transmitter, schedule, .. } = self;
        debug_assert!(transmitter.streams.is_some(), "only then there are any");
        let mut at = 0;
        while let Some(id) = schedule.streams(at) {
            debug_assert!(peers.get(id).is_some(), "peers are listed");
            let known = peers.get_mut(id).filter(|known| known.is_open());
            let split = known.and_then(|known| known.split(transmitter, schedule));
            if let Some((connection, mut sink)) = split {
                connection.service_streams(now, &mut sink);
            }
            at += 1;
        }
    }

    /// Returns true if anything has happened since the last [`Stack::service`] that it would
    /// handle.
    #[inline]
    pub fn wants_service(&self) -> bool {
        self.schedule.len() > 0
    }

    fn handle_timeouts(&mut self, now: Nanos) {
        let Self { peers, transmitter, schedule, .. } = self;
        let heard = transmitter.polled_at();
        for at in 0..peers.connected_count() {
            let Some(known) = peers.connected_mut(at).filter(|known| known.is_open()) else {
                continue;
            };
            if let Some((connection, mut sink)) = known.split(transmitter, schedule) {
                connection.handle_timeout(now, heard, &mut sink);
                let next = connection.channel().next_timeout();
                debug_assert!(schedule.next_timeout() <= next || next.is_none(), "all are noted");
            }
        }
    }

    /// Returns the time of the next call to [`Stack::service`], if nothing else happens.
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.schedule.next_timeout()
    }

    /// Acknowledges all packets received and not acknowledged yet, to all peers: before a long
    /// sleep.
    pub fn acknowledge_all(&mut self, now: Nanos) {
        let Self { peers, transmitter, schedule, .. } = self;
        for at in 0..peers.connected_count() {
            let Some(known) = peers.connected_mut(at).filter(|known| known.is_open()) else {
                continue;
            };
            if let Some((connection, mut sink)) = known.split(transmitter, schedule)
                && connection.channel().owes_ack(now)
            {
                connection.send_plain(now, PacketKind::Ack, &mut sink);
            }
        }
    }
}
