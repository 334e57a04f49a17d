//! The end of a job in virtual time, for reports.

use super::table::TimeTable;
use clump_os::sync::Ordering::Relaxed;

/// Results of a job in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSummary {
    /// The latest clock, in ns.
    pub ns: u64,
    /// Computation of all ranks, in virtual ns.
    pub computed_ns: u64,
    /// The part of it that no recording had.
    pub diverged_ns: u64,
    /// The part of it in which threads lost the processor, where it is measured.
    pub preempted_ns: u64,
    /// Messages that were handled.
    pub messages: u64,
    /// Hand-overs of the token.
    pub turns: u64,
    /// A number that all sends and receptions with their times have made.
    pub digest: u64,
}

impl TimeTable {
    /// Sums up what the actors have done.
    pub(crate) fn summary(&self) -> TimeSummary {
        let turns = self.header.turns.load(Relaxed);
        let mut sum = TimeSummary {
            ns: 0,
            computed_ns: 0,
            diverged_ns: 0,
            preempted_ns: 0,
            messages: 0,
            turns,
            digest: 0,
        };
        for (at, line) in self.actors.iter().enumerate() {
            if at < self.node_of.len() {
                sum.ns = sum.ns.max(line.clock_ns.load(Relaxed));
            }
            sum.computed_ns = sum.computed_ns.saturating_add(line.computed_ns.load(Relaxed));
            sum.diverged_ns = sum.diverged_ns.saturating_add(line.diverged_ns.load(Relaxed));
            sum.preempted_ns = sum.preempted_ns.saturating_add(line.preempted_ns.load(Relaxed));
            sum.messages = sum.messages.saturating_add(line.handled.load(Relaxed));
            let of_actor = [line.digest.load(Relaxed), line.clock_ns.load(Relaxed)];
            sum.digest = of_actor.into_iter().fold(sum.digest, mix);
        }
        debug_assert!(sum.ns > 0 || sum.messages == 0, "a message takes time");
        sum
    }
}

/// Mixes a word into a digest (the multiplier of splitmix64).
pub(super) fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}
