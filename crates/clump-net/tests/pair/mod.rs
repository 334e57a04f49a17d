//! Two stacks in one thread, on a wire with configured losses, and with a clock that is set.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

pub mod streams;

use clump_driver::{Capabilities, DriverError};
use clump_driver::{Driver, Hub, Inbound, Loopback, Outgoing};
use clump_net::seal::JobKey;
use clump_net::{
    Batch, EndpointTable, FlowId, PeerAddress, Progress, Stack, StackConfig, StreamUse,
};
use clump_wire::Security;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, Original, OwnedMessage, Reason, SendResult};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

pub const CREDIT: u64 = 256 << 10;
pub const MILLISECOND: u64 = 1_000_000;

pub fn address(id: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1000 + id as u16))
}

pub fn name(rank: u32, index: u8) -> u64 {
    u64::from(rank) << 40 | 1 << 8 | u64::from(index)
}

/// Deposits: offset and bytes.
pub type Deposits = Vec<(u64, Vec<u8>)>;

/// Endpoints 0 and 1 of a rank; tag 7.
#[derive(Debug, Clone, Default)]
pub struct TwoDoors {
    pub closed: Arc<Mutex<Vec<u64>>>,
    pub deposits: Arc<Mutex<Deposits>>,
    /// The segment of both, if bytes are received straight into it.
    pub memory: Arc<Mutex<Option<Vec<u8>>>>,
}

impl EndpointTable for TwoDoors {
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason> {
        match to as u8 {
            _ if self.closed.lock().unwrap().contains(&to) => Err(Reason::EndpointGone),
            2.. => Err(Reason::NoSuchEndpoint),
            _ if tag.is_some_and(|tag| tag != 7) => Err(Reason::BadTag),
            index => Ok(index),
        }
    }

    fn fits(&self, _to: u64, offset: u64, bytes: u64) -> Result<(), Reason> {
        if offset > 1 << 20 {
            return Err(Reason::BadOffset);
        }
        if offset + bytes > 1 << 20 { Err(Reason::BadLength) } else { Ok(()) }
    }

    fn deposit(&self, _to: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        self.deposits.lock().unwrap().push((offset, data.to_vec()));
        if let Some(memory) = &mut *self.memory.lock().unwrap() {
            memory[offset as usize..][..data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    fn with_segment_bytes(
        &self,
        (to, offset, bytes): (u64, u64, u64),
        work: &mut dyn FnMut(&mut [u8]),
    ) -> bool {
        let mut memory = self.memory.lock().unwrap();
        let Some(memory) = memory.as_mut().filter(|_| self.fits(to, offset, bytes).is_ok()) else {
            return false;
        };
        work(&mut memory[offset as usize..][..bytes as usize]);
        true
    }
}

/// The treatment of one side's datagrams by a wire.
#[derive(Debug, Default)]
pub struct Wire {
    /// Datagrams of these numbers, counted from 0, are lost.
    pub lose: Vec<u64>,
    /// Datagrams from this number on are lost.
    pub lose_from: Option<u64>,
    /// Packets of this unit are lost.
    pub lose_unit: Option<u64>,
    /// All datagrams are lost.
    pub cut: bool,
    /// Longer datagrams are lost.
    pub most: Option<usize>,
    /// Longer datagrams are refused.
    pub card: Option<usize>,
    /// Datagrams that are taken until there is room again.
    pub room: Option<u64>,
    /// Calls of which not all datagrams were taken.
    pub full: u64,
    pub sent: u64,
    /// All datagrams that were sent, lost or not.
    pub copies: Vec<Vec<u8>>,
}

pub type SharedWire = Arc<Mutex<Wire>>;

#[derive(Debug)]
struct Lossy {
    inside: Loopback,
    wire: SharedWire,
    hint: usize,
}

impl Driver for Lossy {
    fn capabilities(&self) -> &Capabilities {
        self.inside.capabilities()
    }

    fn local(&self) -> SocketAddr {
        self.inside.local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        for (index, outgoing) in batch.iter().enumerate() {
            let mut wire = self.wire.lock().unwrap();
            if wire.room == Some(0) {
                wire.full += 1;
                return Ok(index);
            }
            wire.room = wire.room.map(|room| room - 1);
            let mut copy = Vec::new();
            outgoing.append_to(&mut copy);
            let bytes = copy.len();
            if wire.card.is_some_and(|card| bytes > card) {
                return Err(DriverError::Oversized { index, bytes, to: outgoing.to });
            }
            let long = wire.most.is_some_and(|most| bytes > most);
            let unit = clump_wire::Packet::parse(&copy).ok().map(|packet| packet.header);
            let unit = unit.filter(|header| {
                matches!(
                    header.kind,
                    clump_wire::PacketKind::Data | clump_wire::PacketKind::Fragment
                )
            });
            let named =
                wire.lose_unit.is_some() && unit.map(|header| header.unit) == wire.lose_unit;
            wire.copies.push(copy);
            let number = wire.sent;
            wire.sent += 1;
            let late = wire.lose_from.is_some_and(|from| number >= from);
            if wire.cut || late || long || named || wire.lose.contains(&number) {
                continue;
            }
            drop(wire);
            self.inside.send(&[*outgoing])?;
        }
        Ok(batch.len())
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        self.inside.receive(into)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn path_hint(&self, _to: SocketAddr) -> Option<usize> {
        Some(self.wire.lock().unwrap().card.map_or(self.hint, |card| card.min(self.hint)))
    }
}

/// One of the two stacks, and its endpoints and wire.
pub struct Side {
    pub stack: Stack,
    pub endpoints: TwoDoors,
    pub wire: SharedWire,
    pub batch: Batch,
}

/// Ranks 0 and 1.
pub struct Pair {
    pub now: u64,
    pub sides: [Side; 2],
    pub hub: Hub,
    pub outsider: Loopback,
}

pub fn config(me: u32, security: Security) -> StackConfig {
    let other = 1 - me;
    StackConfig {
        me,
        epoch: 10 + me,
        security,
        channel: clump_proto::Config::default(),
        credit_bytes: CREDIT,
        peers: Arc::new(vec![PeerAddress {
            id: other,
            address: address(other),
            epoch: 10 + other,
        }]),
    }
}

/// Returns the words that its sender gave to a message, which has arrived or come back.
pub fn given(message: &OwnedMessage) -> &[u64] {
    if message.kind == FrameKind::Returned { original(message).2 } else { &message.words }
}

/// Returns kind, reason and words of the message that has come back as `message`.
pub fn original(message: &OwnedMessage) -> (FrameKind, Reason, &[u64]) {
    assert_eq!(message.kind, FrameKind::Returned);
    let (first, words) = message.words.split_first().unwrap();
    let Original { kind, reason, .. } = Original::unpack(*first);
    (FrameKind::from_bits(kind).unwrap(), Reason::from_bits(reason).unwrap(), words)
}

impl Pair {
    pub fn new(security: Security) -> Self {
        Self::over(security, 1472)
    }

    /// Creates a pair over a path of which the driver reports that it carries datagrams of `hint`
    /// bytes.
    pub fn over(security: Security, hint: usize) -> Self {
        Self::with_credit(security, hint, CREDIT)
    }

    /// Creates a pair where so many bytes of requests may be unconsumed in each direction.
    pub fn with_credit(security: Security, hint: usize, credit_bytes: u64) -> Self {
        let hub = Hub::default();
        let key = JobKey::new(&mut [3; 32]).unwrap();
        let side = |me| {
            let wire = SharedWire::default();
            let inside = hub.attach(address(me)).unwrap();
            let driver = Box::new(Lossy { inside, wire: wire.clone(), hint });
            let endpoints = TwoDoors::default();
            let config = StackConfig { credit_bytes, ..config(me, security) };
            let stack = Stack::new(config, &key, driver, Box::new(endpoints.clone()));
            Side { stack: stack.unwrap(), endpoints, wire, batch: Batch::default() }
        };
        let sides = [side(0), side(1)];
        let outsider = hub.attach(address(9)).unwrap();
        Self { now: MILLISECOND, sides, hub, outsider }
    }

    /// Creates a pair that sends bulk by streams.
    pub fn with_streams(security: Security) -> (Self, streams::StreamHub) {
        let mut pair = Self::with_credit(security, 1472, 64 << 20);
        let hub = streams::StreamHub::default();
        let key = JobKey::new(&mut [3; 32]).unwrap();
        for side in &mut pair.sides {
            side.stack.set_streams(Box::new(hub.clone()), &key, StreamUse::ALWAYS).unwrap();
        }
        (pair, hub)
    }

    /// Opens a flow from endpoint 0 of rank 0 to endpoint `index` of rank 1.
    pub fn flow(&mut self, index: u8, ordered: bool) -> FlowId {
        self.sides[0].stack.open_flow(name(0, 0), name(1, index), 1, ordered)
    }

    /// Opens an ordered flow from endpoint `from` of rank 0 to endpoint 0 of rank 1.
    pub fn ordered_from(&mut self, from: u8) -> FlowId {
        self.sides[0].stack.open_flow(name(0, from), name(1, 0), 1, true)
    }

    pub fn send(&mut self, flow: FlowId, words: &[u64], payload: &[u8]) -> SendResult {
        let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
        let route = self.sides[0].stack.route_of(flow, 7).unwrap();
        let request = Message::request((kind, 1), route, (words, payload));
        let now = self.now;
        self.sides[0].stack.request(|| now, flow, &request)
    }

    /// Sends a long message of rank 0, or goes on with it.
    pub fn send_long(
        &mut self,
        flow: FlowId,
        words: &[u64],
        payload: &[u8],
        progress: &mut Progress,
    ) -> SendResult {
        let now = self.now;
        let stack = &mut self.sides[0].stack;
        let route = stack.route_of(flow, 7).unwrap();
        let request = Message::request((FrameKind::Long, 1), route, (words, payload));
        stack.request_long(|| now, flow, &request, progress)
    }

    /// Polls side `at` once for endpoint `wanted`.
    pub fn look(&mut self, at: usize, wanted: Option<u8>) -> Vec<OwnedMessage> {
        let now = self.now;
        let Side { stack, batch, .. } = &mut self.sides[at];
        stack.receive(|| now, wanted, batch);
        let queued = |at| batch.arrival(at, &mut clump_net::Words::default()).unwrap().to_owned();
        let queued = (0..batch.len()).map(queued).collect();
        stack.service(now, true);
        stack.acknowledge_all(now);
        stack.check_invariants();
        queued
    }

    /// Polls both sides, for endpoint 0 each, while time goes by; returns the messages of each.
    pub fn drain(&mut self) -> [Vec<OwnedMessage>; 2] {
        self.drain_for([Some(0), Some(0)])
    }

    pub fn drain_for(&mut self, wanted: [Option<u8>; 2]) -> [Vec<OwnedMessage>; 2] {
        let mut got = [Vec::new(), Vec::new()];
        for _ in 0..400 {
            for at in 0..2 {
                got[at].extend(self.look(at, wanted[at]));
            }
            self.now += MILLISECOND / 4;
        }
        got
    }

    /// Sends a datagram to side `at` from a third address.
    pub fn inject(&mut self, at: u32, datagram: &[u8]) {
        let outgoing = Outgoing { to: address(at), head: datagram, body: &[], tail: &[] };
        assert_eq!(self.outsider.send(&[outgoing]).unwrap(), 1);
    }

    /// Returns the datagrams that side `at` has sent so far.
    pub fn sent(&self, at: usize) -> Vec<Vec<u8>> {
        self.sides[at].wire.lock().unwrap().copies.clone()
    }
}
