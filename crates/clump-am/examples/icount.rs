//! The hot paths of active messages, each in a function of its own, for `cargo xtask icount`.
//!
//! Two endpoints of one rank talk to each other on one thread, so that callgrind sees every
//! instruction and nothing waits. A constant of its own keeps equal paths from being merged. Prints `NAME ITERATIONS` for each path.

use clump_am::{Dest, Endpoint, Handler, RankContext, Settings, SharedEndpoint, Tag};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::cell::Cell;
use std::hint::black_box;
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = NodeConfig {
        ranks: 1,
        node: 0,
        node_of: &[],
        job_id: 1,
        survive: false,
        spin_ns: 1000,
        yield_ns: 1000,
    };
    let node = NodeMemory::create(&config)?;
    let context = Arc::new(RankContext::new(&node, 0, Settings::default())?);
    let here = Endpoint::open(&context, Tag(1))?;
    let there = Endpoint::open_shared(&context, Tag(1))?;
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    here.set_handler(ANSWER, move |_, words, _| count.set(words[0]));
    there.set_handler(ASK, |token, words, _| token.reply(ANSWER, words));
    there.set_handler(SINK, |_, _, _| ());
    let dest = here.map(&there.name(), Tag(1))?;
    let data = [7; 64];
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
    ] {
        println!("{path} {ROUNDS}");
    }
    Ok(())
}
