//! Cost of a round trip of a short message from Rust; `cargo xtask c-speed` compares C with it.

use clump::am::{Endpoint, Handler, Tag, Token};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const TAG: Tag = Tag(0x5eed);
const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);
const BATCHES: usize = 200;
const ROUNDS: u64 = 1000;

fn main() -> clump::Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, TAG)?;
    let seen = Rc::new(Cell::new(0));
    let pong = seen.clone();
    ep.handler(PING, |token: Token, i: u64| token.reply(PONG, i))?;
    ep.handler(PONG, move |_, i: u64| pong.set(i))?;
    let ranks = cl.map_ranks(&ep)?;
    cl.barrier()?;
    if cl.rank() == 0 {
        let dest = ranks[1];
        let (mut times, mut at) = (Vec::new(), 0);
        for _ in 0..BATCHES {
            let start = clump_os::clock::now_ns();
            for _ in 0..ROUNDS {
                at += 1;
                ep.request(dest, PING, at)?;
                while seen.get() != at {
                    ep.poll()?;
                }
            }
            times.push(Duration::from_nanos(clump_os::clock::now_ns() - start));
        }
        times.sort();
        println!("{:.1}", times[BATCHES / 2].as_nanos() as f64 / ROUNDS as f64);
        ep.request(dest, PING, u64::MAX)?;
    } else if cl.rank() == 1 {
        // A rank that polls all the time, as the other does.
        let last = Rc::new(Cell::new(0));
        let note = last.clone();
        ep.handler(PING, move |token: Token, i: u64| {
            note.set(i);
            token.reply(PONG, i)
        })?;
        while last.get() != u64::MAX {
            ep.poll()?;
        }
    }
    cl.barrier()
}
