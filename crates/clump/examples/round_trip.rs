//! Cost of a round trip of a short message from Rust; `cargo xtask c-speed` compares C with it.

use clump::am::{Endpoint, Handler, Tag};
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
    ep.set_handler(PING, |token, words, _| token.reply(PONG, &[words[0]]));
    ep.set_handler(PONG, move |_, words, _| pong.set(words[0]));
    let names = cl.all_gather(ep.name())?;
    cl.barrier()?;
    if cl.rank() == 0 {
        let dest = ep.map(&names[1], TAG)?;
        let (mut times, mut at) = (Vec::new(), 0);
        for _ in 0..BATCHES {
            let start = clump_os::clock::now_ns();
            for _ in 0..ROUNDS {
                at += 1;
                ep.request(dest, PING, &[at])?;
                while seen.get() != at {
                    ep.poll()?;
                }
            }
            times.push(Duration::from_nanos(clump_os::clock::now_ns() - start));
        }
        times.sort();
        println!("{:.1}", times[BATCHES / 2].as_nanos() as f64 / ROUNDS as f64);
        ep.request(dest, PING, &[u64::MAX])?;
    } else {
        // A rank that polls all the time, as the other does.
        let last = Rc::new(Cell::new(0));
        let note = last.clone();
        ep.set_handler(PING, move |token, words, _| {
            note.set(words[0]);
            token.reply(PONG, &[words[0]])
        });
        while last.get() != u64::MAX {
            ep.poll()?;
        }
    }
    cl.barrier()
}
