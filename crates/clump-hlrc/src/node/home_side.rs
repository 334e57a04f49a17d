//! The home's side: diffs are stored, pages are sent, and homes move.

use crate::cached_page::CachedPage;
use crate::config::TwinTime;
use crate::home_page::{Deposit, HomePage};
use crate::message::{Action, DiffHeader, NodeMessage, PageDiff};
use crate::node::{NodeState, Pending};
use crate::page_version::PageVersion;
use crate::placement::HomeMove;
use crate::vector_time::VectorTime;

impl<P> NodeState<P> {
    /// Returns true if this node has the page as its home, and makes the entry if it is missing.
    fn is_home(&mut self, page: u32) -> bool {
        debug_assert!(page < self.config.pages, "the page exists");
        if self.homes.contains_key(&page) {
            return true;
        }
        let here = self.home_of(page) == Some(self.config.node);
        if !here || self.handover.incoming.contains(&page) {
            return false;
        }
        debug_assert!(!self.cached.contains_key(&page), "a page is home or copy");
        self.homes.insert(page, HomePage::new(PageVersion::default(), self.zero()));
        true
    }

    /// Takes diffs, which may arrive before this node has recorded that it is the home.
    pub(super) fn on_diffs(&mut self, from: u16, header: &DiffHeader, diffs: Vec<PageDiff<P>>) {
        debug_assert_eq!(from, header.writer, "a node sends its own diffs");
        debug_assert_ne!(from, self.config.node, "home pages have no diffs");
        for diff in diffs {
            let header = header.clone();
            if self.is_home(diff.of.page) {
                self.wait_for_notices(Pending::Deposit { header, diff });
            } else {
                self.early.push((from, NodeMessage::Diffs(header, vec![diff])));
            }
        }
    }

    /// Stores a diff, and those that waited for it.
    pub(super) fn deposit(&mut self, header: DiffHeader, diff: PageDiff<P>) {
        let page = diff.of.page;
        let mut next = Some((header, diff));
        while let Some((header, diff)) = next {
            let Some(home) = self.homes.get_mut(&page) else {
                clump_bug::bug!("a page does not move before its diffs are here");
                return;
            };
            if let Deposit::Apply(payload) = home.handle_diff(header, diff) {
                self.actions.push_back(Action::Apply { page, payload });
            }
            next = home.take_ready();
        }
        self.serve(page);
        debug_assert!(page < self.config.pages);
    }

    /// Takes a request for a page.
    pub(super) fn on_fetch(&mut self, from: u16, page: u32, required: PageVersion, moving: bool) {
        let leaves = self.handover.outgoing.contains(&page);
        if !self.is_home(page) || moving != leaves {
            self.early.push((from, NodeMessage::Fetch { page, required, moving }));
            return;
        }
        let at_once = self.answers_at_once() && !moving;
        let Some(home) = self.homes.get_mut(&page) else {
            clump_bug::bug!("the entry was made above");
            return;
        };
        if at_once || home.satisfies(&required) {
            self.send_page(from, page);
        } else {
            home.park_fetch(from, required);
        }
        debug_assert_ne!(from, self.config.node, "a home does not fetch");
    }

    /// Sends a page; to its new home if it moves.
    fn send_page(&mut self, to: u16, page: u32) {
        let mut time = self.dependencies().into_owned();
        let Some(home) = self.homes.get(&page) else {
            clump_bug::bug!("only a home sends");
            return;
        };
        time.join(home.time());
        let version = home.version().clone();
        self.actions.push_back(Action::SendPage { to, page, version, time });
        if !self.handover.outgoing.contains(&page) {
            return;
        }
        debug_assert_eq!(self.home_of(page), Some(to), "a page that moves is requested once");
        self.handover.outgoing.remove(&page);
        if let Some(home) = self.homes.remove(&page) {
            debug_assert!(home.is_idle(), "no rank waits for a page that moves");
            let twin = self.config.twins == TwinTime::AtFetch;
            let copy = CachedPage::of_former_home(home.version().clone(), twin);
            self.cached.insert(page, copy);
            if twin {
                self.actions.push_back(Action::MakeTwin { page });
            }
        }
        self.end_handover();
    }

    /// Answers requests and continues ranks once a home page contains their required intervals.
    pub(super) fn serve(&mut self, page: u32) {
        while let Some(to) = self.homes.get_mut(&page).and_then(HomePage::take_fetch) {
            self.send_page(to, page);
        }
        let waiters = self.homes.get_mut(&page).map(HomePage::take_waiters).unwrap_or_default();
        debug_assert!(waiters.iter().all(|waiter| waiter.0 < self.config.ranks));
        debug_assert!(waiters.is_empty() || self.homes.contains_key(&page));
        for (rank, access) in waiters {
            self.fault(rank, page, access);
        }
    }

    /// Returns the pages of this node that should move to their sole writer.
    pub(super) fn choose_moves(&mut self) -> Vec<HomeMove> {
        let (from, periods) = (self.config.node, self.config.move_after);
        if periods == 0 {
            return Vec::new();
        }
        let tallied = self.homes.iter_mut();
        let chosen = tallied.filter_map(|(&page, home)| {
            let to = home.tally_mut().end_period(periods)?;
            (to != from).then_some(HomeMove { page, from, to })
        });
        let moves: Vec<_> = chosen.collect();
        debug_assert!(moves.iter().all(|moved| moved.to < self.config.nodes));
        debug_assert!(moves.is_sorted_by(|a, b| a.page < b.page));
        moves
    }

    /// Records pages that move, and requests those that move here. All ranks wait in the barrier.
    pub(super) fn move_homes(&mut self, moves: &[HomeMove]) {
        let node = self.config.node;
        debug_assert!(self.unpublished.is_empty(), "everything is published at a barrier");
        for &HomeMove { page, from, to } in moves {
            debug_assert_ne!(from, to, "a page moves to another node");
            self.moved.insert(page, to);
            if from == node {
                self.handover.outgoing.insert(page);
            } else if to == node {
                self.handover.incoming.insert(page);
                let required = self.required(page);
                self.send(from, NodeMessage::Fetch { page, required, moving: true });
            }
        }
        self.retry_early();
    }

    /// Takes a page over from its old home.
    pub(super) fn become_home(
        &mut self,
        page: u32,
        version: PageVersion,
        time: &VectorTime,
        payload: P,
    ) {
        let moved = self.handover.incoming.remove(&page);
        debug_assert!(moved, "an arriving page was requested");
        self.actions.push_back(Action::Merge { page, payload, keep_twin: false });
        if let Some(copy) = self.cached.remove(&page) {
            debug_assert!(!copy.is_fetching(), "no rank waits for a page within a barrier");
            if copy.has_twin() {
                self.actions.push_back(Action::DropTwin { page });
            }
        }
        self.homes.insert(page, HomePage::new(version, time.clone()));
        self.retry_early();
        self.end_handover();
    }

    /// Handles messages that arrived before this node was the home.
    pub(super) fn retry_early(&mut self) {
        let count = self.early.len();
        for (from, message) in std::mem::take(&mut self.early) {
            self.dispatch(from, message);
        }
        debug_assert!(self.early.len() <= count, "what is early comes from outside");
        debug_assert!(self.early.iter().all(|(from, _)| *from != self.config.node));
    }
}
