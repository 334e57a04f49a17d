//! Progress of one node's requests, as a requester counts it.

use crate::refusal::Refusal;

/// Progress of a node.
#[derive(Debug, Default)]
pub(super) struct NodeProgress {
    /// Number of requests sent to its interface, and number of those known to be executed.
    pub(super) sent: u64,
    pub(super) known: u64,
    /// Number of requests that later ones have to wait for.
    pub(super) fence: u64,
    /// Number of the last request sent whose end only `quiet` reports.
    pub(super) silent: u64,
    /// Refused requests without an answer: number reported by the node, and number reported to the
    /// program.
    pub(super) failed: u64,
    pub(super) reported: u64,
    pub(super) failure: Option<(Refusal, u64, u64)>,
    /// True if silent requests were in flight when the node was lost, and this was not reported to
    /// the program.
    pub(super) unsure: bool,
    pub(super) lost: bool,
}

impl NodeProgress {
    /// Ends all requests in flight: no more answers will arrive. `loss` reports that once.
    pub(super) fn give_up(&mut self) {
        debug_assert!(self.silent <= self.sent, "what is silent was sent");
        self.unsure |= self.silent > self.known;
        self.known = self.sent;
    }

    /// Discounts a request that its node has not executed and never will: nothing can wait for it.
    pub(super) fn take_back(&mut self) {
        self.sent = self.sent.saturating_sub(1);
        self.silent = self.silent.min(self.sent);
        self.known = self.known.min(self.sent);
        self.fence = self.fence.min(self.sent);
        self.check_invariants();
    }

    /// Checks that nothing counts as more than sent, and that a failure is kept exactly while some
    /// are not reported to the program.
    pub(super) fn check_invariants(&self) {
        debug_assert!(self.known <= self.sent, "what was executed was sent");
        debug_assert!(self.fence <= self.sent, "a fence orders requests that were sent");
        debug_assert!(self.silent <= self.sent, "what is silent was sent");
        debug_assert!(self.reported <= self.failed, "only failures that occurred are reported");
        debug_assert_eq!(self.failure.is_some(), self.failed > self.reported, "the first is kept");
    }
}
