//! One run of a sweep, as its journal keeps it.

use crate::virtual_sweep::VirtualRun;
use clump_trace::line_state::{LineTimes, alike};
use clump_trace::{Counter, Profile};
use serde::{Deserialize, Serialize};

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The program ended cleanly after so many seconds.
    Took(f64),
    /// It ended with this code.
    Failed(i32),
    /// It was stopped after so many seconds.
    DidNotFinish(f64),
}

/// Attempts at locks of one-sided operations, of all ranks of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockCounts {
    /// Locks that were acquired.
    pub acquired: u64,
    /// Attempts that failed: the lock was not free, or not in time.
    pub failed: u64,
}

impl LockCounts {
    /// Returns those of a profile.
    pub fn of(profile: &Profile) -> Self {
        let sum = |counter| profile.counters.iter().map(|rank| rank[counter]).sum();
        Self { acquired: sum(Counter::RmaLocks), failed: sum(Counter::RmaLocksFailed) }
    }

    /// Returns a sentence about them, if attempts failed.
    pub fn note(self) -> Option<String> {
        let Self { acquired, failed } = self;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let each = failed as f64 / acquired as f64;
        match (acquired, failed) {
            (_, 0) => None,
            (0, failed) => Some(format!("{failed} attempts at locks failed, none succeeded")),
            _ => Some(format!("{failed} attempts at locks failed, {each:.1} per acquired lock")),
        }
    }
}

/// One run: a line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRun {
    /// Its number in the order of the plan.
    pub turn: usize,
    /// Index of its setting.
    pub setting: usize,
    /// Its end.
    pub end: RunEnd,
    /// Attempts at locks; `None`: it left no profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockCounts>,
    /// Time of the program's phases in s, where it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases_s: Option<f64>,
    /// Time for which a rank could have run but waited for a processor in s, of the rank that
    /// waited most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_s: Option<f64>,
    /// Times that the kernel took the processor from a rank, of the rank with most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptions: Option<u64>,
    /// Round trips between the processors before and after it, where there are two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineTimes>,
    /// Its virtual time, whose end is that of `end`; `None`: it was the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualRun>,
}

impl SweepRun {
    /// Returns true if the machine was in one state during this run and `other`, as far as is
    /// known.
    pub fn is_like(&self, other: &Self) -> bool {
        let all = [self.lines, other.lines].into_iter().flatten();
        let all: Vec<f64> = all.flat_map(|lines| [lines.before_ns, lines.after_ns]).collect();
        all.iter().all(|one| all.iter().all(|other| alike(*one, *other)))
    }

    /// Creates a run of which nothing but its end is known.
    pub fn of((turn, setting): (usize, usize), end: RunEnd) -> Self {
        Self {
            turn,
            setting,
            end,
            locks: None,
            phases_s: None,
            waited_s: None,
            preemptions: None,
            lines: None,
            virtual_time: None,
        }
    }
}
