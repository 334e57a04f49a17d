//! A rank's connection to the interfaces of other nodes: a stack of its own, or the proxies of its
//! node; and the outbox of requests.

use crate::interface::InterfaceEnvironment;
use crate::kernel::{SimDriver, Time, address_of};
use crate::proxy_client_rank::ProxyClientRank;
use clump_net::{Batch, EndpointTable, FlowId, PeerAddress, Progress, Stack, StackConfig};
use clump_onesided::protocol::{TAG, interface_name, tell};
use clump_onesided::{EncodedRequest, Requester, Successor};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_transport::{Dispatch, Transport, Urgency, gone_peers};
use clump_wire::frame::{FrameKind, Route, stack_of};
use clump_wire::{Message, Original, Reason, SendResult};
use std::collections::VecDeque;
use std::sync::Arc;

/// Interval at which a rank checks again for room at its proxy (`clump-am`).
const NAP_FOR_ROOM: Time = 200_000;

/// Data that a request carries besides words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperationPayload {
    Nothing,
    Bytes(Vec<u8>),
    /// To be deposited at this offset of the interface's segment.
    Deposit(u64, Vec<u8>),
}

#[derive(Debug)]
struct Posted {
    node: u32,
    encoded: EncodedRequest,
    load: OperationPayload,
    progress: Progress,
}

/// Endpoint table that admits messages for one endpoint only.
#[derive(Debug)]
struct SingleEndpoint(u64);

impl EndpointTable for SingleEndpoint {
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason> {
        match tag {
            _ if to != self.0 => Err(Reason::NoSuchEndpoint),
            Some(TAG) | None => Ok(0),
            Some(_) => Err(Reason::BadTag),
        }
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> Result<(), Reason> {
        Err(Reason::BadOffset)
    }

    fn deposit(&self, _to: u64, _offset: u64, _data: &[u8]) -> Result<(), Reason> {
        Err(Reason::BadOffset)
    }
}

/// Transport of a rank's messages.
#[derive(Debug)]
enum LineTransport {
    Own(Box<Stack>),
    Proxies(Box<ProxyClientRank>),
}

/// A rank's transport and its outbox.
#[derive(Debug)]
pub(crate) struct CallerLine {
    way: LineTransport,
    me: u64,
    memory: NodeMemory,
    outbox: VecDeque<Posted>,
}

impl CallerLine {
    /// Creates the line of a rank of a node whose interfaces already exist.
    pub(crate) fn new(
        rank: u32,
        memory: &NodeMemory,
        trade: &InterfaceEnvironment<'_>,
    ) -> anyhow::Result<Self> {
        let me = Name::new(rank, 0, 1).to_bits();
        let way = if memory.proxies() == 0 {
            LineTransport::Own(Box::new(own_stack((rank, me), memory, trade)?))
        } else {
            LineTransport::Proxies(Box::new(ProxyClientRank::open(
                memory,
                (rank, TAG),
                Dispatch::RoundRobin,
                0,
            )?))
        };
        Ok(Self { way, me, memory: memory.clone(), outbox: VecDeque::new() })
    }

    pub(crate) fn is_by_proxies(&self) -> bool {
        matches!(self.way, LineTransport::Proxies(_))
    }

    /// Describes its state, for a failure report.
    pub(crate) fn describe(&self) -> String {
        match &self.way {
            LineTransport::Own(stack) => stack.describe(),
            LineTransport::Proxies(_) => "by proxies".to_owned(),
        }
    }

    /// Gives up peers that have died or left.
    pub(crate) fn housekeeping(&mut self) {
        match &mut self.way {
            LineTransport::Own(stack) => {
                for (peer, why) in gone_peers(stack, &self.memory) {
                    stack.lose(peer, why);
                }
            }
            LineTransport::Proxies(client_rank) => {
                if let Some(block) = self.memory.rank(stack_of(self.me)) {
                    client_rank.client.housekeeping(&self.memory, &block);
                }
            }
        }
    }

    /// Sends what is due.
    pub(crate) fn service(&mut self, at: Time, busy: bool) {
        match &mut self.way {
            LineTransport::Own(stack) => stack.service(at, busy),
            LineTransport::Proxies(client_rank) => drop(client_rank.client.flush(Urgency::Due)),
        }
    }

    /// Does what the backstop of a locked stack does while the rank computes. Returns
    /// true if nothing was left to do, and `None` where proxies carry messages: those need no
    /// backstop.
    pub(crate) fn run_backstop(&mut self, at: Time, batch: &mut Batch) -> Option<bool> {
        let LineTransport::Own(stack) = &mut self.way else { return None };
        while stack.receive(|| at, None, batch) > 0 {}
        stack.service(at, true);
        stack.acknowledge_all(at);
        let _ = stack.take_newly_queued();
        Some(stack.is_quiet())
    }

    /// Prepares for sleep. Returns the time at which to poll again.
    pub(crate) fn before_sleep(&mut self, at: Time) -> Option<Time> {
        match &mut self.way {
            LineTransport::Own(stack) => {
                stack.service(at, true);
                stack.acknowledge_all(at);
                stack.next_timeout()
            }
            LineTransport::Proxies(client_rank) => {
                client_rank.arm_notifications();
                let kept = client_rank.client.flush(Urgency::Sleep).is_some();
                let full = kept || !self.outbox.is_empty();
                full.then_some(at + NAP_FOR_ROOM)
            }
        }
    }

    /// Returns true if anything has arrived meanwhile; called after a sleep was announced.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        match &mut self.way {
            LineTransport::Own(_) => false,
            LineTransport::Proxies(client_rank) => client_rank.anything_waiting(),
        }
    }

    /// Begins the close handshake with proxies, if there are any. Returns the number of proxies
    /// that will report when everything has arrived.
    pub(crate) fn begin_close(&mut self) -> u32 {
        if let LineTransport::Proxies(client_rank) = &self.way {
            client_rank.client.begin_close();
        }
        self.memory.proxies()
    }

    /// Returns true if everything that was posted has been sent.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.outbox.is_empty()
    }

    pub(crate) fn post(&mut self, node: u32, encoded: EncodedRequest, load: OperationPayload) {
        self.outbox.push_back(Posted { node, encoded, load, progress: Progress::default() });
    }

    /// Sends what there is room for. Returns the number of requests sent.
    pub(crate) fn send(&mut self, at: Time, requester: &mut Requester) -> usize {
        let mut sent = 0;
        while let Some(posted) = self.outbox.front_mut() {
            let to = interface_name(&self.memory, posted.node).to_bits();
            match self.way.attempt(at, (self.me, to), posted) {
                SendResult::Full => break,
                SendResult::Sent => sent += 1,
                SendResult::Refused(_) => {
                    let EncodedRequest { handler, .. } = posted.encoded;
                    requester.on_returned(posted.node, handler, posted.encoded.words());
                }
            }
            self.outbox.pop_front();
        }
        sent
    }

    /// Grants a lock to its successor. Returns false if there is no room now, and within a node,
    /// whose ranks' endpoints cannot reach each other here.
    pub(crate) fn grant(&mut self, at: Time, successor: &Successor, word: u64) -> bool {
        if self.memory.is_local(successor.name.rank()) {
            return false;
        }
        let flow = self.way.open_flow((self.me, successor.name.to_bits()));
        let words = successor.grant(word);
        let handler = tell::GRANTED;
        let route = Route { from: self.me, to: successor.name.to_bits(), tag: TAG };
        let request = Message::request((FrameKind::Short, handler), route, (&words, &[]));
        self.way.request(at, flow, &request, &mut Progress::default()) == SendResult::Sent
    }

    /// Receives once. Returns the number of packets and messages.
    pub(crate) fn receive(
        &mut self,
        at: Time,
        batch: &mut Batch,
        requester: &mut Requester,
    ) -> Result<usize, String> {
        let memory = &self.memory;
        match &mut self.way {
            LineTransport::Own(stack) => {
                let received = stack.receive(|| at, Some(0), batch);
                for number in 0..batch.len() {
                    let mut words = clump_net::Words::default();
                    let Some(arrival) = batch.arrival(number, &mut words) else { break };
                    handle_answer(memory, &arrival, requester)?;
                }
                Ok(received + batch.len())
            }
            LineTransport::Proxies(client_rank) => {
                client_rank.set_time(at);
                let came = client_rank.take().map_err(|e| e.to_string())?;
                for queued in &came {
                    handle_answer(memory, &queued.message(), requester)?;
                }
                Ok(came.len())
            }
        }
    }
}

fn own_stack(
    (rank, me): (u32, u64),
    memory: &NodeMemory,
    trade: &InterfaceEnvironment<'_>,
) -> anyhow::Result<Stack> {
    // Interfaces of other nodes, and their ranks, to which locks are passed.
    let ranks = (0..memory.interface_id(0)).filter(|&rank| !memory.is_local(rank));
    let others = (0..memory.nnodes()).filter(|&node| node != memory.node());
    let others = ranks.chain(others.map(|node| memory.interface_id(node)));
    let peer = |id| PeerAddress { id, address: address_of(id), epoch: 1 };
    let config = StackConfig {
        me: rank,
        epoch: 1,
        security: trade.security,
        channel: trade.channel.clone(),
        credit_bytes: clump_transport::credit_bytes(memory),
        peers: Arc::new(others.map(peer).collect::<Vec<_>>()),
    };
    let driver = Box::new(SimDriver::new(trade.switch, rank));
    let stack = Stack::new(config, trade.key, driver, Box::new(SingleEndpoint(me)))?;
    trade.switch.lock().attach(rank, true);
    Ok(stack)
}

/// Takes in an answer, or a request that was returned.
fn handle_answer(
    memory: &NodeMemory,
    arrival: &Message<'_>,
    requester: &mut Requester,
) -> Result<(), String> {
    let (words, route) = (arrival.words, arrival.route);
    let node_of = |name| memory.node_of_interface(Name::from_bits(name).rank());
    match arrival.kind {
        FrameKind::Short | FrameKind::Medium
            if arrival.reply || arrival.handler == tell::GRANTED =>
        {
            requester.on_answer(arrival.handler, words, |to| {
                let part = arrival.payload.len().min(to.len());
                to[..part].copy_from_slice(&arrival.payload[..part]);
                part
            });
        }
        FrameKind::Returned => {
            let (first, words) = words.split_first().unwrap_or((&0, &[]));
            let original = Original::unpack(*first);
            let words = own_words(original.kind == 3, words);
            let Some(node) = node_of(route.from) else {
                return handle_returned_handover(original.handler);
            };
            requester.on_returned(node, original.handler, words);
        }
        _ => return Err(format!("a rank was handed {arrival:x?}")),
    }
    Ok(())
}

/// Checks a request to a rank that was returned. One that passed a lock may be: its home is
/// notified of lost ranks.
fn handle_returned_handover(handler: u8) -> Result<(), String> {
    let passed = handler == tell::GRANTED;
    passed.then_some(()).ok_or_else(|| format!("request {handler} to a rank came back"))
}

/// Returns the words of the request: a long message carries offset and length before them.
fn own_words(long: bool, words: &[u64]) -> &[u64] {
    words.get(if long { 2 } else { 0 }..).unwrap_or_default()
}

impl LineTransport {
    fn open_flow(&mut self, (from, to): (u64, u64)) -> FlowId {
        match self {
            Self::Own(stack) => stack.open_flow(from, to, stack_of(to), false),
            Self::Proxies(client_rank) => client_rank.client.open_flow(from, to, false),
        }
    }

    fn attempt(&mut self, at: Time, ends: (u64, u64), posted: &mut Posted) -> SendResult {
        let flow = self.open_flow(ends);
        let Posted { encoded, load, progress, .. } = posted;
        let handler = encoded.handler;
        let route = Route { from: ends.0, to: ends.1, tag: TAG };
        let (kind, bytes): (_, &[u8]) = match load {
            OperationPayload::Nothing => (FrameKind::Short, &[]),
            OperationPayload::Bytes(bytes) => (FrameKind::Medium, bytes),
            OperationPayload::Deposit(place, bytes) => {
                let words = [&[*place, bytes.len() as u64], encoded.words()].concat();
                let request = Message::request((FrameKind::Long, handler), route, (&words, bytes));
                return self.request(at, flow, &request, progress);
            }
        };
        let request = Message::request((kind, handler), route, (encoded.words(), bytes));
        self.request(at, flow, &request, progress)
    }

    fn request(
        &mut self,
        at: Time,
        flow: FlowId,
        message: &Message<'_>,
        progress: &mut Progress,
    ) -> SendResult {
        match self {
            Self::Own(stack) if message.kind == FrameKind::Long => {
                stack.request_long(|| at, flow, message, progress)
            }
            Self::Own(stack) => stack.request(|| at, flow, message),
            Self::Proxies(client_rank) => client_rank.client.send(flow, message, progress),
        }
    }
}
