//! A stack: one driver, one channel per peer, and the messages of its owner's endpoints.
//!
//! Pure but for its driver: time comes in as an argument, so the same code runs on sockets and in
//! simulation. Owned by one thread at a time.

mod arena;
mod close_handshake;
mod failure;
mod long;
mod receive;
mod relay;
mod route;
mod transmit;
mod view;

use crate::endpoint_table::{EndpointTable, Refusal};
use crate::flow::{FlowId, Flows, REQUEST_COST};
use crate::order::OrderedMessages;
use crate::outbox::Outbox;
use crate::queued_message::QueuedMessage;
use crate::reassembly::Reassembly;
use crate::seal::{JobKey, KeyError, Opener, Sealer};
use crate::stats::Stats;
use crate::unit_fragments::UnitFragments;
use arena::Arena;
use close_handshake::CloseHandshake;
use clump_driver::{Driver, ReceiveFailures};
use clump_proto::{Channel, Nanos};
use clump_wire::frame::{FrameHead, FrameKind, Route};
use clump_wire::{HEADER_BYTES, Security};
pub use relay::{Mark, RelayedFragment};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Endpoints of one owner.
pub const ENDPOINTS: usize = 32;
/// Bytes that may wait to be sent to a peer before requests find no room; replies may use twice
/// that.
const MAX_WAITING: usize = 256 << 10;
/// Longest time that a message waits for others to share its packet, while others keep coming: a
/// packet costs either side some microseconds.
const COALESCE_NS: Nanos = 100_000;
/// A message that comes so soon after a packet waits for others to follow: less than a round trip,
/// more than it takes to send a packet.
const FLOOD_NS: Nanos = 2_500;
/// Length of a datagram that nearly every path carries, and therefore the first length used: 1500
/// bytes less IPv4 and UDP headers. The channel's base is the length that every path carries.
const USUAL_DATAGRAM: usize = 1472;
/// Bytes of buffers kept for reuse beyond those in flight, unless the program sets another value
/// (ADR 22).
const SPARE: usize = 8 << 20;

/// Another stack of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number: a rank's, or a network interface's, which are numbered after the ranks.
    pub id: u32,
    /// The address that its packets are sent to.
    pub address: SocketAddr,
    /// Its incarnation.
    pub epoch: u32,
}

/// Configuration of a stack.
#[derive(Debug, Clone)]
pub struct StackConfig {
    /// Number of this stack.
    pub me: u32,
    /// Its incarnation.
    pub epoch: u32,
    /// Protection of packets.
    pub security: Security,
    /// Configuration of each channel.
    pub channel: clump_proto::Config,
    /// Bytes of requests from one endpoint that another may have unconsumed.
    pub credit_bytes: u64,
    /// Every stack that this one may talk to.
    pub peers: Vec<PeerAddress>,
}

/// Result of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It is on its way.
    Accepted,
    /// There is no room now.
    Full,
    /// The peer is lost.
    Lost(Refusal),
}

/// A request, but for its payload.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Sending and receiving endpoint.
    pub flow: FlowId,
    /// The right to send there.
    pub tag: u64,
    /// `Short`, `Medium` or `Long`.
    pub kind: FrameKind,
    /// The handler that is to run.
    pub handler: u8,
    /// The words; those of a long message begin with offset and length.
    pub words: &'a [u64],
}

/// State that a stack keeps for a peer that it communicates with.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    channel: Channel,
    outbox: Outbox,
    /// Length of datagrams that the outbox packs for.
    datagram: usize,
    /// Bytes of a datagram that are not the body of a unit.
    overhead: usize,
    /// Longest datagram that the outbox ever packed for.
    longest: usize,
    /// True once it was reported that the path carries less than before.
    told_narrow: bool,
    unit_fragments: UnitFragments,
    assembly: Reassembly,
    order_in: OrderedMessages,
    next_order: u64,
    /// Time at which a packet last went out.
    sent_at: Nanos,
    /// Until this time, data leaves room for control messages at the receiver.
    control_until: Nanos,
    /// Time at which the open unit got its first frame.
    opened_at: Nanos,
    /// Bytes that waited when it was last serviced.
    looked_at: usize,
    /// True if something happened to it that [`Stack::service`] has to handle; `listed`: it is in
    /// the list for that.
    touched: bool,
    listed: bool,
}

#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    epoch: u32,
    sealer: Sealer,
    opener: Opener,
    connection: Option<Box<PeerConnection>>,
    lost: Option<Refusal>,
    close_handshake: CloseHandshake,
}

/// One driver, a channel to each peer, and the queued messages of its owner's endpoints.
pub struct Stack {
    config: StackConfig,
    job: u32,
    driver: Box<dyn Driver>,
    endpoints: Box<dyn EndpointTable>,
    peers: Vec<Option<Peer>>,
    flows: Flows,
    queued: Vec<VecDeque<QueuedMessage>>,
    mailed: u32,
    /// Time at which the driver was last polled for packets.
    looked_at: Nanos,
    closed: bool,
    /// Peers whose connections need service.
    touched: Vec<u32>,
    /// Peers that there is a connection to.
    talking: Vec<u32>,
    /// Bytes of buffers kept beyond those in flight.
    spare: usize,
    /// No timer is due before this time.
    due_at: Nanos,
    arena: Arena,
    stats: Stats,
    failures: ReceiveFailures,
    /// The driver has several paths, and is told what is genuine.
    many_paths: bool,
    /// Bytes of a datagram that are not the body of its packet: header and trailer.
    overhead: usize,
}

impl Peer {
    /// Returns true if there is a connection, and the peer is not lost.
    fn is_open(&self) -> bool {
        self.connection.is_some() && self.lost.is_none()
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stack {} with {} channels", self.config.me, self.talking.len())
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
        let probe_key = key.probe_key()?;
        driver.set_probe_key(&probe_key);
        let mut peers: Vec<Option<Peer>> = Vec::new();
        for &PeerAddress { id, address, epoch } in &config.peers {
            let at = id as usize;
            if peers.len() <= at {
                peers.resize_with(at + 1, || None);
            }
            let sealer = key.sealer(config.security, config.me, config.epoch, id)?;
            let opener = key.opener(config.security, id, epoch, config.me)?;
            let peer = Peer {
                address,
                epoch,
                sealer,
                opener,
                connection: None,
                lost: None,
                close_handshake: CloseHandshake::default(),
            };
            if let Some(place) = peers.get_mut(at) {
                *place = Some(peer);
            }
        }
        let overhead = HEADER_BYTES + config.security.trailer_bytes();
        Ok(Self {
            job: key.job_tag(),
            many_paths: driver.paths().is_some(),
            driver,
            endpoints,
            peers,
            flows: Flows::default(),
            queued: (0..ENDPOINTS).map(|_| VecDeque::new()).collect(),
            mailed: 0,
            looked_at: 0,
            closed: false,
            touched: Vec::new(),
            talking: Vec::new(),
            spare: SPARE,
            due_at: Nanos::MAX,
            arena: Arena::default(),
            stats: Stats::default(),
            failures: ReceiveFailures::default(),
            overhead,
            config,
        })
    }

    /// Returns the driver, for everything that only it knows.
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Returns the time at which the driver was last polled for packets.
    #[inline]
    pub fn polled_at(&self) -> Nanos {
        self.looked_at
    }

    /// Opens the flow between two endpoints, or returns the one that is open.
    pub fn open_flow(&mut self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        self.flows.open(from, to, peer, ordered)
    }

    /// Sends a short or medium request.
    #[inline]
    pub fn request(
        &mut self,
        now: impl Fn() -> Nanos,
        request: &Request<'_>,
        payload: &[u8],
    ) -> Pushed {
        let Self { flows, config, .. } = self;
        let Some(flow) = flows.get_mut(request.flow) else { return Pushed::Full };
        let cost = REQUEST_COST + payload.len() as u64;
        let (peer, ordered) = (flow.peer, flow.ordered);
        if flow.outstanding() + cost > config.credit_bytes && flow.outstanding() != 0 {
            // The outstanding bytes may be too few for the peer to report by itself.
            self.request_consumption_report(now, request.flow);
            return self.lost(peer).map_or(Pushed::Full, Pushed::Lost);
        }
        let route = Route { from: flow.from, to: flow.to, tag: request.tag };
        let (kind, handler) = (request.kind, request.handler);
        let head = FrameHead { kind, reply: false, handler, route, order: None, fragment: None };
        let pushed = self.push(now, peer, head, ordered, (request.words, payload), MAX_WAITING);
        if pushed == Pushed::Accepted
            && let Some(flow) = self.flows.get_mut(request.flow)
        {
            flow.spend(cost);
        }
        pushed
    }

    /// Sends a reply, or a request that is returned (`FrameKind::Returned`).
    #[inline]
    pub fn reply(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        head: (FrameKind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) -> Pushed {
        self.answer(now, peer, head, names, body, 2 * MAX_WAITING)
    }

    /// Tells the endpoint `to` how many bytes of its requests `from` has consumed in all.
    pub fn report(&mut self, now: impl Fn() -> Nanos, peer: u32, from: u64, to: u64, total: u64) {
        self.stats.credits_sent += 1;
        self.reply_anyway(&now, peer, (FrameKind::Credit, 0), (from, to), (&[total], &[]));
        // The sender of the requests may wait for nothing else.
        self.kick(now(), peer, true);
    }

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    pub fn request_consumption_report(&mut self, now: impl Fn() -> Nanos, flow: FlowId) -> bool {
        let Some(flow) = self.flows.get_mut(flow).filter(|flow| flow.outstanding() != 0) else {
            return false;
        };
        let (peer, from, to) = (flow.peer, flow.from, flow.to);
        if let Some(total) = flow.poll_credit_request() {
            self.reply_anyway(now, peer, (FrameKind::Ask, 0), (from, to), (&[total], &[]));
        }
        true
    }

    /// Sends a reply even if there is no room: for messages whose number is bounded by the peer's
    /// own requests, and those of a closing endpoint. Nothing is sent to a lost peer.
    pub fn reply_anyway(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        head: (FrameKind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) {
        let _ = self.answer(now, peer, head, names, body, usize::MAX);
    }

    #[inline]
    fn answer(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        (kind, handler): (FrameKind, u8),
        (from, to): (u64, u64),
        body: (&[u64], &[u8]),
        max_waiting: usize,
    ) -> Pushed {
        let route = Route { from, to, tag: 0 };
        let head = FrameHead { kind, reply: true, handler, route, order: None, fragment: None };
        self.push(now, peer, head, false, body, max_waiting)
    }

    #[inline]
    fn push(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        mut head: FrameHead,
        ordered: bool,
        (words, payload): (&[u64], &[u8]),
        max_waiting: usize,
    ) -> Pushed {
        let known = self.peers.get_mut(peer as usize).and_then(Option::as_mut);
        let Some(known) = known else { return Pushed::Lost(Refusal::NoSuchEndpoint) };
        if let Some(refusal) = known.lost {
            return Pushed::Lost(refusal);
        }
        let Some(connection) = known.connection.as_deref_mut() else {
            return match self.connection(now(), peer) {
                Some(_) => self.push(now, peer, head, ordered, (words, payload), max_waiting),
                None => Pushed::Full,
            };
        };
        let full = connection.outbox.waiting() >= max_waiting;
        if full && !connection.passes(&head, ordered, payload) {
            let at = now();
            self.kick(at, peer, false);
            return Pushed::Full;
        }
        if ordered {
            head.order = Some(connection.next_order);
            connection.next_order += 1;
        }
        let (first, whole) = (!connection.outbox.has_waiting(), connection.outbox.whole_units());
        connection.outbox.append(&head, words, payload);
        if first {
            let at = now();
            connection.opened_at = at;
            self.kick(at, peer, false);
        } else if connection.outbox.whole_units() > whole || connection.outbox.has_urgent() {
            let at = now();
            self.kick(at, peer, false);
        }
        Pushed::Accepted
    }

    /// Returns the reason for which a peer accepts nothing any more, if it is lost.
    fn lost(&self, peer: u32) -> Option<Refusal> {
        match self.peers.get(peer as usize) {
            Some(Some(peer)) => peer.lost,
            _ => Some(Refusal::NoSuchEndpoint),
        }
    }

    /// Returns the connection to `peer`, opened on first use.
    fn connection(&mut self, now: Nanos, peer: u32) -> Option<&mut PeerConnection> {
        let overhead = self.overhead;
        let known = self.peers.get_mut(peer as usize)?.as_mut()?;
        if known.connection.is_none() {
            let hint = self.driver.path_hint(known.address).unwrap_or(USUAL_DATAGRAM);
            let most = hint.min(self.driver.capabilities().max_datagram);
            let mut config = self.config.channel.clone();
            config.base_datagram_bytes = most.min(config.base_datagram_bytes);
            config.first_datagram_bytes = most.min(USUAL_DATAGRAM);
            // An interface that carries less than usual now may carry more later; until then it
            // refuses such probes.
            let reach = most.max(USUAL_DATAGRAM);
            config.datagram_candidates.retain(|&bytes| bytes <= reach && bytes != most);
            let longer = config.datagram_candidates.partition_point(|&bytes| bytes < most);
            config.datagram_candidates.insert(longer, most);
            let channel = Channel::new(&config, now);
            let datagram = channel.datagram_bytes();
            let capacity = datagram.saturating_sub(overhead) & !7;
            let (tail, covered) = (known.sealer.tag_bytes(), known.sealer.in_place());
            known.connection = Some(Box::new(PeerConnection {
                channel,
                outbox: Outbox::new(capacity, tail, covered, config.control_first),
                datagram,
                overhead,
                longest: datagram,
                told_narrow: false,
                unit_fragments: UnitFragments::default(),
                assembly: Reassembly::default(),
                order_in: OrderedMessages::default(),
                next_order: 0,
                sent_at: 0,
                control_until: 0,
                opened_at: now,
                looked_at: 0,
                touched: false,
                listed: false,
            }));
            self.talking.push(peer);
            self.share();
        }
        self.peers.get_mut(peer as usize)?.as_mut()?.connection.as_deref_mut()
    }

    /// Sets the bytes of buffers that may be kept for reuse beyond those in flight at one time, for
    /// all peers together. Long streams are faster with some; programs that count their memory set
    /// 0.
    pub fn set_spare(&mut self, bytes: usize) {
        self.spare = bytes;
        self.share();
    }

    /// Shares the socket's receive buffer among all channels, so that eight senders at once do not
    /// overrun it, and likewise the buffers kept for reuse.
    fn share(&mut self) {
        let connections = self.talking.len().max(1);
        let (buffer, spare) =
            (self.driver.capabilities().receive_buffer / 2 / connections, self.spare / connections);
        let window = u32::try_from(buffer.max(16 << 10)).unwrap_or(u32::MAX);
        for peer in self.peers.iter_mut().flatten() {
            if let Some(connection) = &mut peer.connection {
                connection.channel.set_receive_window(window);
                connection.outbox.set_growth(spare);
            }
        }
    }

    /// Takes the endpoints for which messages were queued since the last call, as bits.
    pub fn take_mailed(&mut self) -> u32 {
        std::mem::take(&mut self.mailed)
    }

    fn deliver(&mut self, index: u8, queued: QueuedMessage) {
        self.mailed |= 1_u32.wrapping_shl(u32::from(index));
        if let Some(place) = self.queued.get_mut(usize::from(index)) {
            place.push_back(queued);
        }
    }
}
