//! Every rank asks the next one a thousand times: `clump run -n 2 target/debug/examples/ping`.

use clump::am::{Endpoint, Handler, Tag, Token};
use std::cell::Cell;
use std::rc::Rc;

const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);

fn main() -> clump::Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(0x5eed))?; // the tag is the right to send to it
    let seen = Rc::new(Cell::new(0));
    let pong = seen.clone();
    ep.handler(PING, |token: Token, i: u64| token.reply(PONG, i + 1))?;
    ep.handler(PONG, move |_, i: u64| pong.set(i))?;
    ep.on_returned(|m| eprintln!("to {}: came back: {}", m.dest, m.reason))?;
    let ranks = cl.map_ranks(&ep)?; // all ranks' endpoints
    let next = ranks[(cl.rank() + 1) % cl.nranks()];
    for i in 0..1000_u64 {
        ep.request(next, PING, i)?;
        ep.poll_until(|| seen.get() == i + 1)?;
    }
    println!("rank {} of {}: last answer {}", cl.rank(), cl.nranks(), seen.get());
    cl.barrier()
}
