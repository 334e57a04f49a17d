//! Fetches that ranks make by themselves: the node publishes the pages that they may fetch, and
//! they report those that they have fetched.

use std::borrow::Cow;
use std::ops::Range;

use crate::config::{Consistency, TwinTime};
use crate::message::PageAccess;
use crate::node::NodeState;
use crate::page_version::PageVersion;
use crate::vector_time::VectorTime;

/// Terms on which a rank may fetch a page by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenPage {
    /// The page's home.
    pub home: u16,
    /// Intervals that the page must contain.
    pub required: PageVersion,
    /// True if the copy has a twin, with which what is fetched is merged.
    pub twin: bool,
}

impl<P> NodeState<P> {
    /// Returns the terms on which a rank may fetch a page by itself: none where the node's copy is
    /// current or being fetched, or its home here.
    ///
    /// A rank stores what it has fetched between two events, if the terms are those that it began
    /// with, and if [`NodeState::own_fetch_time`] covers both [`NodeState::own_fetch_needs`] and
    /// the time of the page: otherwise there are notices to be applied first, by a fault.
    /// [`NodeState::note_fetched`] is called before the next event.
    pub fn open_page(&self, page: u32) -> Option<OpenPage> {
        if !self.config.own_fetches || page >= self.config.pages || self.homes.contains_key(&page) {
            return None;
        }
        let home = self.home_of(page).filter(|&home| home != self.config.node)?;
        let (required, copy) = (self.required(page), self.cached.get(&page));
        let open = copy.is_none_or(|copy| copy.is_open(&required));
        let twin = copy.is_some_and(|copy| copy.has_twin());
        open.then_some(OpenPage { home, required, twin })
    }

    /// Returns the version of a page whose home is here, and the time that its bytes may depend on,
    /// for a rank that fetches it.
    pub fn home_version(&self, page: u32) -> Option<(PageVersion, VectorTime)> {
        if !self.config.own_fetches || page >= self.config.pages {
            return None;
        }
        if self.home_of(page) != Some(self.config.node) {
            return None;
        }
        let mut time = self.dependencies().into_owned();
        let Some(home) = self.homes.get(&page) else { return Some((PageVersion::default(), time)) };
        time.join(home.time());
        debug_assert!(self.log.known().covers(&time), "diffs are stored behind their notices");
        Some((home.version().clone(), time))
    }

    /// Returns the time that bytes may depend on which a rank finds in a page that it fetches by
    /// itself: its notices have been applied for the rank. Intervals of this node have none.
    pub fn own_fetch_time(&self, rank: u16) -> VectorTime {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        if self.config.consistency == Consistency::Plain {
            return self.zero();
        }
        let mut time = self.ranks[usize::from(rank)].time().clone();
        time.raise(self.config.node, u32::MAX);
        time
    }

    /// Returns the time that bytes may depend on which ranks of this node have written to a page,
    /// and with which a fetched one is merged.
    pub fn own_fetch_needs(&self) -> Cow<'_, VectorTime> {
        debug_assert!(self.log.known().covers(&self.seen), "what is seen has been announced");
        self.dependencies()
    }

    /// Notes that a rank has fetched a page by itself, stored it as [`crate::Action::Merge`] does,
    /// and taken a right on it. Returns true if the bytes are to become a twin that the page had
    /// not; none, and changes nothing, if the page was not open for them.
    pub fn note_fetched(
        &mut self,
        (rank, page): (u16, u32),
        access: PageAccess,
        version: PageVersion,
    ) -> Option<bool> {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        let terms = self.open_page(page)?;
        let twin = access == PageAccess::Write || self.config.twins == TwinTime::AtFetch;
        let copy = self.cached.entry(page).or_default();
        if !version.covers(&terms.required) || !copy.take_fetched(version, twin) {
            return None;
        }
        let view = &mut self.ranks[usize::from(rank)];
        let access = view.access(page).map_or(access, |had| had.max(access));
        view.grant(page, access);
        self.change(page..page + 1);
        debug_assert!(self.is_current(page), "what was required is there");
        Some(twin && !terms.twin)
    }

    /// Takes the pages for which the answer of [`NodeState::open_page`] may have changed.
    pub fn take_changed(&mut self) -> Vec<Range<u32>> {
        debug_assert!(
            self.config.own_fetches || self.changed.is_empty(),
            "no rank fetches by itself"
        );
        std::mem::take(&mut self.changed)
    }

    /// Notes pages that ranks may fetch by themselves from now on, on other terms, or no longer.
    pub(super) fn change(&mut self, pages: Range<u32>) {
        debug_assert!(pages.start < pages.end, "a page at least");
        if !self.config.own_fetches {
            return;
        }
        let by_all = self.config.consistency == Consistency::Causal;
        debug_assert!(!by_all, "a rank takes away its own pages alone");
        debug_assert_eq!(self.config.move_after, 0, "pages stay where they are");
        match self.changed.last_mut() {
            Some(last) if last.start <= pages.start && pages.end <= last.end => {}
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => self.changed.push(pages),
        }
    }
}
