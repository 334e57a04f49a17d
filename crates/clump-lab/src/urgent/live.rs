//! The work of the ranks. One thread of each: before each operation it sends bulk for as long as
//! there is room, so that the line to the other node is always full. A second thread would measure
//! the scheduler.

use super::UrgentJob;
use anyhow::Result;
use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Name, SendAttempt, Tag};
use clump::rma::{Rma, SegmentName};
use clump_am::AsContext;
use clump_os::clock;
use clump_trace::{Counter, Counters};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a put before each lock.
const PUT: usize = 1 << 20;
/// Number of small operations measured, each time.
const OPERATIONS: usize = 1000;
/// Number of operations before, which are not measured.
const WARM_UP: usize = 50;

const TAG: Tag = Tag(0x0519_e770_0519_e770);
const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);
const DATA: Handler = Handler(3);
const OVER: Handler = Handler(4);

/// Workload of the ranks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum UrgentWorkload {
    /// Round trips of short messages, beside bulk of the same two ranks, in both directions.
    Trips,
    /// A lock of the other node, after puts to it.
    Locks,
}

/// Runs a rank. Returns the output of rank 0.
///
/// # Errors
/// Fails if an endpoint cannot be opened, or if a message or operation fails.
pub fn play(workload: UrgentWorkload) -> Result<Option<UrgentJob>> {
    let cl = clump::init()?;
    let said = match workload {
        UrgentWorkload::Trips => trips(&cl)?,
        UrgentWorkload::Locks => locks(&cl)?,
    };
    cl.barrier()?;
    Ok(said.map(|said| UrgentJob { ahead: ahead(&cl), ..said }))
}

/// Returns the packets' worth of messages that went ahead of others. Counts are copied when a rank
/// has nothing to do, as in the barrier before.
fn ahead(cl: &Clump) -> u64 {
    Counters::over(cl.context().block().counters()).get(Counter::NetUnitsAhead)
}

/// Endless bulk, as far as there is room.
struct Bulk<'a> {
    ep: &'a Endpoint,
    far: Dest,
    bytes: Vec<u8>,
    sent: u64,
    on: bool,
}

impl Bulk<'_> {
    fn fill(&mut self) -> Result<()> {
        while self.on
            && self.ep.try_request_bulk(self.far, DATA, &self.bytes, &[])? == SendAttempt::Sent
        {
            self.sent += self.bytes.len() as u64;
        }
        Ok(())
    }
}

fn trips(cl: &Clump) -> Result<Option<UrgentJob>> {
    let ep = Endpoint::open(cl, TAG)?;
    let (answered, over) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
    let (seen, told) = (answered.clone(), over.clone());
    ep.set_handler(PING, |token, words, _| token.reply(PONG, words))?;
    ep.set_handler(PONG, move |_, words, _| seen.set(words[0]))?;
    // Endpoints of its own, or their credit would be the line to wait in.
    let transport = Endpoint::open(cl, TAG)?;
    transport.set_handler(DATA, |_, _, _| ())?;
    let carriers: Vec<Name> = cl.all_gather(transport.name())?;
    let carried = transport.map(&carriers[1 - cl.rank()], TAG)?;
    ep.set_handler(OVER, move |_, _, _| told.set(true))?;
    let names: Vec<Name> = cl.all_gather(ep.name())?;
    let far = ep.map(&names[1 - cl.rank()], TAG)?;
    let bytes = vec![1; ep.max_medium()];
    let mut bulk = Bulk { ep: &transport, far: carried, bytes, sent: 0, on: false };
    let (mut number, mut all) = (0, [Vec::new(), Vec::new()]);
    let mut rate = 0.0;
    for (loaded, ns) in all.iter_mut().enumerate() {
        cl.barrier()?;
        bulk.on = loaded == 1;
        over.set(false);
        while cl.rank() != 0 && !over.get() {
            bulk.fill()?;
            transport.poll()?;
            ep.poll()?;
        }
        let (begin, before) = (clock::now_ns(), bulk.sent);
        for _ in 0..if cl.rank() == 0 { WARM_UP + OPERATIONS } else { 0 } {
            bulk.fill()?;
            let start = clock::now_ns();
            number += 1;
            ep.request(far, PING, &[number])?;
            while answered.get() != number {
                bulk.fill()?;
                transport.poll()?;
                ep.poll()?;
            }
            ns.push(span(start));
        }
        if cl.rank() == 0 {
            rate = per_second(bulk.sent - before, begin);
            ep.request(far, OVER, &[])?;
        }
        bulk.on = false;
        ep.drain()?;
        transport.drain()?;
    }
    cl.barrier()?;
    Ok(said(cl, all, rate))
}

fn locks(cl: &Clump) -> Result<Option<UrgentJob>> {
    let rma = Rma::open(cl)?;
    let memory = rma.export(PUT as u64)?;
    let segments: Vec<SegmentName> = cl.all_gather(memory.name())?;
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[1 - cl.rank()], 0)?;
    let target = rma.target(segments[1 - cl.rank()])?;
    let bulk = vec![1; PUT];
    let mut all = [Vec::new(), Vec::new()];
    let mut rate = 0.0;
    cl.barrier()?;
    for (loaded, ns) in all.iter_mut().enumerate() {
        let begin = clock::now_ns();
        for _ in 0..if cl.rank() == 0 { WARM_UP + OPERATIONS } else { 0 } {
            if loaded == 1 {
                target.put_bytes(0, &bulk)?;
            }
            let start = clock::now_ns();
            lock.acquire()?.release()?;
            ns.push(span(start));
        }
        rate = per_second(ns.len() as u64 * PUT as u64, begin);
        rma.quiet()?;
    }
    cl.barrier()?;
    Ok(said(cl, all, rate))
}

#[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53")]
fn span(start: u64) -> f64 {
    (clock::now_ns() - start) as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn per_second(bytes: u64, begin: u64) -> f64 {
    bytes as f64 * 1e9 / span(begin).max(1.0)
}

fn said(cl: &Clump, all: [Vec<f64>; 2], bulk_bytes_per_s: f64) -> Option<UrgentJob> {
    let [idle, loaded] = all.map(|ns| ns.get(WARM_UP..).map(<[f64]>::to_vec).unwrap_or_default());
    let said = UrgentJob { idle_ns: idle, loaded_ns: loaded, bulk_bytes_per_s, ahead: 0 };
    (cl.rank() == 0).then_some(said)
}
