//! Faults: a rank uses a page that it has no right on.

use crate::config::{FetchRule, TwinTime};
use crate::message::{Action, NodeMessage, PageAccess};
use crate::node::NodeState;
use crate::page_version::PageVersion;
use crate::vector_time::VectorTime;

impl<P> NodeState<P> {
    /// Handles a rank that reads or writes a page without the right to. [`Action::Map`] gives it.
    pub fn handle_fault(&mut self, rank: u16, page: u32, access: PageAccess) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        debug_assert!(page < self.config.pages, "the page exists");
        self.fault(rank, page, access);
        self.drain_loopback();
    }

    /// Maps a page that is current, or has the rank wait for it.
    pub(super) fn fault(&mut self, rank: u16, page: u32, access: PageAccess) {
        self.acquire_by_fault(rank, page);
        let node = self.config.node;
        let Some(home) = self.home_of(page) else {
            self.ask_home(rank, page, access);
            return;
        };
        let required = self.required(page);
        if home == node && !self.handover.incoming.contains(&page) {
            let zero = self.zero();
            let empty = || crate::home_page::HomePage::new(PageVersion::default(), zero);
            let page_here = self.homes.entry(page).or_insert_with(empty);
            if page_here.satisfies(&required) {
                self.grant(rank, page, access);
            } else {
                page_here.park_rank(rank, access);
            }
            return;
        }
        debug_assert!(!self.homes.contains_key(&page) || self.handover.outgoing.contains(&page));
        self.change(page..page + 1);
        let copy = self.cached.entry(page).or_default();
        if copy.satisfies(&required) {
            self.grant(rank, page, access);
        } else if copy.await_fetch(rank, access) {
            debug_assert_ne!(home, node, "an arriving page was requested");
            self.send(home, NodeMessage::Fetch { page, required, moving: false });
        }
    }

    /// Gives a rank a right on a page that is current.
    pub(super) fn grant(&mut self, rank: u16, page: u32, access: PageAccess) {
        debug_assert!(self.is_current(page), "only what is current is mapped");
        if let Some(copy) = self.cached.get_mut(&page) {
            let needs_twin = access == PageAccess::Write || self.config.twins == TwinTime::AtFetch;
            if needs_twin && !copy.has_twin() {
                copy.set_twin(true);
                self.actions.push_back(Action::MakeTwin { page });
            }
        }
        let view = &mut self.ranks[usize::from(rank)];
        let access = view.access(page).map_or(access, |had| had.max(access));
        view.grant(page, access);
        self.actions.push_back(Action::Map { rank, page, access });
        debug_assert!(self.homes.contains_key(&page) || self.cached.contains_key(&page));
    }

    /// Uses a page that its home has sent, or requests it again.
    pub(super) fn use_page(
        &mut self,
        page: u32,
        version: PageVersion,
        time: &VectorTime,
        payload: P,
    ) {
        // Own releases since the request, too: the merge would undo what they have sent.
        let required = self.required(page);
        let Some(home) = self.home_of(page) else {
            clump_bug::bug!("a page comes from its home");
            return;
        };
        if self.handover.incoming.contains(&page) {
            self.acquire_dependencies(time);
            self.become_home(page, version, time, payload);
            return;
        }
        if !version.covers(&required) {
            debug_assert!(self.cached.get(&page).is_some_and(|copy| copy.is_fetching()));
            self.send(home, NodeMessage::Fetch { page, required, moving: false });
            return;
        }
        self.acquire_dependencies(time);
        self.acquire_by_waiters(page, time);
        if !version.covers(&self.required(page)) {
            let required = self.required(page);
            self.send(home, NodeMessage::Fetch { page, required, moving: false });
            return;
        }
        self.merge_page(page, version, payload);
    }

    /// Brings the node's copy up to date, and lets the ranks that wait use it.
    fn merge_page(&mut self, page: u32, version: PageVersion, payload: P) {
        self.change(page..page + 1);
        let written = self.ranks.iter().any(|rank| rank.has_written(page));
        let Some(copy) = self.cached.get_mut(&page) else {
            clump_bug::bug!("an arriving page was requested");
            return;
        };
        debug_assert!(!written || copy.has_twin(), "what is written has a twin");
        let keep_twin = copy.has_twin() || self.config.twins == TwinTime::AtFetch;
        let waiters = copy.complete(version, keep_twin);
        debug_assert!(!waiters.is_empty(), "a page is fetched for somebody");
        self.actions.push_back(Action::Merge { page, payload, keep_twin });
        for (rank, access) in waiters {
            self.fault(rank, page, access);
        }
    }

    /// Returns true if a home that is behind answers nevertheless.
    pub(super) fn answers_at_once(&self) -> bool {
        self.config.fetch == FetchRule::Retry
    }
}
