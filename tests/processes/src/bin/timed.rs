//! A rank that times its own messages by the clock of Rust's standard library, not by clump's:
//! `timed ping ROUNDS`, `timed stream MESSAGES BYTES ROUNDS`, `timed long MESSAGES BYTES ROUNDS`,
//! `timed get BYTES ROUNDS`, `timed emulate KNOBS...`.
//!
//! Rank 0 prints a line for each round, in ns; with `emulate` every rank does, after the epoch of
//! the settings and `KNOBS`, which all ranks change before each round.

use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Payload, Tag, Token};
use clump::rma::Rma;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);

fn main() -> Result<()> {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let side = Side::open()?;
    match words[..] {
        ["ping", rounds] => side.rounds(rounds, || side.round(1, 0))?,
        ["stream", messages, bytes, rounds] => {
            let (messages, bytes) = (messages.parse()?, bytes.parse()?);
            side.rounds(rounds, || side.round(messages, bytes))?;
        }
        ["long", messages, bytes, rounds] => {
            let (messages, bytes): (u64, usize) = (messages.parse()?, bytes.parse()?);
            side.endpoint.export_segment(bytes as u64)?;
            side.cl.barrier()?;
            let payload = vec![7; bytes];
            side.rounds(rounds, || {
                let send = |to, number| side.endpoint.request_long(to, PING, 0, &payload, number);
                side.answered(messages, send)
            })?;
        }
        ["get", bytes, rounds] => {
            let rma = Rma::open(&side.cl)?;
            let mut to = vec![0; bytes.parse()?];
            let (_mine, all) = side.cl.allocate(&rma, to.len() as u64)?;
            let from = all.get(side.next()).ok_or("there is no next rank")?;
            side.rounds(rounds, || {
                let begun = now();
                from.get_bytes(0, &mut to)?;
                Ok(begun.elapsed().as_nanos())
            })?;
        }
        ["emulate", ref texts @ ..] => side.emulate(texts)?,
        _ => return Err("ping, stream, long, get or emulate; see its source".into()),
    }
    Ok(side.cl.barrier()?)
}

/// An endpoint whose requests are answered, and those of the other ranks.
struct Side {
    cl: Clump,
    endpoint: Endpoint,
    ranks: Vec<Dest>,
    answers: Rc<Cell<u64>>,
}

impl Side {
    fn open() -> Result<Self> {
        let cl = clump::init()?;
        let endpoint = Endpoint::open(&cl, Tag(0x71de))?;
        let answers = Rc::new(Cell::new(0));
        let count = answers.clone();
        endpoint.set_handler(PING, |token: Token<'_>, words: &[u64], _: Payload<'_>| {
            token.reply(PONG, words).unwrap_or_else(|error| eprintln!("timed: {error}"));
        })?;
        endpoint.set_handler(PONG, move |_: Token<'_>, _: &[u64], _: Payload<'_>| {
            count.set(count.get() + 1);
        })?;
        let ranks = cl.map_ranks(&endpoint)?;
        cl.barrier()?;
        Ok(Self { cl, endpoint, ranks, answers })
    }

    fn next(&self) -> usize {
        (self.cl.rank() + 1) % self.cl.nranks()
    }

    /// Sends `messages` requests of `bytes` bytes to the next rank. Returns the time until all
    /// are answered, in ns.
    fn round(&self, messages: u64, bytes: usize) -> Result<u128> {
        let payload = vec![7; bytes];
        self.answered(messages, |to, number| match bytes {
            0 => self.endpoint.request(to, PING, number),
            _ => self.endpoint.request_bulk(to, PING, &payload, number),
        })
    }

    /// Sends `messages` requests to the next rank by `send`. Returns the time until all are
    /// answered, in ns.
    fn answered<E: std::error::Error + 'static>(
        &self,
        messages: u64,
        send: impl Fn(Dest, u64) -> std::result::Result<(), E>,
    ) -> Result<u128> {
        let to = *self.ranks.get(self.next()).ok_or("there is no next rank")?;
        let all = self.answers.get() + messages;
        let begun = now();
        for number in 0..messages {
            send(to, number)?;
        }
        self.endpoint.poll_until(|| self.answers.get() >= all)?;
        Ok(begun.elapsed().as_nanos())
    }

    /// Has rank 0 print so many times of `round`, after one that is not printed; others serve.
    fn rounds(&self, rounds: &str, mut round: impl FnMut() -> Result<u128>) -> Result<()> {
        if self.cl.rank() == 0 {
            round()?;
            for _ in 0..rounds.parse::<u32>()? {
                println!("{}", round()?);
            }
        }
        Ok(self.cl.barrier()?)
    }

    /// Changes the knobs to each text, and has every rank print the time of a round trip.
    fn emulate(&self, texts: &[&str]) -> Result<()> {
        for text in texts {
            self.cl.emulate(text)?;
            let took = self.round(1, 0)?;
            println!("{} {took} {text}", self.cl.node().job().knob_epoch());
            self.cl.barrier()?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a clock that is not clump's is what this is for")]
fn now() -> Instant {
    Instant::now()
}
