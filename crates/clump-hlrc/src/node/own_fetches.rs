//! Fetches that ranks make by themselves: the node says which pages they may fetch, and is told of
//! those that they have fetched.

use std::ops::Range;

use crate::config::{Consistency, TwinTime};
use crate::message::{Action, PageAccess};
use crate::node::NodeState;
use crate::page_version::PageVersion;

impl<P> NodeState<P> {
    /// Returns the home of a page, and the version that a copy must have, if a rank may fetch it by
    /// itself: this node has no copy that is current, fetched at this moment, or compared with a
    /// twin.
    ///
    /// A rank that begins to fetch is to be the only one, and no fault on the page is to be handled
    /// until it has ended, or [`NodeState::note_fetched`] was called.
    pub fn open_page(&self, page: u32) -> Option<(u16, PageVersion)> {
        if !self.config.own_fetches || page >= self.config.pages || self.homes.contains_key(&page) {
            return None;
        }
        let home = self.home_of(page).filter(|&home| home != self.config.node)?;
        let required = self.required(page);
        let copy = self.cached.get(&page);
        copy.is_none_or(|copy| copy.is_open(&required)).then_some((home, required))
    }

    /// Returns the version of a page whose home is here, for a rank that fetches it.
    pub fn home_version(&self, page: u32) -> Option<PageVersion> {
        if !self.config.own_fetches || page >= self.config.pages {
            return None;
        }
        let here = self.home_of(page) == Some(self.config.node);
        here.then(|| self.homes.get(&page).map(|home| home.version().clone()).unwrap_or_default())
    }

    /// Notes that a rank has fetched a page by itself, stored it, and taken a right on it. Returns
    /// true if what was fetched is the page's twin from now on; none, and changes nothing, if no
    /// rank may have fetched it.
    ///
    /// The rank gives the page up if notices have come since it began.
    pub fn note_fetched(
        &mut self,
        (rank, page): (u16, u32),
        access: PageAccess,
        version: PageVersion,
    ) -> Option<bool> {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        self.open_page(page)?;
        let twin = access == PageAccess::Write || self.config.twins == TwinTime::AtFetch;
        let copy = self.cached.entry(page).or_default();
        if !copy.take_fetched(version, twin) {
            return None;
        }
        let view = &mut self.ranks[usize::from(rank)];
        let access = view.access(page).map_or(access, |had| had.max(access));
        view.grant(page, access);
        self.change(page..page + 1);
        // They may have been applied for this rank, too, which nobody knew to have the page.
        if !self.is_current(page) && self.ranks[usize::from(rank)].revoke(page) {
            self.actions.push_back(Action::Invalidate { rank, page });
        }
        Some(twin)
    }

    /// Takes the pages for which the answer of [`NodeState::open_page`] may have changed.
    pub fn take_changed(&mut self) -> Vec<Range<u32>> {
        debug_assert!(self.config.own_fetches || self.changed.is_empty(), "nobody asks");
        std::mem::take(&mut self.changed)
    }

    /// Notes pages that ranks may fetch by themselves from now on, or no longer.
    pub(super) fn change(&mut self, pages: Range<u32>) {
        debug_assert!(pages.start < pages.end, "a page at least");
        if !self.config.own_fetches {
            return;
        }
        debug_assert!(self.config.consistency == Consistency::Plain, "faults acquire nothing");
        debug_assert_eq!(self.config.move_after, 0, "pages stay where they are");
        match self.changed.last_mut() {
            Some(last) if last.start <= pages.start && pages.end <= last.end => {}
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => self.changed.push(pages),
        }
    }
}
