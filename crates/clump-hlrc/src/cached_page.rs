//! Pages whose home is another node: the copy that the ranks of this node share.

use crate::message::PageAccess;
use crate::page_version::PageVersion;

/// The one copy of a page at this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CachedPage {
    /// Intervals that the copy contains, none before it has been fetched.
    version: Option<PageVersion>,
    twin: bool,
    fetching: bool,
    waiters: Vec<(u16, PageAccess)>,
}

impl CachedPage {
    /// Returns the copy of a node that was the home so far, with `version`.
    pub fn of_former_home(version: PageVersion, twin: bool) -> Self {
        Self { version: Some(version), twin, ..Self::default() }
    }

    /// Returns true if the copy contains all of `required`.
    pub fn satisfies(&self, required: &PageVersion) -> bool {
        self.version.as_ref().is_some_and(|version| version.covers(required))
    }

    /// Returns true if the copy has a twin.
    pub fn has_twin(&self) -> bool {
        self.twin
    }

    /// Sets that the copy has a twin, or has none.
    pub fn set_twin(&mut self, twin: bool) {
        self.twin = twin;
    }

    /// Notes an interval of this node, whose bytes are in place.
    pub fn note_own(&mut self, node: u16, interval: u32) {
        debug_assert!(self.twin, "what is written has a twin");
        debug_assert!(self.version.is_some(), "what is written has been fetched");
        if let Some(version) = &mut self.version {
            version.raise(node, interval);
        }
    }

    /// Takes the zeros of a page that was never written for its first version.
    pub fn take_zeros(&mut self) {
        self.version.get_or_insert_default();
    }

    /// Lets a rank wait for the page. Returns true if it is to be fetched now.
    pub fn await_fetch(&mut self, rank: u16, access: PageAccess) -> bool {
        debug_assert!(self.waiters.iter().all(|waiter| waiter.0 != rank), "a rank waits once");
        self.waiters.push((rank, access));
        !std::mem::replace(&mut self.fetching, true)
    }

    /// Returns the ranks that wait for the page.
    pub fn waiting_ranks(&self) -> Vec<u16> {
        self.waiters.iter().map(|waiter| waiter.0).collect()
    }

    /// Returns true if a request is under way.
    pub fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// Returns true if a rank may fetch the page by itself: the copy lacks some of `required`, and
    /// is not being fetched.
    pub fn is_open(&self, required: &PageVersion) -> bool {
        debug_assert!(self.fetching || self.waiters.is_empty(), "ranks wait for a request");
        !self.fetching && !self.satisfies(required)
    }

    /// Takes the version that a rank has fetched by itself; a twin that there is stays. Returns
    /// false, and changes nothing, if it is older than the copy.
    pub fn take_fetched(&mut self, version: PageVersion, twin: bool) -> bool {
        debug_assert!(!self.fetching, "the page was open");
        let newer = self.version.as_ref().is_none_or(|had| version.covers(had));
        if newer {
            self.version = Some(version);
            self.twin |= twin;
        }
        newer
    }

    /// Takes a fetched version, and the ranks that waited for it.
    pub fn complete(&mut self, version: PageVersion, keep_twin: bool) -> Vec<(u16, PageAccess)> {
        debug_assert!(self.fetching, "pages answer requests");
        debug_assert!(self.version.as_ref().is_none_or(|had| version.covers(had)), "newer");
        debug_assert!(keep_twin || !self.twin, "a twin stays as long as it is needed");
        self.version = Some(version);
        self.twin = keep_twin;
        self.fetching = false;
        std::mem::take(&mut self.waiters)
    }
}
