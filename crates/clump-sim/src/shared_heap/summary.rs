//! Outcome of a run.

use super::message_counts::HeapMessageCounts;
use crate::kernel::NetCounts;

/// Counts of what ranks did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HeapCounts {
    pub runs: u64,
    pub reads: u64,
    pub writes: u64,
    /// Faults: pages that a rank requested from its interface.
    pub faults: u64,
    /// Entries of locks; of these, entries behind a rank of another node, and without a call.
    pub locks: u64,
    pub locks_from_other_nodes: u64,
    pub locks_kept: u64,
    pub barriers: u64,
    pub flags_awaited: u64,
    /// Ranks that came to the end of their programs.
    pub finished: u64,
    /// Ranks that died, and ranks that ended with an error because of that.
    pub died: u64,
    pub ended_by_deaths: u64,
    pub messages: HeapMessageCounts,
    /// Units that stacks of interfaces have sent again.
    pub units_resent: u64,
}

impl HeapCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let HeapMessageCounts { all, pages, diffs, notices, .. } = other.messages;
        let messages = &mut self.messages;
        for (sum, count) in [
            (&mut self.runs, other.runs),
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
            (&mut self.faults, other.faults),
            (&mut self.locks, other.locks),
            (&mut self.locks_from_other_nodes, other.locks_from_other_nodes),
            (&mut self.locks_kept, other.locks_kept),
            (&mut self.barriers, other.barriers),
            (&mut self.flags_awaited, other.flags_awaited),
            (&mut self.finished, other.finished),
            (&mut self.died, other.died),
            (&mut self.ended_by_deaths, other.ended_by_deaths),
            (&mut self.units_resent, other.units_resent),
            (&mut messages.all, all),
            (&mut messages.pages, pages),
            (&mut messages.diffs, diffs),
            (&mut messages.notices, notices),
            (&mut messages.lock_grants, other.messages.lock_grants),
            (&mut messages.lock_recalls, other.messages.lock_recalls),
            (&mut messages.barrier_ends, other.messages.barrier_ends),
            (&mut messages.flags_reached, other.messages.flags_reached),
        ] {
            *sum += count;
        }
    }
}

/// Outcome of a run without violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SharedHeapSummary {
    pub seed: u64,
    pub ranks: u32,
    pub nodes: u32,
    pub proxies: u32,
    /// Virtual time until the last rank had ended.
    pub network_ns: u64,
    pub events: u64,
    pub counts: HeapCounts,
    pub net: NetCounts,
    /// Digest of the times of all events: two runs of one seed agree in it.
    pub digest: u64,
}
