//! The measurements behind the LogP table, on any [`Pair`].
//!
//! One repetition walks over all cells before the next begins, so that a machine that changes its
//! speed during the run changes all cells alike.

use crate::pair::{BulkPath, Pair};
use crate::plan::{Delay, MeasurementPlan};
use crate::time_limit::TimeLimit;
use anyhow::{Context, Result};
use clump_loggp::{Bulk, Burst, Exchanges, Measurement, Median, Prtt, Signature};

/// Round trips of one sample of the round-trip time.
const TRIPS: u32 = 16;
/// Loops of computation, some 300 ns, between two bursts.
const REST: u32 = 200;
/// Gaps for which a path is left alone before a lone message.
const REST_GAPS: f64 = 1.5;
/// Messages of a train (Hoefler et al. use 10 to 100).
const TRAIN: u32 = 33;
/// Share of the idle round trip from which on a path is not idle yet.
const IDLE: f64 = 1.5;
/// Most round trips that a path gets to become idle.
const MAX_SETTLING: u32 = 200;
/// Time of one calibration of a delay, or for a path to become idle, in nanoseconds.
const MOMENT_NS: f64 = 20e6;
/// Bytes of one sample of a bulk interval: enough that the last round trip does not show.
const BULK_SAMPLE: usize = 4 << 20;

/// First estimate of the machine, by which delays are chosen.
#[derive(Debug, Clone, Copy)]
pub struct Rough {
    /// Cost of reading the clock twice.
    pub clock_ns: f64,
    /// Round trip on an idle path.
    pub rtt_ns: f64,
    /// Interval of a long burst.
    pub gap_ns: f64,
    /// One step of [`Pair::delay`].
    pub loop_ns: f64,
}

impl Rough {
    /// Makes the first estimate.
    ///
    /// # Errors
    /// Fails if the other side stops answering.
    pub fn measure_roughly<P: Pair>(pair: &mut P) -> Result<Self> {
        let clock_ns = pair.clock_cost_ns();
        let mut rtt = Vec::new();
        let mut gap = Vec::new();
        let mut step = Vec::new();
        // Round trips first: bursts leave the path busy for a while.
        wake(pair)?;
        for _ in 0..15 {
            rtt.push(round_trips(pair, TRIPS, clock_ns)?);
            step.push(delay_cost(pair, 10_000, 1, clock_ns)? / 10_000.0);
        }
        for _ in 0..15 {
            gap.push(burst(pair, 1024, 0, clock_ns)? / 1024.0);
        }
        let median = |samples| Median::of(samples).map(|m| m.value).context("no samples");
        Ok(Self { clock_ns, rtt_ns: median(rtt)?, gap_ns: median(gap)?, loop_ns: median(step)? })
    }

    /// Makes round trips until one takes as long as on an idle path: what a burst leaves behind,
    /// acknowledgements and sleeping threads, is not part of the next measurement. Gives up after
    /// a moment: other programs may have made the machine slower.
    ///
    /// # Errors
    /// Fails if the other side stops answering.
    pub fn settle<P: Pair>(&self, pair: &mut P) -> Result<()> {
        let trips = times_within(MOMENT_NS, self.rtt_ns, MAX_SETTLING);
        for _ in 0..trips {
            if round_trips(pair, 1, self.clock_ns)? <= IDLE * self.rtt_ns {
                break;
            }
        }
        Ok(())
    }

    /// Polls until the path has been free for longer than its gap.
    fn rest<P: Pair>(&self, pair: &mut P) -> Result<()> {
        let start = pair.now();
        loop {
            pair.poll()?;
            let now = pair.now();
            if pair.ns(now.wrapping_sub(start)) >= REST_GAPS * self.gap_ns {
                return Ok(());
            }
        }
    }

    fn loops(&self, delay: Delay) -> u32 {
        let ns = match delay {
            Delay::Gaps(n) => n * self.gap_ns,
            Delay::RoundTrips(n) => n * self.rtt_ns,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let loops = (ns / self.loop_ns).round() as u32;
        loops
    }
}

/// Measures the time to issue `messages` answered requests with a delay between them. Every request
/// polls for answers, so a delay long enough for an answer makes each handle one. The clock stops
/// at the last issue; answers still in flight are collected after it.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn burst<P: Pair>(pair: &mut P, messages: u32, loops: u32, clock_ns: f64) -> Result<f64> {
    let start = pair.now();
    pair.request()?;
    for _ in 1..messages {
        if loops > 0 {
            pair.delay(loops);
        }
        pair.request()?;
    }
    let end = pair.now();
    pair.drain()?;
    // The next burst starts from rest: the other side has finished its turn, and this processor has
    // recovered from leaving a waiting loop.
    pair.delay(REST);
    Ok(pair.ns(end.wrapping_sub(start)) - clock_ns)
}

/// Measures one round trip, as the mean over `count` of them one after the other, in nanoseconds.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn round_trips<P: Pair>(pair: &mut P, count: u32, clock_ns: f64) -> Result<f64> {
    let start = pair.now();
    for _ in 0..count {
        pair.request()?;
        pair.drain()?;
    }
    let end = pair.now();
    Ok((pair.ns(end.wrapping_sub(start)) - clock_ns) / f64::from(count))
}

/// Measures one lone exchange: the time of the call that sends a request, and the time to receive
/// its reply after a delay of `loops`, in which the reply has arrived.
fn exchange<P: Pair>(pair: &mut P, loops: u32, clock_ns: f64) -> Result<(f64, f64)> {
    let start = pair.now();
    pair.request()?;
    let sent = pair.now();
    pair.delay(loops);
    let begun = pair.now();
    pair.drain()?;
    let end = pair.now();
    let ns = |from: u64, to: u64| pair.ns(to.wrapping_sub(from)) - clock_ns;
    Ok((ns(start, sent), ns(begun, end)))
}

/// Measures one round trip as [`round_trips`] does, each of them on a path that has been free for
/// longer than its gap: a message that has to wait for its turn is not a lone one.
fn lone_trips<P: Pair>(pair: &mut P, rough: &Rough, count: u32) -> Result<f64> {
    let mut total_ns = 0.0;
    for _ in 0..count {
        rough.rest(pair)?;
        total_ns += round_trips(pair, 1, rough.clock_ns)?;
    }
    Ok(total_ns / f64::from(count))
}

/// Returns how often something that takes `ns` fits into a time, at least 4 and at most `most`
/// times.
fn times_within(time_ns: f64, ns: f64, most: u32) -> u32 {
    debug_assert!(most >= 4, "a mean is of several");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let times = (time_ns / ns.max(1.0)) as u32;
    times.clamp(4, most)
}

/// Measures one delay, as the mean of `times`. Each follows a round trip, as in a burst: an idle
/// far side goes to sleep, and a core without its neighbour runs at another speed.
fn delay_cost<P: Pair>(pair: &mut P, loops: u32, times: u32, clock_ns: f64) -> Result<f64> {
    let mut total_ns = 0.0;
    for _ in 0..times {
        pair.request()?;
        pair.drain()?;
        let start = pair.now();
        pair.delay(loops);
        let end = pair.now();
        total_ns += pair.ns(end.wrapping_sub(start)) - clock_ns;
    }
    Ok(total_ns / f64::from(times))
}

/// Measures `n` posts with a delay between them and one answered request at the end: PRTT(n, d).
fn train<P: Pair>(pair: &mut P, messages: u32, loops: u32, clock_ns: f64) -> Result<f64> {
    let start = pair.now();
    for _ in 1..messages {
        pair.post()?;
        if loops > 0 {
            pair.delay(loops);
        }
    }
    pair.request()?;
    pair.drain()?;
    let end = pair.now();
    let ns = pair.ns(end.wrapping_sub(start)) - clock_ns;
    pair.await_handled()?;
    Ok(ns)
}

/// Returns the number of messages of `bytes` each in a stream that makes one sample.
pub fn stream_length(bytes: usize) -> usize {
    (BULK_SAMPLE / bytes.max(1)).clamp(1, 256)
}

/// Makes a few round trips: after a baseline the other side may be asleep, or busy polling
/// elsewhere.
fn wake<P: Pair>(pair: &mut P) -> Result<()> {
    round_trips(pair, 2 * TRIPS, 0.0)?;
    Ok(())
}

/// Measures the interval between messages of a stream of `bytes` each, in nanoseconds. Payloads
/// over the limit of a message go as several messages, as in paper 000 (4.1) with 8 kB chunks.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn stream<P: Pair>(pair: &mut P, way: BulkPath, bytes: usize, rtt_ns: f64) -> Result<f64> {
    let count = stream_length(bytes);
    let chunk = bytes.min(pair.largest(way)).max(1);
    wake(pair)?;
    let start = pair.now();
    for _ in 0..count {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(chunk);
            pair.bulk(way, part)?;
            left -= part;
        }
    }
    pair.await_handled()?;
    let end = pair.now();
    let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    // Settling takes one round trip more than the stream itself.
    Ok((pair.ns(end.wrapping_sub(start)) - rtt_ns) / count)
}

/// Bytes of a slice through a ring: 6 ms at 10 GB/s.
const RING_SLICE: usize = 64 << 20;

/// Measures the bytes per second of long messages of `bytes` through a ring, of which the receiver
/// reads every byte.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn ring_rate<P: Pair>(pair: &mut P, bytes: usize) -> Result<f64> {
    let count = (RING_SLICE / bytes.max(1)).max(1);
    wake(pair)?;
    let start = pair.now();
    for _ in 0..count {
        pair.ring(bytes)?;
    }
    pair.await_handled()?;
    let end = pair.now();
    #[expect(clippy::cast_precision_loss, reason = "a slice is far below 2^53")]
    let moved = (count * bytes) as f64;
    Ok(moved * 1e9 / pair.ns(end.wrapping_sub(start)))
}

/// Measures one-way short messages per second, over `messages` of them.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn post_rate<P: Pair>(pair: &mut P, messages: u32) -> Result<f64> {
    wake(pair)?;
    let start = pair.now();
    for _ in 0..messages {
        pair.post()?;
    }
    pair.await_handled()?;
    let end = pair.now();
    Ok(f64::from(messages) * 1e9 / pair.ns(end.wrapping_sub(start)))
}

/// Measures everything that the estimates need.
///
/// # Errors
/// Fails if the other side stops answering, or if the plan has no repetitions.
pub fn measure<P: Pair>(pair: &mut P, plan: &MeasurementPlan) -> Result<(Measurement, Prtt)> {
    let rough = Rough::measure_roughly(pair)?;
    let signature = signature(pair, plan, &rough)?;
    let mut out =
        Measurement { signature, window_messages: pair.window(), ..Measurement::default() };
    let long_delay = rough.loops(Delay::RoundTrips(2.0));
    let mut prtt = Prtt { messages: TRAIN, ..Prtt::default() };
    let mut long_delays = Vec::new();
    let mut exchanges = Exchanges::default();
    let limit = TimeLimit::start(pair, plan.limit);
    let trips = times_within(MOMENT_NS, 3.0 * rough.rtt_ns, TRAIN);
    while limit.allows(pair, out.rtt_ns.len(), plan.repetitions) {
        rough.settle(pair)?;
        rough.rest(pair)?;
        let (send_ns, receive_ns) = exchange(pair, long_delay, rough.clock_ns)?;
        exchanges.send_ns.push(send_ns);
        exchanges.receive_ns.push(receive_ns);
        let single = lone_trips(pair, &rough, TRIPS)?;
        out.rtt_ns.push(single);
        prtt.single_ns.push(train(pair, 1, 0, rough.clock_ns)?);
        prtt.train_ns.push(train(pair, TRAIN, 0, rough.clock_ns)?);
        rough.settle(pair)?;
        prtt.delayed_ns.push(train(pair, TRAIN, long_delay, rough.clock_ns)?);
        long_delays.push(delay_cost(pair, long_delay, trips, rough.clock_ns)?);
    }
    out.exchanges = exchanges;
    prtt.delay_ns = Median::of(long_delays).context("no repetitions")?.value;
    // Above the largest medium everything is a sequence of largest mediums: nothing new to learn.
    let sizes = plan.bulk_bytes.iter().copied().filter(|&n| n <= 1 << 20);
    out.bulk = sizes.map(|bytes| Bulk { bytes: bytes as u64, interval_ns: Vec::new() }).collect();
    let limit = TimeLimit::start(pair, plan.limit);
    let mut slices = 0;
    while limit.allows(pair, slices, plan.slices) {
        slices += 1;
        for bulk in &mut out.bulk {
            let bytes = usize::try_from(bulk.bytes)?;
            bulk.interval_ns.push(stream(pair, BulkPath::Medium, bytes, rough.rtt_ns)?);
        }
    }
    Ok((out, prtt))
}

/// One cell of the signature while it is measured.
struct Cell {
    delay: usize,
    messages: u32,
    samples_ns: Vec<f64>,
}

/// Returns the cells of the signature, without the longest of its delayed bursts where a path is so
/// slow that they would take more than the limit.
fn cells(plan: &MeasurementPlan, rough: &Rough) -> Vec<Cell> {
    #[expect(clippy::cast_precision_loss, reason = "a limit is far below 2^53 ns")]
    let limit_ns = plan.limit.as_nanos() as f64;
    let delays: Vec<u32> = plan.delays.iter().map(|&delay| rough.loops(delay)).collect();
    let turn_ns = |longest: u32| {
        let messages: u32 = plan.bursts.iter().filter(|&&m| m <= longest).sum();
        let delay_ns: f64 = delays.iter().map(|&d| f64::from(d) * rough.loop_ns).sum();
        f64::from(messages) * delay_ns
    };
    #[expect(clippy::cast_precision_loss, reason = "tens of repetitions")]
    let turns = plan.repetitions as f64;
    // Two sizes from 8 on show the interval of a paced burst.
    let needed = plan.bursts.iter().copied().filter(|&m| m >= 8).nth(1).unwrap_or(u32::MAX);
    let fitting = plan.bursts.iter().copied().filter(|&m| turns * turn_ns(m) <= limit_ns).max();
    let longest = fitting.unwrap_or(0).max(needed).min(plan.longest_delayed);
    let mut cells = Vec::new();
    for (delay, &loops) in delays.iter().enumerate() {
        let wanted = |&&messages: &&u32| loops == 0 || messages <= longest;
        let sizes = plan.bursts.iter().filter(wanted);
        cells.extend(sizes.map(|&messages| Cell { delay, messages, samples_ns: Vec::new() }));
    }
    cells
}

fn signature<P: Pair>(pair: &mut P, plan: &MeasurementPlan, rough: &Rough) -> Result<Signature> {
    let delays: Vec<u32> = plan.delays.iter().map(|&d| rough.loops(d)).collect();
    let mut delay_ns: Vec<Vec<f64>> = vec![Vec::new(); delays.len()];
    let begun = pair.now();
    #[expect(clippy::cast_precision_loss, reason = "a budget is far below 2^53 ns")]
    let budget_ns = plan.signature_budget.as_nanos() as f64;
    let limit = TimeLimit::start(pair, plan.limit);
    let mut cells = cells(plan, rough);
    loop {
        for (&loops, delay_ns) in delays.iter().zip(&mut delay_ns) {
            if loops > 0 {
                let ns = rough.rtt_ns + f64::from(loops) * rough.loop_ns;
                let times = times_within(MOMENT_NS, ns, 64);
                delay_ns.push(delay_cost(pair, loops, times, rough.clock_ns)?);
            }
        }
        for cell in &mut cells {
            rough.settle(pair)?;
            let ns = burst(pair, cell.messages, delays[cell.delay], rough.clock_ns)?;
            cell.samples_ns.push(ns);
        }
        let samples = cells.first().map_or(usize::MAX, |cell| cell.samples_ns.len());
        let now = pair.now();
        let took_ns = pair.ns(now.wrapping_sub(begun));
        let late = took_ns > budget_ns;
        let enough = !limit.allows(pair, samples, plan.repetitions);
        if enough && (late || cells.iter().all(|cell| is_known(&cell.samples_ns))) {
            break;
        }
    }
    let delay_ns: Vec<f64> =
        delay_ns.into_iter().map(|all| Median::of(all).map_or(0.0, |m| m.value)).collect();
    let burst = |Cell { delay, messages, samples_ns }| Burst {
        messages,
        delay_ns: delay_ns[delay],
        samples_ns,
    };
    Ok(Signature { bursts: cells.into_iter().map(burst).collect() })
}

/// Returns true if it is known to 1 % with 95 % confidence.
fn is_known(cell: &[f64]) -> bool {
    Median::of(cell.iter().copied()).is_some_and(|m| m.spread() < 0.01)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;

    #[test]
    fn a_ring_is_timed_until_all_is_read() {
        let mut pair = FakePair::default();
        pair.bulk_start = 0.0;
        let rate = ring_rate(&mut pair, 1 << 20).unwrap();
        close("a byte takes 0.2 ns", rate, 5e9, 0.01);
    }

    fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= tolerance * expected, "{what}: {got}, not {expected}");
    }

    #[test]
    fn a_known_machine_is_recovered_by_both_plans() {
        for plan in [MeasurementPlan::full(), MeasurementPlan::quick()] {
            let mut pair = FakePair::default();
            let (measurement, prtt) = measure(&mut pair, &plan).unwrap();
            let p = measurement.estimate().unwrap().parameters();
            close("o_s", p.o_s_ns, pair.o_s, 0.01);
            close("o_r", p.o_r_ns, pair.o_r, 0.03);
            close("L", p.l_ns, pair.l, 0.02);
            close("g", p.g_ns, pair.g, 0.02);
            close("RTT", p.rtt_ns, pair.rtt(), 0.01);
            close("G", p.big_g_ns_per_byte, pair.big_g, 0.05);
            let second = prtt.estimate().unwrap();
            close("o_s of trains", second.o_s.value, pair.o_s, 0.05);
            close("g of trains", second.g_one_way.value, pair.g, 0.05);
        }
    }

    #[test]
    fn a_slow_path_is_measured_in_bounded_time() {
        for plan in [MeasurementPlan::full(), MeasurementPlan::quick()] {
            let plan = plan.over(crate::pair::Scope::Net);
            for l in [50_000.0, 1_000_000.0] {
                let mut pair = FakePair::default();
                (pair.l, pair.window) = (l, 256);
                let (measurement, _) = measure(&mut pair, &plan).unwrap();
                let p = measurement.estimate().unwrap().parameters();
                close("o_r", p.o_r_ns, pair.o_r, 0.03);
                close("L", p.l_ns, pair.l, 0.02);
                let took_s = pair.now() as f64 * pair.ns_per_tick() / 1e9;
                assert!(took_s < 60.0, "{took_s} s at a latency of {l} ns");
            }
        }
    }

    #[test]
    fn what_a_burst_leaves_behind_is_not_measured() {
        let mut pair = FakePair::default();
        pair.linger = 150;
        let (measurement, _) = measure(&mut pair, &MeasurementPlan::quick()).unwrap();
        let p = measurement.estimate().unwrap().parameters();
        close("RTT", p.rtt_ns, pair.rtt(), 0.01);
        close("o_r", p.o_r_ns, pair.o_r, 0.03);
    }

    #[test]
    fn a_gap_longer_than_a_round_trip_is_no_part_of_it() {
        let mut pair = FakePair::default();
        pair.g = 20.0 * pair.rtt();
        let (measurement, _) = measure(&mut pair, &MeasurementPlan::quick()).unwrap();
        let p = measurement.estimate().unwrap().parameters();
        close("RTT", p.rtt_ns, pair.rtt(), 0.01);
        close("L", p.l_ns, pair.l, 0.02);
        close("g", p.g_ns, pair.g, 0.02);
    }

    #[test]
    fn posts_go_at_the_gap() {
        let mut pair = FakePair::default();
        close("rate", post_rate(&mut pair, 100_000).unwrap(), 1e9 / 60.0, 0.01);
    }
}
