//! Times of blocking calls, and of loops that poll, as ratios in one run: `clump run -n 4 waiting`.
//!
//! With more ranks than cores (`taskset -c 0 clump run -n 2 ...`, `-n 16` on two cores), with
//! proxies (`--nodes 2 --ni proxy:1`), or beside a program that computes: a loop that polls should
//! cost what the wait costs.

use clump::am::{Dest, Endpoint, Handler, Tag, Token};
use clump::rma::Rma;
use clump_os::clock;
use std::cell::Cell;
use std::rc::Rc;

const TAG: Tag = Tag(0x5eed);
const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);
const SINK: Handler = Handler(3);

/// Measurements of each kind, of which the median is printed.
const BATCHES: usize = 9;
/// Time budget of one measurement.
const BUDGET_NS: u64 = 150_000_000;

struct Rank {
    cl: clump::Clump,
    ep: Endpoint,
    dests: Vec<Dest>,
    answered: Rc<Cell<u64>>,
    asked: Rc<Cell<u64>>,
}

fn main() -> clump::Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, TAG)?;
    let (answered, asked) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (pong, ping) = (answered.clone(), asked.clone());
    ep.handler(PING, move |token: Token, i: u64| {
        ping.set(i);
        token.reply(PONG, i)
    })?;
    ep.handler(PONG, move |_, i: u64| pong.set(i))?;
    ep.handler_bulk(SINK, |_, _: u64, _| ())?;
    let mut rank = Rank { dests: cl.map_ranks(&ep)?, cl, ep, answered, asked };
    rank.round_trips()?;
    rank.blocking_calls()?;
    rank.cl.barrier()
}

impl Rank {
    /// Sends the neighbour `rounds` requests (the even ranks), or answers so many; `wait` blocks,
    /// else it polls.
    fn ping(&mut self, rounds: u64, wait: bool) -> clump::Result<u64> {
        let (me, ranks) = (self.cl.rank(), self.cl.nranks());
        let other = me ^ 1;
        // A request may arrive before this rank has left the barrier.
        let before = (self.answered.get(), self.asked.get());
        self.cl.barrier()?;
        let start = clock::now_ns();
        if other >= ranks {
            return Ok(0);
        }
        let (first, seen) = if me < other {
            (before.0, self.answered.clone())
        } else {
            (before.1, self.asked.clone())
        };
        let until = |goal: u64| -> clump::Result<()> {
            if wait {
                return Ok(self.ep.poll_until(|| seen.get() >= goal)?);
            }
            while seen.get() < goal {
                self.ep.poll()?;
            }
            Ok(())
        };
        if me < other {
            for at in first + 1..=first + rounds {
                self.ep.request(self.dests[other], PING, at)?;
                until(at)?;
            }
        } else {
            until(first + rounds)?;
        }
        Ok((clock::now_ns() - start) / rounds)
    }

    /// Returns the median over batches of the slowest rank's time.
    fn median(
        &mut self,
        mut batch: impl FnMut(&mut Self) -> clump::Result<u64>,
    ) -> clump::Result<u64> {
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            let mine = batch(self)?;
            times.push(self.cl.all_reduce(mine, clump::Max)?);
        }
        times.sort_unstable();
        Ok(times[BATCHES / 2])
    }

    /// Returns the number of rounds that fit into a batch.
    fn rounds(
        &mut self,
        mut batch: impl FnMut(&mut Self, u64) -> clump::Result<u64>,
    ) -> clump::Result<u64> {
        let mine = batch(self, 20)?;
        let each = self.cl.all_reduce(mine, clump::Max)?;
        Ok((BUDGET_NS / BATCHES as u64 / each.max(1)).clamp(5, 20_000))
    }

    fn round_trips(&mut self) -> clump::Result<()> {
        let rounds = self.rounds(|rank, rounds| rank.ping(rounds, true))?;
        let waited = self.median(|rank| rank.ping(rounds, true))?;
        let rounds = self.rounds(|rank, rounds| rank.ping(rounds, false))?;
        let polled = self.median(|rank| rank.ping(rounds, false))?;
        if self.cl.rank() == 0 {
            println!(
                "round trip: waits {waited} ns, polls {polled} ns, ratio {:.2}",
                polled as f64 / waited.max(1) as f64
            );
        }
        Ok(())
    }

    fn time(
        &mut self,
        what: &str,
        mut turn: impl FnMut(&mut Self) -> clump::Result<()>,
    ) -> clump::Result<()> {
        let mut batch = |rank: &mut Self, rounds: u64| {
            rank.cl.barrier()?;
            let start = clock::now_ns();
            for _ in 0..rounds {
                turn(rank)?;
            }
            Ok((clock::now_ns() - start) / rounds)
        };
        let rounds = self.rounds(&mut batch)?;
        let each = self.median(|rank| batch(rank, rounds))?;
        if self.cl.rank() == 0 {
            println!("{what}: {each} ns");
        }
        Ok(())
    }

    fn blocking_calls(&mut self) -> clump::Result<()> {
        let (me, ranks) = (self.cl.rank(), self.cl.nranks());
        let next = self.dests[(me + 1) % ranks];
        self.time("request, barrier", |rank| {
            rank.ep.request(next, SINK, &[1])?;
            rank.cl.barrier()
        })?;
        self.time("request, drain, barrier", |rank| {
            rank.ep.request(next, SINK, &[1])?;
            rank.ep.drain()?;
            rank.cl.barrier()
        })?;
        let bytes = vec![7; self.ep.max_medium()];
        self.time("8 medium of most bytes, drain, barrier", |rank| {
            for _ in 0..8 {
                rank.ep.request_bulk(next, SINK, &bytes, &[1])?;
            }
            rank.ep.drain()?;
            rank.cl.barrier()
        })?;
        self.time("500 requests, drain, barrier", |rank| {
            for _ in 0..500 {
                rank.ep.request(next, SINK, &[1])?;
            }
            rank.ep.drain()?;
            rank.cl.barrier()
        })?;
        self.time("all-reduce", |rank| rank.cl.all_reduce(1_u64, clump::Sum).map(drop))?;
        let rma = Rma::open(&self.cl)?;
        let words = rma.export(64)?;
        let names = self.cl.all_gather(words.name())?;
        let there = rma.target(names[(me + 1) % ranks])?;
        self.time("put, quiet, barrier", |rank| {
            there.put(0, 1_u64)?;
            rma.quiet()?;
            rank.cl.barrier()
        })?;
        let locks = rma.export_locks(1)?;
        let names = self.cl.all_gather(locks.name())?;
        let lock = rma.lock(names[0], 0)?;
        self.time("lock of all", |_| Ok(lock.acquire()?.release()?))?;
        let flags = rma.export_flags(1)?;
        let names = self.cl.all_gather(flags.name())?;
        let (mine, theirs) = (rma.flag(names[me], 0)?, rma.flag(names[(me + 1) % ranks], 0)?);
        let mut turn = 0;
        self.time("flags in a ring", |_| {
            turn += 1;
            theirs.set(turn)?;
            mine.wait(clump::rma::Comparison::AtLeast, turn)?;
            Ok(())
        })
    }
}
