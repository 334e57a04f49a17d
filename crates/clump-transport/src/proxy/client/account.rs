//! The account of bytes that endpoints of other nodes have not consumed. Arrivals change it, and
//! ranks that are gone.

use super::Inner;
use crate::peers;

/// Interval between two checks of flows to a rank that is gone.
const ASK_AGAIN_NS: u64 = 2_000_000;

impl Inner {
    /// Checks the account of stored messages, of paths, and of ranks that are watched or gone.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Self { ways, kept, gone, left, watched, .. } = self;
        debug_assert_eq!(ways.len(), self.node.proxies() as usize, "a path to each proxy");
        debug_assert!(kept.iter().all(|(way, ..)| *way < ways.len()), "each waits for a proxy");
        debug_assert!(self.full_way.is_none_or(|way| way < ways.len()), "a proxy had no room");
        let bytes: usize = kept.iter().map(|(.., payload)| payload.len()).sum();
        debug_assert_eq!(bytes, self.kept_bytes, "stored bytes are counted");
        let is_gone = |rank: &u32| gone.contains_key(rank);
        for (at, rank) in watched.iter().enumerate() {
            debug_assert!(!is_gone(rank), "a rank that is gone is watched no more");
            debug_assert!(!watched[at + 1..].contains(rank), "a rank is watched once");
        }
        debug_assert!(left.iter().all(is_gone), "only ranks that are gone are left");
    }

    /// Watches `peer` for its death from now on, if it is a rank.
    pub(super) fn watch(&mut self, peer: u32) {
        debug_assert!(!self.node.is_local(peer), "ranks of a node need no proxy");
        let is_rank = (peer as usize) < self.node.ranks();
        if is_rank && !self.gone.contains_key(&peer) && !self.watched.contains(&peer) {
            self.watched.push(peer);
        }
        let is_known = self.watched.contains(&peer) || self.gone.contains_key(&peer);
        debug_assert!(is_known || !is_rank, "a rank is watched or gone");
    }

    /// Notes which watched ranks are gone.
    pub(super) fn housekeeping(&mut self) {
        let Self { watched, gone, left, node, .. } = self;
        watched.retain(|rank| {
            let Some(why) = node.peer(*rank).and_then(peers::gone) else { return true };
            let before = gone.insert(*rank, why);
            debug_assert_eq!(before, None, "a rank that is gone is watched no more");
            debug_assert!(!left.contains(rank), "a rank goes once");
            left.push(*rank);
            false
        });
        self.check_invariants();
        if !self.left.is_empty() {
            self.repeat_credit_requests();
        }
    }

    /// Repeats credit requests for flows to such ranks: the earlier ones may have been lost with
    /// them. Their proxies, or this node's, answer instead.
    #[cold]
    fn repeat_credit_requests(&mut self) {
        let now = (self.clock)();
        debug_assert!(self.asked_at <= now, "time runs forward");
        if !self.kept.is_empty() || now.saturating_sub(self.asked_at) < ASK_AGAIN_NS {
            return;
        }
        self.asked_at = now;
        let Self { left, flows, .. } = self;
        left.retain(|rank| {
            let mut outstanding = false;
            for flow in flows.towards(*rank).filter(|flow| flow.outstanding() != 0) {
                flow.on_report([0, 0]);
                outstanding = true;
            }
            outstanding
        });
    }
}
