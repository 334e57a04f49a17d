//! The ranks of the jobs under loss.

use super::{IncastFigures, RoundTripFigures, StreamFigures, Times};
use crate::measure;
use crate::pair::meeting::{PairRole, meet};
use crate::pair::{BulkPath, Pair, Scope};
use anyhow::{Context, Result, ensure};
use clump::Clump;
use clump::am::{Endpoint, Handler, Name, Tag};
use clump_am::AsContext;
use clump_loggp::Median;
use clump_os::clock;
use clump_trace::Counter;
use clump_trace::block::Counters;
use clump_wire::Security;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Payload of a message of a stream, and messages of a slice: 16 MiB, so that the recovery of the
/// last packets does not show.
const MESSAGE: usize = 64 << 10;
const MESSAGES: usize = 256;
/// Slices of a job's figure.
const SLICES: usize = 21;
/// Round trips of a job: at 0.1 % loss some twenty of them lose a packet.
const TRIPS: usize = 10_000;
/// Time for which senders send in the incast, each time.
const SPAN_NS: u64 = 1_000_000_000;
/// Payload of a message of the incast.
const PIECE: usize = 4096;

const TAG: Tag = Tag(0x105_5105_5105_5105);
const DATA: Handler = Handler(1);
const STOP: Handler = Handler(2);

/// Workload of the ranks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LossWorkload {
    /// A stream from rank 0 to the last rank.
    Stream,
    /// Round trips between them.
    Trips,
    /// Streams of all others to rank 0.
    Incast,
}

/// Runs a rank. Returns the output of rank 0, as JSON.
///
/// # Errors
/// Fails if the job does not fit the workload, or if a message fails.
pub fn play(workload: LossWorkload, security: Security) -> Result<Option<String>> {
    let cl = clump::init()?;
    if workload == LossWorkload::Incast {
        let said = incast(&cl)?.map(|result| serde_json::to_string(&result)).transpose()?;
        cl.barrier()?;
        return Ok(said);
    }
    let mut part = meet(&cl, Scope::Net, security)?;
    let mut said = None;
    match &mut part {
        PairRole::Issuer(issuer) => {
            let before = counters(&cl);
            let since = || {
                let after = counters(&cl);
                (after.0 - before.0, after.1 - before.1)
            };
            said = Some(if workload == LossWorkload::Trips {
                let ns = trips(&mut **issuer, TRIPS)?;
                serde_json::to_string(&RoundTripFigures { ns, resent: since().1 })?
            } else {
                let bytes_per_s = goodput(&mut **issuer, MESSAGES, SLICES)?;
                let (sent, resent) = since();
                serde_json::to_string(&StreamFigures { bytes_per_s, sent, resent })?
            });
            issuer.finish()?;
        }
        PairRole::Server(server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    cl.barrier()?;
    Ok(said)
}
/// Returns the packets' worth of messages that this rank has sent, and retransmitted.
fn counters(cl: &Clump) -> (u64, u64) {
    let block = cl.context().block();
    let counters = Counters::over(block.counters());
    (counters.get(Counter::NetUnitsSent), counters.get(Counter::NetUnitsResent))
}

/// Returns the bytes per second of `count` medium messages at a time.
fn goodput<P: Pair>(pair: &mut P, count: usize, slices: usize) -> Result<f64> {
    let mut samples = Vec::with_capacity(slices);
    let chunk = MESSAGE.min(pair.largest(BulkPath::Medium));
    for _ in 0..slices {
        measure::round_trips(pair, 16, 0.0)?;
        let start = pair.now();
        for _ in 0..count {
            pair.bulk(BulkPath::Medium, chunk)?;
        }
        pair.await_handled()?;
        let end = pair.now();
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let bytes = (count * chunk) as f64;
        samples.push(bytes * 1e9 / pair.ns(end.wrapping_sub(start)));
    }
    Ok(Median::of(samples).context("no slices")?.value)
}

/// Measures every round trip by itself.
fn trips<P: Pair>(pair: &mut P, count: usize) -> Result<Vec<f64>> {
    let clock_ns = pair.clock_cost_ns();
    measure::round_trips(pair, 100, clock_ns)?;
    (0..count).map(|_| measure::round_trips(pair, 1, clock_ns)).collect()
}

/// Lets all others send to rank 0: first one of them, then all.
fn incast(cl: &Clump) -> Result<Option<IncastFigures>> {
    ensure!(cl.nranks() >= 2, "an incast needs senders");
    let bytes = Rc::new(RefCell::new(vec![0u64; cl.nranks()]));
    let stops = Rc::new(Cell::new(0u32));
    let endpoint = Endpoint::open(cl, TAG)?;
    let count = bytes.clone();
    let mut inbox = vec![0; PIECE];
    endpoint.set_handler(DATA, move |token, _, payload| {
        payload.copy_to(&mut inbox);
        if let Some(sum) = count.borrow_mut().get_mut(token.from().rank() as usize) {
            *sum += payload.len() as u64;
        }
    })?;
    let stop = stops.clone();
    endpoint.set_handler(STOP, move |_, _, _| stop.set(stop.get() + 1))?;
    let names = cl.all_gather(endpoint.name())?;
    let mut rates = Vec::new();
    let mut mine = [0; 3];
    for (round, senders) in [(1, 1..2), (2, 1..cl.nranks())] {
        cl.barrier()?;
        if cl.rank() == 0 {
            rates.push(collect(&endpoint, &names, senders, &bytes)?);
        } else if senders.contains(&cl.rank()) {
            let before = scheduled();
            send(&endpoint, &names, || stops.get() >= round || cl.rank() > 1 && stops.get() > 0)?;
            mine = scheduled().zip(before).map_or([0; 3], |(after, before)| {
                std::array::from_fn(|at| after[at].saturating_sub(before[at]))
            });
        }
        cl.barrier()?;
    }
    let times = times(&cl.all_gather(mine)?[1..]);
    let together = rates.pop().unwrap_or_default();
    let alone = rates.pop().and_then(|rates| rates.first().copied());
    Ok(alone.filter(|_| cl.rank() == 0).map(|alone| IncastFigures { alone, together, times }))
}

/// Returns the nanoseconds until now: in all, on a processor, waiting for one. The kernel's account
/// of the main thread.
fn scheduled() -> Option<[u64; 3]> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([clock::now_ns(), numbers.next()??, numbers.next()??])
}

/// Converts to shares; empty where those of a rank are not known.
#[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53")]
fn times(all: &[[u64; 3]]) -> Vec<Times> {
    if all.iter().any(|&[span, ran, _]| span == 0 || ran == 0) {
        return Vec::new();
    }
    let share = |part: u64, span: u64| part as f64 / span as f64;
    all.iter()
        .map(|&[span, ran, queued]| Times { ran: share(ran, span), queued: share(queued, span) })
        .collect()
}

/// Sends to rank 0 until the order to stop.
fn send(endpoint: &Endpoint, names: &[Name], stopped: impl Fn() -> bool) -> Result<()> {
    let target = endpoint.map(names.first().context("no rank 0")?, TAG)?;
    let payload = vec![7; PIECE];
    while !stopped() {
        endpoint.request_bulk(target, DATA, &payload, &[])?;
    }
    endpoint.drain()?;
    Ok(())
}

/// Counts for a second the bytes that each sends, once all have begun.
fn collect(
    endpoint: &Endpoint,
    names: &[Name],
    senders: std::ops::Range<usize>,
    bytes: &RefCell<Vec<u64>>,
) -> Result<Vec<f64>> {
    bytes.borrow_mut().fill(0);
    let all_begun = || senders.clone().all(|rank| bytes.borrow().get(rank).is_some_and(|&n| n > 0));
    endpoint.poll_until(all_begun)?;
    bytes.borrow_mut().fill(0);
    let start = clock::now_ns();
    endpoint.poll_until(|| clock::now_ns() - start > SPAN_NS)?;
    #[expect(clippy::cast_precision_loss, reason = "sums and spans are far below 2^53")]
    let per_second = |sum: &u64| *sum as f64 * 1e9 / (clock::now_ns() - start) as f64;
    let rates = bytes.borrow()[senders.clone()].iter().map(per_second).collect();
    for name in &names[senders] {
        let target = endpoint.map(name, TAG)?;
        endpoint.request(target, STOP, &[])?;
        endpoint.unmap(target)?;
    }
    endpoint.drain()?;
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;

    #[test]
    fn a_known_machine_has_the_goodput_and_the_round_trip_that_it_has() {
        let mut pair = FakePair::default();
        let each = pair.bulk_start + pair.big_g * MESSAGE as f64;
        let expected = MESSAGE as f64 * 1e9 / each;
        let got = goodput(&mut pair, 10_000, 3).unwrap();
        assert!((got / expected - 1.0).abs() < 0.01, "{got}, not {expected}");
        let all = trips(&mut pair, 50).unwrap();
        assert_eq!(all.len(), 50);
        assert!(all.iter().all(|ns| (ns / pair.rtt() - 1.0).abs() < 0.1), "{all:?}");
    }
}
