//! Parameters that only studies change: the keys of `clump run --lab`, which ranks and agents find
//! in the setting `CLUMP_LAB`.

use crate::choices::{
    Dispatch, SvmAhead, SvmConsistency, SvmDiffs, SvmFaults, SvmFetch, SvmNotices,
};
use crate::key_list::key_list;

/// Variable of the setting.
pub(crate) const VARIABLE: &str = "CLUMP_LAB";

key_list! {
    /// Parameters that studies change.
    pub struct Lab of VARIABLE;
    /// The keys of `--lab`.
    pub static LAB_KEYS;

    spin_ns: u64 = 0 in 0..=1_000_000_000, "ns", "spin",
        "Time that a waiting rank spins before it yields; 0: measured at the start of the job.";
    yield_ns: u64 = 0 in 0..=1_000_000_000, "ns", "yield",
        "Time that a waiting rank yields before it sleeps; 0: measured at the start of the job.";
    net_dispatch: Dispatch = 0 in 0..=2, "", "net.dispatch",
        "Proxy that takes a message: always the same, round robin, or the least loaded.";
    net_poll_min: u64 = 16 in 1..=1_000_000, "", "net.poll-min",
        "Shared-memory polls per network poll when busy.";
    net_poll_max: u64 = 256 in 1..=1_000_000, "", "net.poll-max",
        "Shared-memory polls per network poll when the network has been idle.";
    net_window: u64 = 0 in 0..=1_073_741_824, "B", "net.window",
        "Bytes under way to each peer on another node; 0: found by congestion control.";
    net_control_first: bool = 1 in 0..=1, "bool", "net.control-first",
        "Small messages go ahead of data that waits.";
    pgas_batch: u64 = 1365 in 1..=1365, "", "pgas.batch",
        "Small operations on other nodes after which a batch of them is sent.";
    pgas_delay_ns: u64 = 1_000_000 in 0..=60_000_000_000, "ns", "pgas.delay",
        "Age at which a batch is sent, at the next operation or poll.";
    pgas_grid: u64 = 64 in 0..=4_294_967_295, "", "pgas.grid",
        "Nodes from which on batches travel over a grid of nodes, by way of another; 0: never.";
    pgas_combine: bool = 1 in 0..=1, "bool", "pgas.combine",
        "Proxies combine the batches of their node's ranks, by destination node.";
    svm_faults: SvmFaults = 0 in 0..=4, "", "svm.faults",
        "Detection of accesses to pages of shared virtual memory; auto: the best that the kernel permits.";
    svm_diffs: SvmDiffs = 2 in 0..=2, "", "svm.diffs",
        "Message of changes to a home of pages: one for each run of bytes, for each page, or for all pages of the home.";
    svm_consistency: SvmConsistency = 1 in 0..=1, "", "svm.consistency",
        "Order of data published without a lock: none (plain), or causal through page fetches (fetch).";
    svm_ahead: SvmAhead = 0 in 0..=3, "", "svm.ahead",
        "Pages that come before they are used, where ranks fetch them (CLUMP_SVM=deposit): those at the distances of the faults before (strides), those used after the last barriers and locks (history), both (auto), or sequences alone (none).";
    svm_notices: SvmNotices = 0 in 0..=2, "", "svm.notices",
        "Direction of write notices: releases send them to all nodes (push), or acquires request them (pull); auto: as the step of CLUMP_SVM.";
    svm_fetch: SvmFetch = 0 in 0..=2, "", "svm.fetch",
        "Answer of a home that is behind: once it has caught up (wait), or at once, so that the requester tries again (retry); auto: as the step of CLUMP_SVM.";
    svm_move_after: u64 = 0 in 0..=255, "", "svm.move-after",
        "Periods between barriers after which a page moves to its sole writer; 0: as the program says.";
}

#[cfg(test)]
mod tests {
    use super::{Lab, SvmFaults};

    #[test]
    fn what_a_list_does_not_name_stays() {
        let first = Lab::default().read("here", "svm.faults=scan,net.window=64KiB").unwrap();
        let both = first.read("there", "spin=1ms,net.control-first=off").unwrap();
        assert_eq!((both.svm_faults, both.net_window), (SvmFaults::Scan, 64 << 10));
        assert_eq!((both.spin_ns, both.net_control_first), (1_000_000, false));
    }
}
