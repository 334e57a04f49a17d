//! Measurements that an interface records about its own work ([`clump_trace::monitor`]).

use super::clock::Clock;
use clump_net::{PackedEnd, Stack};
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_trace::{Gauge, Gauges, SMALL, Sampler, Stage};
use std::collections::{HashMap, VecDeque};

/// Messages for one peer that were taken and whose packet has not been sent.
#[derive(Debug)]
struct Pending {
    /// They have left once the stack has sent all units below this.
    end: PackedEnd,
    count: u64,
    /// For one of them that is timed: when it was taken; true if it is large.
    timed: Option<(u64, bool)>,
}

/// The recorder of an interface's measurements.
#[derive(Debug)]
pub struct Watcher {
    block: Shared<RankBlock>,
    /// Time of the clock that all processes of the machine share, when this process's own was 0.
    zero: u64,
    /// By peer: one that takes nothing delays no other's account.
    pending: HashMap<u32, VecDeque<Pending>>,
    taken: u64,
    brought: u64,
    executed: u64,
    sampler: Sampler,
}

/// Time at which a message was taken, on the interface's own clock.
#[derive(Debug, Clone, Copy)]
pub struct Taking(u64);

impl Watcher {
    /// Creates the recorder of the interface whose block this is.
    pub fn new(block: Shared<RankBlock>, clock: &impl Clock) -> Self {
        let now = clock.now_ns();
        let zero = now.saturating_sub(clock.ticked_ns());
        let (pending, sampler) = (HashMap::new(), Sampler::new(now));
        let (taken, brought, executed) = (0, 0, 0);
        let watcher = Self { block, zero, pending, taken, brought, executed, sampler };
        watcher.gauges().set(Gauge::Changed, now);
        watcher.gauges().set(Gauge::Started, now);
        watcher
    }

    fn gauges(&self) -> Gauges<'_> {
        Gauges::over(self.block.gauges())
    }

    /// Records a turn with work, from `began` to `now`.
    pub fn on_turn(&self, began: u64, now: u64) {
        self.gauges().add(Gauge::Busy, now.saturating_sub(began));
    }

    /// Records that a message of a rank is about to be packed.
    #[inline]
    pub fn on_taking(&mut self, clock: &impl Clock) -> Taking {
        let now = clock.ticked_ns();
        self.change_queue(now, 1);
        Taking(now)
    }

    /// Records that a message found no room, and stays in its lane.
    #[cold]
    pub fn on_left(&mut self, clock: &impl Clock) {
        self.change_queue(clock.ticked_ns(), -1);
    }

    /// Converts to the clock that all processes of the machine share.
    pub fn shared_ns(&self, taking: Taking) -> u64 {
        self.zero + taking.0
    }

    /// Records that a message was packed; `handed_over` is the time at which its rank handed it
    /// over, if it is timed.
    #[inline]
    pub fn on_taken(
        &mut self,
        stack: &Stack,
        peer: u32,
        (taking, handed_over): (Taking, Option<u64>),
        bytes: usize,
    ) {
        let gauges = Gauges::over(self.block.gauges());
        self.taken += 1;
        gauges.set(Gauge::Taken, self.taken);
        let end = stack.packed_before(peer);
        let large = bytes > SMALL;
        if let Some(at) = handed_over {
            gauges.time(Stage::Source, large, self.shared_ns(taking).saturating_sub(at));
        }
        let timed = self.sampler.is_timed().then_some((taking.0, large));
        let pending = self.pending.entry(peer).or_default();
        let last = pending.back().map(|last| last.end).unwrap_or_default();
        debug_assert!(last.is_before(end) || stack.is_lost(peer), "units are numbered upwards");
        match pending.back_mut() {
            Some(last) if last.end == end && timed.is_none() => last.count += 1,
            _ => pending.push_back(Pending { end, count: 1, timed }),
        }
        debug_assert!(pending.len() as u64 <= self.taken, "what waits for a packet was taken");
    }

    fn change_queue(&self, ticked: u64, by: i64) {
        let gauges = self.gauges();
        let now = self.zero + ticked;
        let queue = gauges.get(Gauge::Queue);
        let since = now.saturating_sub(gauges.get(Gauge::Changed));
        gauges.add(Gauge::QueueTime, queue.saturating_mul(since));
        let queue = queue.saturating_add_signed(by);
        gauges.set(Gauge::Queue, queue);
        gauges.set(Gauge::Changed, now);
        if queue > gauges.get(Gauge::QueueMost) {
            gauges.set(Gauge::QueueMost, queue);
        }
    }

    /// Records that the stack has sent what it could.
    pub fn on_sent(&mut self, stack: &Stack, clock: &impl Clock) {
        let Self { block, pending, .. } = self;
        let gauges = Gauges::over(block.gauges());
        let mut left = 0;
        for (&peer, pending) in pending {
            while let Some(first) =
                pending.pop_front_if(|first| stack.has_sent_before(peer, first.end))
            {
                debug_assert!(first.count > 0, "messages wait for a packet");
                left += first.count;
                if let Some((taken, large)) = first.timed {
                    let stay = clock.ticked_ns().saturating_sub(taken);
                    gauges.time(Stage::ToWire, large, stay);
                }
            }
        }
        debug_assert!(left <= self.taken, "what has left was taken");
        if left > 0 {
            self.change_queue(clock.ticked_ns(), -i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    /// Records that a message that had arrived at `arrived` was put into the lane of its endpoint.
    #[inline]
    pub fn on_brought(&mut self, clock: &impl Clock, arrived: u64, bytes: usize) {
        self.brought += 1;
        let gauges = Gauges::over(self.block.gauges());
        gauges.set(Gauge::Brought, self.brought);
        if self.sampler.is_timed() {
            let now = clock.ticked_ns();
            gauges.time(Stage::Delivery, bytes > SMALL, now.saturating_sub(arrived));
        }
    }

    /// Records that one-sided operations have arrived, at an interface that does nothing else.
    #[inline]
    pub fn on_operations(&self, arrived: u64, count: usize) {
        if count > 0 {
            self.change_queue(arrived, i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Records that a one-sided operation was executed. With `arrived` it was in the queue, since
    /// then.
    #[inline]
    pub fn on_executed(&mut self, clock: &impl Clock, arrived: Option<u64>, bytes: usize) {
        self.executed += 1;
        let gauges = Gauges::over(self.block.gauges());
        gauges.set(Gauge::Executed, self.executed);
        let Some(arrived) = arrived else { return };
        let now = clock.ticked_ns();
        if self.sampler.is_timed() {
            gauges.time(Stage::Delivery, bytes > SMALL, now.saturating_sub(arrived));
        }
        self.change_queue(now, -1);
    }

    /// Records that all arrivals are handled; those that were no operations were counted as such.
    #[inline]
    pub fn on_none_left(&self, clock: &impl Clock) {
        let left = self.gauges().get(Gauge::Queue);
        if left > 0 {
            self.change_queue(clock.ticked_ns(), -i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    /// Records the round trips that channels measure, at intervals.
    pub fn on_housekeeping(&self, stack: &Stack) {
        for srtt in stack.round_trips() {
            self.gauges().time(Stage::Wire, false, srtt / 2);
        }
    }
}
