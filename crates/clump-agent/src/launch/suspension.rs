//! The time in which agents stop their ranks, since the user suspends the job, and the signals that
//! a launcher takes.

use clump_os::{clock, signal};
use std::collections::BTreeSet;

/// Longest time that agents get to stop their ranks before the launcher stops all the same.
const STOP_WITHIN_NS: u64 = 2_000_000_000;

/// Returns the signals that a launcher takes. Those that nohup or a shell had this process ignore
/// stay ignored. A launcher in the background that reads the terminal gets an error instead of one.
pub(super) fn taken() -> Vec<u8> {
    let others = [signal::TERMINAL_STOP, signal::TERMINAL_INPUT];
    let all = signal::ENDS.into_iter().chain(signal::OF_PROGRAMS).chain(others);
    all.filter(|&signal| !signal::is_ignored(signal)).collect()
}

/// Stops this process until it is continued; returns the time that this took, in ns.
pub(super) fn stop_self() -> u64 {
    let before_ns = clock::now_ns();
    // To the thread that calls, so that it has stopped, with all others, when the call returns.
    let _ = signal::to_this_thread(signal::STOP);
    clock::now_ns().saturating_sub(before_ns)
}

/// The time in which agents stop their ranks.
#[derive(Debug)]
pub(super) struct Suspension {
    deadline_ns: u64,
    /// Nodes that have not stopped theirs.
    waits_for: BTreeSet<usize>,
}

impl Suspension {
    /// Begins to wait for the agents of `nodes`.
    pub(super) fn new(nodes: BTreeSet<usize>, now_ns: u64) -> Self {
        Self { deadline_ns: now_ns.saturating_add(STOP_WITHIN_NS), waits_for: nodes }
    }

    /// Returns true if no agent is waited for any more, of those that still run.
    pub(super) fn is_over(&mut self, runs: impl Fn(&usize) -> bool, now_ns: u64) -> bool {
        self.waits_for.retain(runs);
        self.waits_for.is_empty() || self.deadline_ns <= now_ns
    }

    /// Returns the time when the launcher stops in any case.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Records that the agent of a node has stopped its ranks.
    pub(super) fn note_suspended(&mut self, node: usize) {
        self.waits_for.remove(&node);
    }
}
