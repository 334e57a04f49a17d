//! The parts of a short message, each timed alone.
//!
//! One thread is sender and receiver on memory of its own, so every line is in the first-level
//! cache: the times are those of instructions. The additional cost of a message between two
//! processors is the travel of its line, and shows as the difference to o_s and o_r of the table.

use super::{Breakdown, InstructionCounts, StepCost};
use anyhow::{Context, Result};
use clump_am::{Endpoint, Handler, RankContext, SendAttempt, Settings, Tag};
use clump_loggp::Median;
use clump_os::{clock, fence};
use clump_shm::inbox::{InLane, Inbox};
use clump_shm::lane::Peek;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::path::Path;
use clump_shm::slot::{Header, INLINE};
use clump_trace::{Block, Counter};
use std::hint::black_box;
use std::sync::Arc;

/// Messages of a batch: half a lane, so that none finds it full.
const BATCH: usize = 64;
/// Batches of a median.
const BATCHES: usize = 301;
const TAG: u64 = 7;
const SINK: Handler = Handler(1);

/// The receiving side of an endpoint that keeps nothing with its lanes.
type Plain = Inbox<()>;

/// Returns the nanoseconds a message of a batch that took this many ticks.
#[expect(clippy::cast_precision_loss, reason = "a clock rate in MHz, and short spans")]
fn each_ns(ticks: u64) -> f64 {
    ticks as f64 * 1e3 / clock::cycles_per_us() as f64 / BATCH as f64
}

/// Returns the nanoseconds of `act` by itself, from batches of [`BATCH`]; `between` runs untimed
/// after each batch.
pub(super) fn time<T>(
    mut act: impl FnMut() -> Result<T>,
    mut between: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let mut samples = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let empty = clock::cycles();
        let start = clock::cycles();
        for _ in 0..BATCH {
            black_box(act()?);
        }
        let end = clock::cycles();
        // The cost of reading the clock is in both spans.
        samples.push(each_ns(end - start) - each_ns(start - empty));
        between()?;
    }
    Ok(Median::of(samples).context("no batches")?.value.max(0.0))
}

/// Times all parts.
///
/// # Errors
/// Fails if memory or an endpoint cannot be had, or if a message does not arrive.
pub fn measure() -> Result<Breakdown> {
    let config = NodeConfig { spin_ns: 0, yield_ns: 0, ..NodeConfig::new(1) };
    let node = NodeMemory::create(&config)?;
    let (send_whole, poll_empty, receive_whole) = whole(&node)?;
    let parts = parts(&node)?;
    let counts = InstructionCounts::stored();
    let step = |name, ns: f64, path: &str| StepCost {
        name,
        ns: Some(ns.max(0.0)),
        instructions: counts.of(path),
    };
    let rest = send_whole - parts.admits - parts.push - parts.count;
    let acquire = parts.push - parts.sleeper;
    let dispatch = receive_whole - parts.take;
    let advance = parts.take - parts.peek;
    Ok(Breakdown {
        send: vec![
            step("arguments checked, destination looked up", rest, "am_lookup"),
            step("target open, tag right", parts.admits, "shm_admits"),
            step("slot found free, filled, published", acquire, "shm_push"),
            step("is the receiver looking?", parts.sleeper, "shm_sleeper_check"),
            step("counted", parts.count, "trace_count"),
            step("look for messages (none there)", poll_empty, "am_poll_empty"),
            step("whole send", send_whole + poll_empty, "am_request"),
        ],
        receive: vec![
            step("message seen", parts.detect, "shm_detect"),
            step("header checked, words copied out", parts.peek - parts.detect, "shm_peek"),
            step("handler found and run, counted", dispatch, "am_dispatch"),
            step("slot given back (a line per quarter lane)", advance, "shm_advance"),
            step("whole receive", receive_whole, "am_poll_message"),
        ],
        note: counts.note(),
    })
}

/// Times a send without its poll, an empty poll, and a receive, through the interface that programs
/// use.
fn whole(node: &NodeMemory) -> Result<(f64, f64, f64)> {
    let context = Arc::new(RankContext::new(node, 0, Settings::default())?);
    let sender = Endpoint::open(&context, Tag(TAG))?;
    let receiver = Endpoint::open(&context, Tag(TAG))?;
    receiver.set_handler(SINK, |_, words, _| {
        black_box(words);
    })?;
    let dest = sender.map(&receiver.name(), Tag(TAG))?;
    let send = || match sender.try_request(dest, SINK, black_box(&[1]))? {
        SendAttempt::Sent => Ok(()),
        SendAttempt::Full => {
            anyhow::bail!("a lane of this process's own is full after half a lane")
        }
    };
    let empty = || {
        while receiver.poll()? > 0 {}
        Ok(())
    };
    // The first message rings the doorbell, and makes the receiver poll the lane.
    send()?;
    empty()?;
    let send_ns = time(send, empty)?;
    let poll_ns = time(|| Ok(receiver.poll()?), || Ok(()))?;
    let mut samples = Vec::new();
    for _ in 0..BATCHES {
        for _ in 0..BATCH {
            send()?;
        }
        let start = clock::cycles();
        let mut handled = 0;
        while handled < BATCH {
            handled += receiver.poll()?;
        }
        samples.push(clock::cycles() - start);
    }
    let receive = Median::of(samples.into_iter().map(each_ns)).context("no batches")?;
    Ok((send_ns, poll_ns, receive.value))
}

/// Times of the parts, in nanoseconds.
struct Parts {
    admits: f64,
    push: f64,
    sleeper: f64,
    count: f64,
    detect: f64,
    peek: f64,
    take: f64,
}

/// Times the shared-memory layer below the endpoints.
fn parts(node: &NodeMemory) -> Result<Parts> {
    let (_sender, mut receiver, mut path) = own_lane(node)?;
    let header = Header::short(SINK.0, 1);
    let full = |_| anyhow::anyhow!("a lane of this process's own is full after half a lane");
    path.push(header, &[1]).map_err(full)?;
    let lane = rung_lane(&mut receiver)?;
    let mut words = [0; 2 * INLINE];
    let mut take = || {
        while let Peek::Message(header) = lane.receiver.peek(&mut words) {
            lane.receiver.advance(header);
        }
        Ok(())
    };
    take()?;
    let push = time(|| path.push(header, black_box(&[1])).map_err(full), &mut take)?;
    let admits = time(|| Ok(path.admits(black_box(TAG))), || Ok(()))?;
    path.push(header, &[1]).map_err(full)?;
    let at = &lane.receiver;
    let detect = time(|| Ok(at.has_message()), || Ok(()))?;
    let mut words = [0; 2 * INLINE];
    let peek = time(|| Ok(at.peek(black_box(&mut words))), || Ok(()))?;
    let block = Block::new();
    let count = time(
        || {
            block.counters().bump(black_box(Counter::RequestShortSent));
            block.counters().add(black_box(Counter::RequestShortSentBytes), 8);
            Ok(())
        },
        || Ok(()),
    )?;
    let kind = node.fence();
    let hot = clump_os::sync::AtomicU32::new(1);
    let look = || {
        fence::light(kind);
        Ok(black_box(&hot).load(clump_os::sync::Ordering::Relaxed) == 0)
    };
    let sleeper = time(look, || Ok(()))?;
    let take = take_ns(node)?;
    Ok(Parts { admits, push, sleeper, count, detect, peek, take })
}

/// Creates two endpoints of this process without handlers, and a lane from the first to the second.
fn own_lane(node: &NodeMemory) -> Result<(Plain, Plain, Path)> {
    let (sender, receiver) = (Plain::open(node, 0, TAG)?, Plain::open(node, 0, TAG)?);
    let reply_lane = sender.claim_reply_lane(receiver.name());
    let path = Path::for_requests(node, sender.name(), receiver.name(), reply_lane)?;
    Ok((sender, receiver, path))
}

/// Returns the lane whose doorbell was rung by its first message.
fn rung_lane(receiver: &mut Plain) -> Result<&mut InLane<()>> {
    receiver.process_doorbells()?;
    receiver.hot.first_mut().context("the bell led to no lane")
}

/// Times taking messages out of a lane: detection, copy, release.
fn take_ns(node: &NodeMemory) -> Result<f64> {
    let (_sender, mut receiver, mut path) = own_lane(node)?;
    let header = Header::short(SINK.0, 1);
    let mut samples = Vec::new();
    for _ in 0..BATCHES {
        for _ in 0..BATCH {
            path.push(header, &[1]).map_err(|_| anyhow::anyhow!("no room in half a lane"))?;
        }
        let lane = rung_lane(&mut receiver)?;
        let start = clock::cycles();
        let mut words = [0; 2 * INLINE];
        while let Peek::Message(header) = lane.receiver.peek(black_box(&mut words)) {
            lane.receiver.advance(header);
        }
        samples.push(each_ns(clock::cycles() - start));
    }
    Ok(Median::of(samples).context("no batches")?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_timed_and_the_whole_is_the_last() {
        let breakdown = measure().unwrap();
        for side in [&breakdown.send, &breakdown.receive] {
            assert!(side.iter().all(|step| step.ns.is_some_and(|ns| ns.is_finite() && ns >= 0.0)));
            assert!(side.last().unwrap().name.starts_with("whole"));
            assert!(side.last().unwrap().ns > Some(0.0));
        }
    }
}
