//! Acquires: notices are applied, once they are here, and pages that lack something are taken away.

use crate::cached_page::CachedPage;
use crate::config::{Consistency, NoticeTransfer};
use crate::interval::Interval;
use crate::message::{Action, NodeMessage};
use crate::node::{NodeState, Pending};
use crate::vector_time::VectorTime;

impl<P> Pending<P> {
    /// Returns the time whose notices the step waits for.
    fn time(&self) -> &VectorTime {
        match self {
            Self::Acquire { time, .. } | Self::Page { time, .. } | Self::Depart { time, .. } => {
                time
            }
            Self::Deposit { header, .. } => &header.time,
        }
    }
}

impl<P> NodeState<P> {
    /// Carries a step out once the notices of its time are here.
    pub(super) fn wait_for_notices(&mut self, step: Pending<P>) {
        if self.is_ready(&step) {
            self.carry_out(step);
            return;
        }
        if self.config.notices == NoticeTransfer::Pull {
            self.pull(step.time());
        }
        debug_assert_eq!(step.time().get(self.config.node).max(self.closed()), self.closed());
        debug_assert!(step.time().nodes() == usize::from(self.config.nodes));
        self.pending.push(step);
    }

    /// Requests notices up to `time` from each node, unless they are requested already.
    fn pull(&mut self, time: &VectorTime) {
        for node in 0..self.config.nodes {
            let after = self.pulled.get(node).max(self.log.known().get(node));
            let until = time.get(node);
            if until > after {
                debug_assert_ne!(node, self.config.node, "own intervals are known");
                self.pulled.raise(node, until);
                self.send(node, NodeMessage::PullNotices { after, until });
            }
        }
        debug_assert!({
            let mut asked = self.pulled.clone();
            asked.join(self.log.known());
            asked.covers(time)
        });
    }

    /// Answers a request for own notices. Those that have been discarded were sent to all.
    pub(super) fn on_pull(&mut self, from: u16, after: u32, until: u32) {
        let node = self.config.node;
        if until > self.closed() {
            return;
        }
        let kept: Vec<_> = self.log.between(node, after, until).cloned().collect();
        debug_assert!(
            kept.iter().all(|interval| interval.number > after),
            "only requested notices are sent"
        );
        debug_assert!(from != node, "a node has its own");
        for interval in kept {
            self.send(from, NodeMessage::Notices(interval));
        }
    }

    /// Takes write notices.
    pub(super) fn on_notices(&mut self, interval: Interval) {
        debug_assert!(interval.number > 0, "intervals count from 1");
        if interval.node == self.config.node || !self.log.insert(interval) {
            return;
        }
        self.retry_pending();
        self.bound_log();
        debug_assert!(self.log.known().covers(&self.seen));
    }

    /// Carries out the steps that need not wait any longer.
    pub(super) fn retry_pending(&mut self) {
        while let Some(at) = self.pending.iter().position(|step| self.is_ready(step)) {
            let step = self.pending.remove(at);
            self.carry_out(step);
        }
        debug_assert!(!self.pending.iter().any(|step| self.is_ready(step)));
    }

    /// Returns true if the notices of a step are here. A diff from behind a barrier waits until
    /// this node has passed it, or its notices would request pages from the old home whose diffs
    /// are sent to the new one.
    fn is_ready(&self, step: &Pending<P>) -> bool {
        let passed = match step {
            Pending::Deposit { header, .. } => header.epoch <= self.epoch,
            _ => true,
        };
        passed && self.log.known().covers(step.time())
    }

    /// Carries out a step whose notices are here.
    fn carry_out(&mut self, step: Pending<P>) {
        debug_assert!(self.log.known().covers(step.time()), "notices come first");
        match step {
            Pending::Acquire { rank, wait, time } => {
                self.acquire(rank, &time);
                self.actions.push_back(Action::Resume { rank, wait });
            }
            Pending::Page { page, version, time, payload } => {
                self.use_page(page, version, &time, payload);
            }
            Pending::Deposit { header, diff } => {
                self.acquire_dependencies(&header.time);
                self.deposit(header, diff);
            }
            Pending::Depart { barrier, everybody, ranks, time, moves } => {
                for &rank in &ranks {
                    self.acquire(rank, &time);
                }
                self.depart((barrier, everybody), ranks, &time, &moves);
            }
        }
    }

    /// Applies the notices up to `time` for a rank; in causal mode for all of the node, whose ranks
    /// see each other's copies.
    fn acquire(&mut self, rank: u16, time: &VectorTime) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        match self.config.consistency {
            Consistency::Plain | Consistency::Fetch => self.apply_notices(rank, time),
            Consistency::Causal => self.acquire_by_all(time),
        }
        self.discard_applied();
        debug_assert!(self.ranks[usize::from(rank)].time().covers(time));
    }

    /// Applies the notices that bytes depend on, before any rank sees the bytes (causal mode).
    pub(super) fn acquire_dependencies(&mut self, time: &VectorTime) {
        debug_assert!(self.log.known().covers(time), "notices come first");
        if self.config.consistency == Consistency::Causal {
            self.acquire_by_all(time);
        }
        let by_faults = self.config.consistency == Consistency::Fetch;
        debug_assert!(by_faults || self.seen.covers(time), "in plain mode bytes depend on nothing");
    }

    /// Applies, for a rank that faults, the notices that the bytes of the page may depend on:
    /// those that this node has seen, and those of diffs stored here (fetch mode).
    pub(super) fn acquire_by_fault(&mut self, rank: u16, page: u32) {
        if self.config.consistency != Consistency::Fetch {
            return;
        }
        let mut time = self.seen.clone();
        if let Some(home) = self.homes.get(&page) {
            time.join(home.time());
        }
        debug_assert!(self.log.known().covers(&time), "diffs are stored behind their notices");
        if !self.ranks[usize::from(rank)].time().covers(&time) {
            self.apply_notices(rank, &time);
            self.discard_applied();
        }
        debug_assert!(self.ranks[usize::from(rank)].time().covers(&self.seen));
    }

    /// Applies the notices that a page depends on, for the ranks that wait for it (fetch mode).
    pub(super) fn acquire_by_waiters(&mut self, page: u32, time: &VectorTime) {
        if self.config.consistency != Consistency::Fetch {
            return;
        }
        let ranks = self.cached.get(&page).map(CachedPage::waiting_ranks).unwrap_or_default();
        debug_assert!(!ranks.is_empty(), "a page is fetched for somebody");
        for rank in ranks {
            self.apply_notices(rank, time);
        }
        self.discard_applied();
        debug_assert!(self.seen.covers(time), "they have seen it");
    }

    /// Applies the notices up to `time` for every rank.
    fn acquire_by_all(&mut self, time: &VectorTime) {
        for rank in 0..self.config.ranks {
            self.apply_notices(rank, time);
        }
        self.discard_applied();
        debug_assert!(self.seen.covers(time));
    }

    /// Applies the notices up to `time` for one rank.
    fn apply_notices(&mut self, rank: u16, time: &VectorTime) {
        debug_assert!(self.log.known().covers(time), "notices come first");
        let seen = self.ranks[usize::from(rank)].time().clone();
        let mut changed = Vec::new();
        for node in (0..self.config.nodes).filter(|&node| node != self.config.node) {
            debug_assert!(seen.get(node) >= self.log.floor(node), "what is discarded was applied");
            let notices = self.log.between(node, seen.get(node), time.get(node));
            let mut stale = Vec::new();
            for interval in notices {
                for &page in &interval.pages {
                    self.required.entry(page).or_default().raise(node, interval.number);
                    stale.push(page);
                }
            }
            for page in stale {
                changed.push(page);
                if !self.is_current(page) && self.ranks[usize::from(rank)].revoke(page) {
                    self.actions.push_back(Action::Invalidate { rank, page });
                }
            }
        }
        changed.into_iter().for_each(|page| self.change(page..page + 1));
        self.ranks[usize::from(rank)].advance(time);
        self.seen.join(time);
    }

    /// Discards the notices that all ranks have applied.
    fn discard_applied(&mut self) {
        let mut applied = self.log.known().clone();
        for rank in &self.ranks {
            applied.meet(rank.time());
        }
        debug_assert!(self.log.known().covers(&applied), "what is applied is known");
        debug_assert_eq!(applied.nodes(), usize::from(self.config.nodes));
        for node in (0..self.config.nodes).filter(|&node| node != self.config.node) {
            self.log.discard(node, applied.get(node));
        }
    }

    /// Shortens a log that is too long: own notices are sent to all nodes, and ranks apply those of
    /// others before they need to. Those from behind a barrier stay until this node has passed it:
    /// at its end they must not have been applied.
    pub(super) fn bound_log(&mut self) {
        if self.log.notices() <= self.config.max_notices {
            return;
        }
        let node = self.config.node;
        let closed = self.closed();
        let own: Vec<_> = self.log.between(node, self.log.floor(node), closed).cloned().collect();
        debug_assert!(own.is_empty() || self.config.notices == NoticeTransfer::Pull);
        for interval in own {
            for to in (0..self.config.nodes).filter(|&to| to != node) {
                self.send(to, NodeMessage::Notices(interval.clone()));
            }
        }
        self.log.discard(node, closed);
        let within = self.log.known_within(self.epoch);
        self.acquire_by_all(&within);
        debug_assert!((0..self.config.nodes).all(|n| self.log.floor(n) >= within.get(n)));
    }

    /// Discards own notices that every node has since the barrier before this one.
    pub(super) fn note_barrier(&mut self, time: &VectorTime) {
        debug_assert!(time.covers(&self.last_barrier), "barriers follow each other");
        let everywhere = self.last_barrier.get(self.config.node);
        self.log.discard(self.config.node, everywhere.max(self.log.floor(self.config.node)));
        self.last_barrier = time.clone();
        debug_assert!(self.closed() >= everywhere);
    }
}
