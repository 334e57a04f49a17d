//! A rank's way to the interfaces of other nodes: a stack of its own, and what waits to be sent on it.

use crate::driver::SimDriver;
use crate::interface::Trade;
use crate::switch::{Time, address_of};
use clump_net::original::Original;
use clump_net::seal::KeyError;
use clump_net::{
    Batch, Doors, FlowId, PeerAddress, Progress, Push, Refusal, Request, Sort, Stack, StackConfig,
};
use clump_rma::protocol::{TAG, interface_name};
use clump_rma::{Requester, Worded};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_wire::frame::Kind;
use std::collections::VecDeque;

/// What a request carries besides words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Load {
    Nothing,
    Bytes(Vec<u8>),
    /// To be deposited at this place of the interface's segment.
    Deposit(u64, Vec<u8>),
}

#[derive(Debug)]
struct Posted {
    node: u32,
    worded: Worded,
    load: Load,
    progress: Progress,
}

/// Lets in what is for one endpoint.
#[derive(Debug)]
struct OneDoor(u64);

impl Doors for OneDoor {
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Refusal> {
        match tag {
            _ if to != self.0 => Err(Refusal::NoSuchEndpoint),
            Some(TAG) | None => Ok(0),
            Some(_) => Err(Refusal::BadTag),
        }
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> Result<(), Refusal> {
        Err(Refusal::BadOffset)
    }

    fn deposit(&self, _to: u64, _offset: u64, _data: &[u8]) -> Result<(), Refusal> {
        Err(Refusal::BadOffset)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) stack: Stack,
    me: u64,
    interfaces: u32,
    memory: NodeMemory,
    outbox: VecDeque<Posted>,
}

impl Line {
    pub(crate) fn new(rank: u32, memory: &NodeMemory, trade: &Trade<'_>) -> Result<Self, KeyError> {
        let interfaces = memory.interface_id(0);
        let others = (0..memory.nnodes()).filter(|&node| node != memory.node());
        let peer = |node| {
            let id = interfaces + node;
            PeerAddress { id, address: address_of(id), epoch: 1 }
        };
        let config = StackConfig {
            me: rank,
            epoch: 1,
            security: trade.security,
            channel: trade.channel.clone(),
            credit_bytes: clump_am::credit_bytes(memory),
            peers: others.map(peer).collect(),
        };
        let me = Name::new(rank, 0, 1).to_bits();
        let driver = Box::new(SimDriver::new(trade.switch, rank));
        let stack = Stack::new(config, trade.key, driver, Box::new(OneDoor(me)))?;
        trade.switch.lock().attach(rank, true);
        let memory = memory.clone();
        Ok(Self { stack, me, interfaces, memory, outbox: VecDeque::new() })
    }

    /// Whether everything that was posted is on its way.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.outbox.is_empty()
    }

    pub(crate) fn post(&mut self, node: u32, worded: Worded, load: Load) {
        self.outbox.push_back(Posted { node, worded, load, progress: Progress::default() });
    }

    /// Sends what there is room for; how many requests that was.
    pub(crate) fn send(&mut self, at: Time, requester: &mut Requester) -> usize {
        let mut sent = 0;
        while let Some(posted) = self.outbox.front_mut() {
            let peer = self.interfaces + posted.node;
            let to = interface_name(&self.memory, posted.node).to_bits();
            let flow = self.stack.open_flow(self.me, to, peer, false);
            match attempt(&mut self.stack, at, flow, posted) {
                Push::Full => break,
                Push::Accepted => sent += 1,
                Push::Lost(_) => {
                    let Worded { handler, .. } = posted.worded;
                    requester.on_returned(posted.node, handler, posted.worded.words());
                }
            }
            self.outbox.pop_front();
        }
        sent
    }

    /// Receives once; gives how many packets and messages there were.
    pub(crate) fn receive(
        &mut self,
        at: Time,
        batch: &mut Batch,
        requester: &mut Requester,
    ) -> Result<usize, String> {
        let received = self.stack.receive(|| at, Some(0), batch);
        for number in 0..batch.len() {
            let mut words = clump_net::Words::default();
            let Some(arrival) = batch.arrival(number, &mut words) else { break };
            let (words, route) = (arrival.words(), arrival.route);
            match arrival.sort {
                Sort::Message(Kind::Short | Kind::Medium) if arrival.reply => {
                    requester.on_answer(arrival.handler, words, |to| {
                        let part = arrival.payload.len().min(to.len());
                        to[..part].copy_from_slice(&arrival.payload[..part]);
                        part
                    });
                }
                Sort::Message(Kind::Returned) => {
                    let (first, words) = words.split_first().unwrap_or((&0, &[]));
                    let original = Original::unpack(*first);
                    let words = own_words(original.kind == 3, words);
                    let node = Name::from_bits(route.from).rank() - self.interfaces;
                    requester.on_returned(node, original.handler, words);
                }
                Sort::Lost(kind @ (Kind::Short | Kind::Medium | Kind::Long), _) => {
                    let node = Name::from_bits(route.to).rank() - self.interfaces;
                    let words = own_words(kind == Kind::Long, words);
                    requester.on_returned(node, arrival.handler, words);
                }
                Sort::Lost(..) => {}
                Sort::Message(_) => return Err(format!("a rank was handed {arrival:x?}")),
            }
        }
        Ok(received + batch.len())
    }
}

/// A long message carries offset and length before its words.
fn own_words(long: bool, words: &[u64]) -> &[u64] {
    words.get(if long { 2 } else { 0 }..).unwrap_or_default()
}

fn attempt(stack: &mut Stack, at: Time, flow: FlowId, posted: &mut Posted) -> Push {
    let Posted { worded, load, progress, .. } = posted;
    let request = |kind, words| Request { flow, tag: TAG, kind, handler: worded.handler, words };
    match load {
        Load::Nothing => stack.request(|| at, &request(Kind::Short, worded.words()), &[]),
        Load::Bytes(bytes) => stack.request(|| at, &request(Kind::Medium, worded.words()), bytes),
        Load::Deposit(place, bytes) => {
            let words = [&[*place, bytes.len() as u64], worded.words()].concat();
            stack.request_long(|| at, &request(Kind::Long, &words), bytes, progress)
        }
    }
}
