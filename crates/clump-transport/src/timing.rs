//! Times of messages in a stack that a rank drives itself, taken from a sample (papers 002, table
//! 2, and 003, section 4). A message costs too little to be timed each (55 ns in a stream), so one
//! in [`EVERY`] is; and one in [`TURNS`] of the turns in which a rank polls or sends what has
//! gathered.
//!
//! Gaps between timed messages are random: programs repeat themselves, and a sample in step with
//! them always times the same (RFC 2330, 11.1).

use clump_net::{PackedEnd, Stack};
use clump_proto::Nanos;
use clump_trace::{SMALL, Sampler, Timed};
use std::collections::VecDeque;

/// Messages per timed message, on average.
const EVERY: u32 = 64;
/// Turns per timed turn, on average.
const TURNS: u32 = 8;
/// Timed messages that may wait for their packet. Further ones are not timed.
const MAX_PENDING: usize = 64;

/// Times derived from the sample; of small messages and of large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    /// From the first refusal for want of room, if there was one, until the message was accepted. A
    /// message that finds room does not wait.
    pub source: [Timed; 2],
    /// From its acceptance until its packet was sent.
    pub to_wire: [Timed; 2],
    /// From the poll that found it until its handler begins.
    pub delivery: [Timed; 2],
    /// Time spent in the stack: by all turns and messages, estimated from the timed ones.
    pub busy: Nanos,
}

/// A message that is timed and whose packet has not been sent.
#[derive(Debug)]
struct Pending {
    peer: u32,
    /// The packet has left once the stack has sent all units below this.
    end: PackedEnd,
    taken: Nanos,
    size: usize,
}

/// The sample of a stack's times. Used under the lock of the stack.
#[derive(Debug)]
pub(crate) struct Timing {
    sampler: Sampler,
    /// Messages until one is timed; 0: the next one is due, for that or because one was refused.
    until: u32,
    /// Value of `until` before a message was refused.
    before: u32,
    refused: Option<Nanos>,
    /// The gap that ends with the next timed message.
    gap: u32,
    /// Time that messages have waited for room since one was timed: small ones and large ones.
    waited: [Nanos; 2],
    pending: VecDeque<Pending>,
    /// Arriving messages until one is timed.
    until_arrival: u32,
    /// Turns until one is timed, and the gap that ends with it.
    until_turn: u32,
    turn_gap: u32,
    times: Times,
}

impl Timing {
    pub(crate) fn new(seed: u64) -> Self {
        let mut timing = Self {
            sampler: Sampler::new(seed),
            until: 0,
            before: 0,
            refused: None,
            gap: 0,
            waited: [0; 2],
            pending: VecDeque::new(),
            until_arrival: 0,
            until_turn: 0,
            turn_gap: 0,
            times: Times::default(),
        };
        timing.gap = timing.sampler.gap(EVERY);
        timing.until = timing.gap - 1;
        timing.until_arrival = timing.sampler.gap(EVERY) - 1;
        timing.turn_gap = timing.sampler.gap(TURNS);
        timing.until_turn = timing.turn_gap - 1;
        timing
    }

    pub(crate) fn times(&self) -> Times {
        self.times
    }

    /// Returns true if the result of the next message has to be passed to [`Timing::on_pushed`].
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.until == 0
    }

    /// Counts an accepted message that is not due.
    #[inline]
    pub(crate) fn on_taken(&mut self) {
        debug_assert!(self.until > 0, "one that is due is recorded");
        self.until = self.until.wrapping_sub(1);
    }

    /// Notes that a message found no room; the next one accepted has waited since then.
    #[cold]
    pub(crate) fn on_refused(&mut self, now: Nanos) {
        if self.refused.is_none() {
            (self.refused, self.before) = (Some(now), self.until);
            self.until = 0;
        }
        debug_assert!(self.is_due(), "the next that is accepted is recorded");
    }

    /// Records a message that was due and was accepted: offered at `began`, and done by the stack
    /// at `now`. `peer` is its target, `bytes` the length of its payload.
    #[cold]
    pub(crate) fn on_pushed(
        &mut self,
        stack: &Stack,
        (began, now): (Nanos, Nanos),
        peer: Option<u32>,
        bytes: usize,
    ) {
        debug_assert!(self.is_due() && began <= now, "it was due before it was sent");
        let size = usize::from(bytes > SMALL);
        let waited = self.refused.take().map(|at| began.saturating_sub(at));
        if let Some(wait) = waited {
            self.waited[size] += wait;
            if self.before > 0 {
                self.until = self.before - 1;
                return;
            }
        }
        // It stands for all since the last timed one, and the time that they have waited is divided
        // among them.
        let gap = Nanos::from(self.gap);
        debug_assert!(self.gap > 0, "a timed message stands for itself at least");
        let share = std::mem::take(&mut self.waited[size]) / gap;
        let source = &mut self.times.source[size];
        let least = if source.count == 0 { Nanos::MAX } else { source.min_ns };
        source.add(share);
        source.min_ns = least.min(waited.unwrap_or(0));
        self.times.busy += now.saturating_sub(began) * gap;
        if let Some(peer) = peer.filter(|_| self.pending.len() < MAX_PENDING) {
            let end = stack.packed_before(peer);
            self.pending.push_back(Pending { peer, end, taken: began, size });
        }
        debug_assert!(self.pending.len() <= MAX_PENDING, "memory is bounded");
        self.gap = self.sampler.gap(EVERY);
        self.until = self.gap - 1;
    }

    /// Returns true if timed messages wait for their packet.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Records the packets that the stack has sent until `now`.
    #[cold]
    pub(crate) fn on_sent(&mut self, stack: &Stack, now: Nanos) {
        let Self { pending, times, .. } = self;
        pending.retain(|one| {
            let sent = stack.has_sent_before(one.peer, one.end);
            if sent {
                times.to_wire[one.size].add(now.saturating_sub(one.taken));
            }
            !sent
        });
    }

    /// Returns which of the messages about to be handled is to be timed, if any.
    #[inline]
    pub(crate) fn arrival(&mut self, count: usize) -> Option<usize> {
        let at = self.until_arrival as usize;
        if at >= count {
            self.until_arrival -= count as u32;
            return None;
        }
        // The rest of this batch is skipped.
        self.until_arrival = self.sampler.gap(EVERY) - 1;
        debug_assert!(at < count, "one of this batch");
        Some(at)
    }

    /// Records the time that a message waited for its handler.
    pub(crate) fn on_delivery(&mut self, bytes: usize, waited: Nanos) {
        self.times.delivery[usize::from(bytes > SMALL)].add(waited);
    }

    /// Returns true if the turn that begins is timed.
    #[inline]
    pub(crate) fn is_turn_due(&mut self) -> bool {
        debug_assert!(self.until_turn < self.turn_gap, "the last that was due was recorded");
        let due = self.until_turn == 0;
        self.until_turn = self.until_turn.wrapping_sub(1);
        due
    }

    /// Records a turn that was due; `time` is its duration if it found something to do.
    #[cold]
    pub(crate) fn on_turn(&mut self, time: Option<Nanos>) {
        self.times.busy += time.unwrap_or(0) * Nanos::from(self.turn_gap);
        self.turn_gap = self.sampler.gap(TURNS);
        self.until_turn = self.turn_gap - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_in_so_many_is_timed_of_those_that_arrive() {
        for batch in [1, 7, 44, 300] {
            let (mut timing, mut timed) = (Timing::new(batch as u64), 0);
            let mut places = vec![0_u32; batch];
            for _ in 0..400_000 / batch {
                if let Some(at) = timing.arrival(batch) {
                    assert!(at < batch);
                    places[at] += 1;
                    timed += 1;
                }
            }
            // One of a long batch at most.
            let expected = 400_000 / (EVERY as usize).max(batch);
            assert!((expected / 2..=expected * 2).contains(&timed), "{batch}: {timed}");
            let (first, last) = places.split_at(batch.min(EVERY as usize) / 2);
            let (first, last) = (first.iter().sum::<u32>(), last.iter().sum::<u32>());
            assert!(batch == 1 || first.min(last) * 4 > first.max(last), "{batch}: {places:?}");
        }
    }

    #[test]
    fn what_is_spent_in_turns_is_that_of_those_that_are_timed_times_their_gaps() {
        let mut timing = Timing::new(11);
        let (mut spent, mut timed) = (0, 0);
        for turn in 0..80_000 {
            // Every other turn finds something, and takes 100 or 300.
            let time = (turn % 2 == 0).then_some(if turn % 4 == 0 { 100 } else { 300 });
            spent += time.unwrap_or(0);
            if timing.is_turn_due() {
                timing.on_turn(time);
                timed += 1;
            }
        }
        assert!((80_000 / TURNS / 2..=80_000 / TURNS * 2).contains(&timed), "{timed}");
        let ratio = timing.times().busy as f64 / spent as f64;
        assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    }
}
