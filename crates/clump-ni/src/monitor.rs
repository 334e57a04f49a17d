//! What an interface notes about itself while it works ([`clump_trace::monitor`]).

use clump_net::Stack;
use clump_os::clock;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_trace::{Gauge, Gauges, SMALL, Stage};
use std::collections::{HashMap, VecDeque};

/// Messages for one peer that were taken and whose packet has not been sent.
#[derive(Debug)]
struct Pending {
    /// They have left once the stack has sent all units below this.
    end: u64,
    count: u64,
    /// When one of them that is timed was taken, and whether it is large.
    timed: Option<(u64, bool)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watcher {
    block: Shared<RankBlock>,
    /// The clock that all processes of the machine share, when this process's own was 0.
    zero: u64,
    /// By peer: one that takes nothing holds up no other's account.
    pending: HashMap<u32, VecDeque<Pending>>,
    taken: u64,
    brought: u64,
}

/// One message in so many is timed.
const EVERY: u64 = 8;

impl Watcher {
    pub(crate) fn new(block: Shared<RankBlock>) -> Self {
        let now = clock::now_ns();
        let zero = now.saturating_sub(clock::ticked_ns());
        let watcher = Self { block, zero, pending: HashMap::new(), taken: 0, brought: 0 };
        watcher.gauges().set(Gauge::Changed, now);
        watcher.gauges().set(Gauge::Started, now);
        watcher
    }

    fn gauges(&self) -> Gauges<'_> {
        Gauges::over(self.block.counters())
    }

    /// A turn that found something took from `began` to `now`.
    pub(crate) fn on_turn(&self, began: u64, now: u64) {
        self.gauges().add(Gauge::Busy, now.saturating_sub(began));
    }

    /// A message of a rank was taken and packed; `handed_over` says when the rank did that, if it is timed.
    #[inline]
    pub(crate) fn on_taken(
        &mut self,
        stack: &Stack,
        peer: u32,
        handed_over: Option<u64>,
        bytes: usize,
    ) {
        let gauges = Gauges::over(self.block.counters());
        gauges.set(Gauge::Taken, self.taken + 1);
        let end = stack.packed_before(peer);
        let large = bytes > SMALL;
        if let Some(at) = handed_over {
            gauges.time(Stage::Source, large, clock::now_ns().saturating_sub(at));
        }
        self.taken += 1;
        let timed = self.taken.is_multiple_of(EVERY).then(|| (clock::ticked_ns(), large));
        self.change_queue(1);
        let pending = self.pending.entry(peer).or_default();
        match pending.back_mut() {
            Some(last) if last.end == end && timed.is_none() => last.count += 1,
            _ => pending.push_back(Pending { end, count: 1, timed }),
        }
    }

    fn change_queue(&self, by: i64) {
        let gauges = self.gauges();
        let now = self.zero + clock::ticked_ns();
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

    /// The stack has sent what it could.
    pub(crate) fn on_sent(&mut self, stack: &Stack) {
        let Self { block, pending, .. } = self;
        let gauges = Gauges::over(block.counters());
        let mut left = 0;
        for (&peer, pending) in pending {
            while let Some(first) =
                pending.pop_front_if(|first| stack.has_sent_before(peer, first.end))
            {
                left += first.count;
                if let Some((taken, large)) = first.timed {
                    let stay = clock::ticked_ns().saturating_sub(taken);
                    gauges.time(Stage::ToWire, large, stay);
                }
            }
        }
        if left > 0 {
            self.change_queue(-i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    /// A message was put into the lane of its endpoint; it had arrived at `arrived`.
    #[inline]
    pub(crate) fn on_brought(&mut self, arrived: u64, bytes: usize) {
        self.brought += 1;
        let gauges = self.gauges();
        gauges.set(Gauge::Brought, self.brought);
        if self.brought.is_multiple_of(EVERY) {
            let now = clock::ticked_ns();
            gauges.time(Stage::Delivery, bytes > SMALL, now.saturating_sub(arrived));
        }
    }

    /// A one-sided operation was executed.
    #[inline]
    pub(crate) fn on_executed(&self) {
        self.gauges().add(Gauge::Executed, 1);
    }

    /// Now and then: what channels know of the wire.
    pub(crate) fn on_attend(&self, stack: &Stack) {
        for srtt in stack.round_trips() {
            self.gauges().time(Stage::Wire, false, srtt / 2);
        }
    }
}
