//! The hot paths of active messages, each in a function of its own, for `cargo xtask icount`.
//!
//! Two endpoints of one rank talk to each other on one thread, so that callgrind sees every
//! instruction and nothing waits. A constant of its own keeps equal paths from being merged. Prints
//! `NAME ITERATIONS` for each path.

use clump_am::{Dest, Endpoint, Handler, RankContext, Settings, SharedEndpoint, Tag};
use clump_driver::Hub;
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, FlowId, PeerAddress, Stack, StackConfig, Words};
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_wire::Security;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, Reason};
use std::cell::Cell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

const ROUNDS: u64 = 10_000;
const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
const SINK: Handler = Handler(3);

#[inline(never)]
extern "C" fn icount_request_short(ep: &Endpoint, dest: Dest, i: u64) {
    black_box(1u8);
    let _ = black_box(ep.try_request(dest, SINK, &[i]));
}

#[inline(never)]
extern "C" fn icount_request_eight_words(ep: &Endpoint, dest: Dest, i: u64) {
    black_box(2u8);
    let _ = black_box(ep.try_request(dest, SINK, &[i; 8]));
}

#[inline(never)]
extern "C" fn icount_receive_short(ep: &SharedEndpoint) {
    black_box(3u8);
    let _ = black_box(ep.poll());
}

#[inline(never)]
extern "C" fn icount_receive_and_reply(ep: &SharedEndpoint) {
    black_box(4u8);
    let _ = black_box(ep.poll());
}

#[inline(never)]
extern "C" fn icount_receive_eight_words(ep: &SharedEndpoint) {
    black_box(5u8);
    let _ = black_box(ep.poll());
}

#[inline(never)]
extern "C" fn icount_receive_reply(ep: &Endpoint) {
    black_box(6u8);
    let _ = black_box(ep.poll());
}

#[inline(never)]
extern "C" fn icount_empty_poll(ep: &Endpoint) {
    black_box(7u8);
    let _ = black_box(ep.poll());
}

#[inline(never)]
extern "C" fn icount_request_medium_64(ep: &Endpoint, dest: Dest, data: &[u8; 64]) {
    black_box(8u8);
    let _ = black_box(ep.request_bulk(dest, SINK, data, &[]));
}

/// A short request of an endpoint to itself: sent, and handled by the poll that belongs to sending.
#[inline(never)]
extern "C" fn icount_self_request(ep: &Endpoint, dest: Dest, i: u64) {
    black_box(10u8);
    let _ = black_box(ep.request(dest, SINK, &[i, i]));
}

/// A short request to the endpoint itself, and its reply, both handled.
#[inline(never)]
extern "C" fn icount_self_round_trip(ep: &Endpoint, dest: Dest, i: u64) {
    black_box(11u8);
    let _ = black_box(ep.request(dest, ASK, &[i, i]));
    let _ = black_box(ep.poll());
}

/// A short request to another endpoint, and the poll that belongs to sending.
#[inline(never)]
extern "C" fn icount_request_and_poll(ep: &Endpoint, dest: Dest, i: u64) {
    black_box(12u8);
    let _ = black_box(ep.request(dest, SINK, &[i, i]));
}

/// A short request and its reply through two stacks, with checksums, over a hub in this process
/// (whose cost is in it: about a seventh).
#[inline(never)]
extern "C" fn icount_network_round_trip(pair: &mut Pair, i: u64) {
    black_box(9u8);
    // Not the machine's clock: which timers are due would depend on its speed.
    let (time, mut words) = (&pair.now_ns, Words::default());
    let now = || {
        time.set(time.get() + CALL_NS);
        time.get()
    };
    let words_in = [i];
    let Some(route) = pair.here.route_of(pair.flow, 1) else { return };
    let request = Message::request((FrameKind::Short, 1), route, (&words_in, &[]));
    let _ = black_box(pair.here.request(now, pair.flow, &request));
    pair.there.receive(now, Some(0), &mut pair.batch);
    for at in 0..pair.batch.len() {
        let Some(arrival) = pair.batch.arrival(at, &mut words) else { break };
        let names = (arrival.route.to, arrival.route.from);
        let reply = Message::answer((FrameKind::Short, 2), names, (arrival.words, &[]));
        let _ = pair.there.reply(now, 0, &reply);
    }
    pair.there.service(now(), true);
    pair.here.receive(now, Some(0), &mut pair.batch);
    for at in 0..pair.batch.len() {
        black_box(pair.batch.arrival(at, &mut words).map(|arrival| arrival.words.len()));
    }
    pair.here.service(now(), true);
}

/// Time between two readings of the stacks' clock: a round trip takes some 5 us.
const CALL_NS: u64 = 500;

/// Two connected stacks.
struct Pair {
    here: Stack,
    there: Stack,
    flow: FlowId,
    batch: Batch,
    now_ns: Cell<u64>,
}

/// Endpoints that accept everything.
struct Open;

impl EndpointTable for Open {
    fn admit(&self, _: u64, _: Option<u64>) -> Result<u8, Reason> {
        Ok(0)
    }

    fn fits(&self, _: u64, _: u64, _: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn deposit(&self, _: u64, _: u64, _: &[u8]) -> Result<(), Reason> {
        Ok(())
    }
}

impl Pair {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let hub = Hub::default();
        let address = |id: u32| SocketAddr::from(([10, 0, 0, 1], 1 + id as u16));
        let name = |rank: u64| rank << 40 | 1;
        let stack = |me: u32| -> Result<Stack, Box<dyn std::error::Error>> {
            let peer = PeerAddress { id: 1 - me, address: address(1 - me), epoch: 1 };
            let config = StackConfig {
                me,
                epoch: 1,
                security: Security::Crc,
                channel: clump_proto::Config::default(),
                // No report of consumption is needed, so none is counted.
                credit_bytes: 1 << 40,
                peers: Arc::new(vec![peer]),
            };
            let driver = Box::new(hub.attach(address(me))?);
            Ok(Stack::new(config, &JobKey::new(&mut [7; 32])?, driver, Box::new(Open))?)
        };
        let (mut here, there) = (stack(0)?, stack(1)?);
        let flow = here.open_flow(name(0), name(1), 1, false);
        Ok(Self { here, there, flow, batch: Batch::default(), now_ns: Cell::new(1_000_000) })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = NodeConfig { spin_ns: 1000, yield_ns: 1000, ..NodeConfig::new(1) };
    let node = NodeMemory::create(&config)?;
    let context = Arc::new(RankContext::new(&node, 0, Settings::default())?);
    let here = Endpoint::open(&context, Tag(1))?;
    let there = Endpoint::open_shared(&context, Tag(1))?;
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    here.set_handler(ANSWER, move |_, words, _| count.set(words[0]))?;
    there.set_handler(ASK, |token, words, _| token.reply(ANSWER, words))?;
    there.set_handler(SINK, |_, _, _| ())?;
    let dest = here.map(&there.name(), Tag(1))?;
    let own = Endpoint::open(&context, Tag(1))?;
    let count = seen.clone();
    own.set_handler(ANSWER, move |_, words, _| count.set(words[0]))?;
    own.set_handler(ASK, |token, words, _| token.reply(ANSWER, words))?;
    own.set_handler(SINK, |_, _, _| ())?;
    let to_itself = own.map(&own.name(), Tag(1))?;
    let data = [7; 64];
    let mut pair = Pair::new()?;
    for i in 0..ROUNDS {
        icount_request_short(&here, dest, i);
        icount_receive_short(&there);
        icount_request_eight_words(&here, dest, i);
        icount_receive_eight_words(&there);
        icount_request_medium_64(&here, dest, &data);
        there.poll()?;
        here.request(dest, ASK, &[i])?;
        icount_receive_and_reply(&there);
        icount_receive_reply(&here);
        icount_empty_poll(&here);
        icount_request_and_poll(&here, dest, i);
        there.poll()?;
        icount_self_request(&own, to_itself, i);
        icount_self_round_trip(&own, to_itself, i);
        icount_network_round_trip(&mut pair, i);
    }
    for path in [
        "icount_request_short",
        "icount_receive_short",
        "icount_request_eight_words",
        "icount_receive_eight_words",
        "icount_request_medium_64",
        "icount_receive_and_reply",
        "icount_receive_reply",
        "icount_empty_poll",
        "icount_network_round_trip",
        "icount_request_and_poll",
        "icount_self_request",
        "icount_self_round_trip",
    ] {
        println!("{path} {ROUNDS}");
    }
    Ok(())
}
