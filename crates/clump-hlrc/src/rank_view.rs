//! One rank's view of the shared pages: its time, its rights, and what it has written.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::PageAccess;
use crate::vector_time::VectorTime;

/// View of one rank of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RankView {
    time: VectorTime,
    access: BTreeMap<u32, PageAccess>,
    written: BTreeSet<u32>,
}

impl RankView {
    /// Returns the view of a rank that has used nothing.
    pub fn new(nodes: usize) -> Self {
        let time = VectorTime::zero(nodes);
        Self { time, access: BTreeMap::new(), written: BTreeSet::new() }
    }

    /// Returns the intervals whose notices the rank has applied.
    pub fn time(&self) -> &VectorTime {
        &self.time
    }

    /// Notes that the notices of all intervals up to `time` have been applied.
    pub fn advance(&mut self, time: &VectorTime) {
        self.time.join(time);
    }

    /// Notes the node's own interval.
    pub fn note_own(&mut self, node: u16, interval: u32) {
        self.time.raise(node, interval);
    }

    /// Returns the rank's right on a page.
    pub fn access(&self, page: u32) -> Option<PageAccess> {
        self.access.get(&page).copied()
    }

    /// Gives the rank a right; one to write counts as a write.
    pub fn grant(&mut self, page: u32, access: PageAccess) {
        debug_assert!(self.access(page) <= Some(access), "rights grow until they are taken");
        self.access.insert(page, access);
        if access == PageAccess::Write {
            self.written.insert(page);
        }
        debug_assert_eq!(self.access(page), Some(access));
    }

    /// Notes a write that a scan has found, perhaps on a page that was taken away since.
    pub fn note_written(&mut self, page: u32) {
        self.written.insert(page);
    }

    /// Returns true if the rank may have written the page since its last release.
    pub fn has_written(&self, page: u32) -> bool {
        self.written.contains(&page)
    }

    /// Returns the pages that the rank may have written since its last release.
    pub fn written(&self) -> &BTreeSet<u32> {
        &self.written
    }

    /// Takes a right away. Returns true if there was one.
    pub fn revoke(&mut self, page: u32) -> bool {
        self.access.remove(&page).is_some()
    }

    /// Takes the pages written since the last release, and the right to write them.
    pub fn take_written(&mut self) -> BTreeSet<u32> {
        let written = std::mem::take(&mut self.written);
        for page in &written {
            if let Some(access) = self.access.get_mut(page) {
                *access = PageAccess::Read;
            }
        }
        debug_assert!(self.access.values().all(|&access| access == PageAccess::Read));
        written
    }
}
