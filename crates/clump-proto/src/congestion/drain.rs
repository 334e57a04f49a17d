//! Drains: short times with little in flight, in which the least round trip shows.

use crate::Nanos;
use crate::time::{Ticks, nanos};

/// Time between drains: a sender whose window is in use reduces it to one unit for some rounds, so
/// that a queue drains and the least round trip is seen (BBR's ProbeRTT: Cardwell et al., ACM Queue
/// 14, 2016). A sender that began behind others' packets takes their queue for the path, and would
/// keep it for as long as it lasts. Senders that begin together drain together.
const DRAIN_EVERY: Nanos = 100_000_000;
/// Least number of rounds between drains, so that on long paths they cost as little.
const DRAIN_AFTER: u32 = 256;
/// Time and rounds until the first drain after the window was made smaller for the first time;
/// doubled for each later one: a queue that was taken for the path while others began need not last
/// (ADR 12).
const FIRST_DRAIN: (Nanos, u32) = (5_000_000, 32);
/// Rounds of a drain: in the first, units sent before are acknowledged; in the others, the other
/// senders' reduction shows.
const DRAIN_ROUNDS: u32 = 4;
/// Those on a path that holds much more than its queues: half a window is enough there.
const FAR_DRAIN_ROUNDS: u32 = 2;

/// The drain that goes on, or the time since the last one.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// Rounds left of a drain, and the time at which the last one ended.
    left: u32,
    ended_at: Ticks,
    /// Rounds since.
    undrained: u32,
    /// Drains since the window was first made smaller, as far as they count.
    drains: u32,
}

impl Drain {
    /// Returns true while a queue drains.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.left > 0
    }

    /// Ends a round of a drain.
    pub(super) fn end_drained_round(&mut self, now: Ticks) {
        debug_assert!(self.left > 0, "a drain goes on");
        self.left -= 1;
        (self.ended_at, self.undrained) = (now, 0);
    }

    /// Ends a round without a drain.
    pub(super) fn end_round(&mut self, now: Ticks) {
        debug_assert!(self.left == 0, "a round of a drain is another");
        self.undrained = self.undrained.saturating_add(1);
        if self.undrained == 1 && self.ended_at == 0 {
            self.ended_at = now; // nothing is known before the first round
        }
    }

    /// Counts the time to the next drain from now on.
    pub(super) fn postpone(&mut self, now: Ticks) {
        (self.ended_at, self.undrained) = (now, 0);
    }

    /// Begins a drain if one is due; `early`: since the window was made smaller for the first
    /// time. Not while windows still double: senders that do not drain would take the bandwidth
    /// that the others leave.
    pub(super) fn begin_if_due(&mut self, now: Ticks, early: bool, is_far: bool) {
        let mut wait = (DRAIN_EVERY, DRAIN_AFTER);
        if early {
            let (time, rounds) = FIRST_DRAIN;
            wait = (wait.0.min(time << self.drains), wait.1.min(rounds << self.drains));
        }
        if self.undrained > wait.1 && nanos(now.wrapping_sub(self.ended_at)) > wait.0 {
            if early {
                self.drains = (self.drains + 1).min(DRAIN_AFTER.ilog2());
            }
            self.left = if is_far { FAR_DRAIN_ROUNDS } else { DRAIN_ROUNDS };
        }
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        assert!(self.left <= DRAIN_ROUNDS, "a drain ends");
        assert!(self.drains <= DRAIN_AFTER.ilog2(), "drains become rarer to a bound");
    }
}
