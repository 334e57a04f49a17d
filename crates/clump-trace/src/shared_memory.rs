//! The breakdown of ranks' time in shared virtual memory (paper 003, figure 3 and table 1).

use crate::counter::Counter;
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

/// Shares of the time that ranks had the shared heap open, in percent, and events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedMemorySummary {
    /// Step of the protocol ladder, as the setting `svm` names it; empty on one node.
    pub protocol: String,
    /// Requests of other nodes, per rank, that a thread of a node was woken for.
    pub woken_per_rank: f64,
    /// Protocol messages between nodes, per rank.
    pub sent_per_rank: f64,
    /// Protocol messages with diffs.
    pub diffs_sent_per_rank: f64,
    /// Page faults per rank, on average.
    pub faults_per_rank: f64,
    /// Mean time of a page fault, in us.
    pub fault_us: f64,
    /// Mean time of an acquire of a lock, or of a wait for a flag, in us.
    pub lock_us: f64,
    /// Mean time of a barrier, in us.
    pub barrier_us: f64,
    /// Computation: none of what follows.
    pub compute_percent: f64,
    /// Page faults.
    pub data_percent: f64,
    /// Acquires of locks, and waits for flags.
    pub lock_percent: f64,
    /// Waits for flags, within those.
    pub flag_percent: f64,
    /// Mean time of a wait for a flag, in us.
    pub flag_us: f64,
    /// Releases.
    pub release_percent: f64,
    /// Barriers.
    pub barrier_percent: f64,
    /// Waits for other ranks, within barriers: the rest is protocol.
    pub others_percent: f64,
    /// Changes of rights by the kernel, within the others.
    pub protection_percent: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53, and these are averages")]
fn real(count: u64) -> f64 {
    count as f64
}

/// Names of the steps, from 1.
const STEPS: [&str; 6] = ["base", "dw", "rf", "dd", "nil", "deposit"];

/// Returns the name of the step that all ranks report, from 1.
fn step_name(step: f64) -> &'static str {
    (1_u8..).zip(STEPS).find(|&(number, _)| f64::from(number) == step).map_or("", |(_, name)| name)
}

impl SharedMemorySummary {
    /// Computes the figures from the sum of the counters of so many ranks; none if no rank opened
    /// the heap.
    pub fn of(all: &Snapshot, ranks: f64) -> Option<Self> {
        use Counter as C;
        let open = all[C::SvmOpen];
        let percent = |counter: C| 100.0 * real(all[counter]) / real(open.max(1));
        let mean = |ns: C, count: C| real(all[ns]) / 1e3 / real(all[count].max(1));
        let [data, lock] = [percent(C::SvmFaultWait), percent(C::SvmLockWait)];
        let [release, barrier] = [percent(C::SvmReleaseTime), percent(C::SvmBarrierWait)];
        (open != 0).then(|| Self {
            protocol: step_name(real(all[C::SvmProtocol]) / ranks).into(),
            woken_per_rank: real(all[C::SvmWoken]) / ranks,
            sent_per_rank: real(all[C::SvmSent]) / ranks,
            diffs_sent_per_rank: real(all[C::SvmSentDiffs]) / ranks,
            faults_per_rank: real(all[C::SvmFaults]) / ranks,
            fault_us: mean(C::SvmFaultWait, C::SvmFaults),
            lock_us: mean(C::SvmLockWait, C::SvmLocks),
            barrier_us: mean(C::SvmBarrierWait, C::SvmBarriers),
            compute_percent: (100.0 - data - lock - release - barrier).max(0.0),
            data_percent: data,
            lock_percent: lock,
            flag_percent: percent(C::SvmFlagWait),
            flag_us: mean(C::SvmFlagWait, C::SvmFlags),
            release_percent: release,
            barrier_percent: barrier,
            others_percent: percent(C::SvmBarrierOthers),
            protection_percent: percent(C::SvmProtectionTime),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_that_the_heap_was_open() {
        assert_eq!(SharedMemorySummary::of(&Snapshot::ZERO, 2.0), None);
        let times = [
            (Counter::SvmOpen, 1_000_000),
            (Counter::SvmFaults, 10),
            (Counter::SvmFaultWait, 250_000),
            (Counter::SvmBarriers, 4),
            (Counter::SvmBarrierWait, 100_000),
            (Counter::SvmBarrierOthers, 80_000),
            (Counter::SvmFlags, 2),
            (Counter::SvmFlagWait, 50_000),
            (Counter::SvmProtocol, 2 * 4),
            (Counter::SvmWoken, 6),
            (Counter::SvmSent, 8),
            (Counter::SvmSentDiffs, 5),
        ];
        let mut all = Snapshot::ZERO;
        times.into_iter().for_each(|(counter, value)| all[counter] = value);
        let found = SharedMemorySummary::of(&all, 2.0).unwrap();
        assert_eq!((found.faults_per_rank, found.fault_us, found.barrier_us), (5.0, 25.0, 25.0));
        assert_eq!((found.data_percent, found.barrier_percent), (25.0, 10.0));
        assert_eq!((found.others_percent, found.flag_percent, found.flag_us), (8.0, 5.0, 25.0));
        assert_eq!((found.protocol.as_str(), found.woken_per_rank), ("dd", 3.0));
        assert_eq!((found.sent_per_rank, found.diffs_sent_per_rank), (4.0, 2.5));
        assert_eq!((found.compute_percent, found.lock_us), (65.0, 0.0));
    }
}
