//! Growth of a window beyond its threshold: as much as filled the path before, then faster the
//! longer nothing queues.

use crate::Nanos;

/// Rounds of growth in a row after which the step doubles.
const ACTIVE_AFTER: u32 = 4;
const MAX_DOUBLINGS: u32 = 16;
/// Time in which a window grows by a unit at least.
const GROWTH_TIME: Nanos = 400_000;
/// Rounds in a row with next to no queue after which the path is not full.
const EMPTY_ROUNDS: u32 = 2;

/// Growth since the window was last made smaller.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Bytes that the path carried in a least round trip when the window was made smaller.
    ceiling: usize,
    /// Rounds in a row in which the window grew beyond the threshold.
    calm_rounds: u32,
    /// Window that last filled the path, rounds in a row without a queue, and those of them in
    /// which the window was larger than that.
    saturated: usize,
    empty_rounds: u32,
    ramp: u32,
    /// True if it has grown since it was made smaller.
    grew: bool,
}

/// A window and its path in a round without congestion.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalmRound {
    pub(super) window: usize,
    /// Length of the longest unit.
    pub(super) unit: usize,
    /// Least round trip.
    pub(super) least: Nanos,
    /// True if a round trip may be one of queues; if it is much longer than those.
    pub(super) is_short: bool,
    pub(super) is_far: bool,
    /// True if next to nothing queued.
    pub(super) is_empty: bool,
    /// The most bytes that the path has carried in a least round trip.
    pub(super) highest: usize,
}

impl Growth {
    /// Returns the growth of a round beyond the threshold: a unit, and twice as much every round
    /// once that has changed nothing for some (TIMELY, SIGCOMM 2015, 4.3: hyperactive increase).
    pub(super) fn step(&mut self, round: CalmRound) -> usize {
        let CalmRound { window, unit, least, is_short, is_far, is_empty, highest } = round;
        if window < self.ceiling {
            // As much as the path carried before (binary increase: Xu et al., INFOCOM 2004).
            return ((self.ceiling - window) / 2).max(unit);
        }
        if is_short {
            return unit; // rounds are many
        }
        self.calm_rounds += 1;
        self.empty_rounds = if is_empty { self.empty_rounds + 1 } else { 0 };
        let beyond = window > self.saturated + self.saturated / 16;
        self.ramp = if beyond && self.empty_rounds > EMPTY_ROUNDS { self.ramp + 1 } else { 0 };
        if self.ramp > 0 {
            // More than last filled the path leaves it empty: it carries more than then.
            let halvings = if window < highest / 2 { 0 } else { 4 - self.ramp.min(3) };
            return (window >> halvings).max(unit);
        }
        let most = if is_far { window / 32 } else { window / 8 };
        let doublings = self.calm_rounds.saturating_sub(ACTIVE_AFTER).min(MAX_DOUBLINGS);
        let doublings = if self.empty_rounds > EMPTY_ROUNDS { MAX_DOUBLINGS } else { doublings };
        // As much in a time as over a short path: senders that share a long one come to equal
        // windows by what they grow by regardless of those.
        let base = unit * (least / GROWTH_TIME).max(1) as usize;
        // A bound in proportion to the window would keep what is unequal so.
        let step = (base << doublings).min(most.max(base)).min(window / 2).max(unit);
        debug_assert!(step >= unit && step <= (window / 2).max(unit), "half as much at most");
        step
    }

    /// Notes a round in which the window grew.
    pub(super) fn note_grown(&mut self) {
        self.grew = true;
    }

    /// Notes a round in which it did not.
    pub(super) fn note_still(&mut self) {
        self.calm_rounds = 0;
    }

    /// Notes that a window was made smaller, and what its path is known to carry, or 0.
    pub(super) fn on_cut(&mut self, window: usize, ceiling: usize) {
        debug_assert!(ceiling <= window, "what arrived was in flight");
        // Of cuts one after the other the first tells how much filled the path.
        let filled = if self.grew { 0 } else { self.saturated };
        *self = Self { saturated: window.max(filled), ceiling, ..Self::default() };
    }

    /// Notes that no window is known to have filled the path.
    pub(super) fn forget_saturation(&mut self) {
        self.saturated = 0;
    }
}
