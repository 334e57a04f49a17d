//! Every rank asks the next one a thousand times: `clump run -n 2 target/debug/examples/ping`.

use clump::am::{Endpoint, Handler, Tag};
use std::cell::Cell;
use std::rc::Rc;

const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);

fn main() -> clump::Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(0x5eed))?; // the tag is the right to send to it
    let seen = Rc::new(Cell::new(0));
    let pong = seen.clone();
    ep.set_handler(PING, |token, words, _| token.reply(PONG, &[words[0] + 1]));
    ep.set_handler(PONG, move |_, words, _| pong.set(words[0]));
    ep.on_returned(|m| eprintln!("to {}: came back: {}", m.dest, m.reason));
    let names = cl.all_gather(ep.name())?; // all ranks' endpoints
    let next = ep.map(&names[(cl.rank() + 1) % cl.nranks()], Tag(0x5eed))?;
    for i in 0..1000 {
        ep.request(next, PING, &[i])?;
        ep.poll_until(|| seen.get() == i + 1)?;
    }
    println!("rank {} of {}: last answer {}", cl.rank(), cl.nranks(), seen.get());
    cl.barrier()
}
