//! Releases: the writes of a rank become an interval of its node.

use std::collections::BTreeMap;

use crate::config::{NoticeTransfer, TwinTime};
use crate::interval::Interval;
use crate::message::{Action, DiffHeader, NodeMessage, WrittenPage};
use crate::node::NodeState;
use crate::vector_time::VectorTime;

impl<P> NodeState<P> {
    /// Notes a write that a scan has found ([`TwinTime::AtFetch`]); before the rank's release.
    pub fn note_written(&mut self, rank: u16, page: u32) {
        debug_assert!(self.config.twins == TwinTime::AtFetch, "otherwise writes are faults");
        debug_assert!(page < self.config.pages, "the page exists");
        self.ranks[usize::from(rank)].note_written(page);
    }

    /// Publishes the writes of a rank, and continues it: a fence, or a release of an object outside
    /// this crate.
    pub fn fence(&mut self, rank: u16) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        self.end_section(rank);
        self.publish();
        self.release_time(rank);
        self.drain_loopback();
    }

    /// Ends the section of a rank's writes without an acquire in between. Its pages are to be
    /// published before another node may see them.
    pub(super) fn end_section(&mut self, rank: u16) {
        let view = &mut self.ranks[usize::from(rank)];
        for page in view.take_written() {
            self.unpublished.insert(page);
            if view.access(page).is_some() {
                self.actions.push_back(Action::Downgrade { rank, page });
            }
        }
        debug_assert!(self.unpublished.iter().all(|page| !view.has_written(*page)));
        debug_assert!(self.unpublished.iter().all(|&page| page < self.config.pages));
    }

    /// Marks the writes of a rank so far as to be published, and lets it continue writing: the
    /// pages stay among those of its next release.
    pub(super) fn copy_section(&mut self, rank: u16) {
        let written = self.ranks[usize::from(rank)].written();
        debug_assert!(written.iter().all(|&page| page < self.config.pages));
        self.unpublished.extend(written);
        debug_assert!(self.config.twins == TwinTime::AtWrite, "writes behind it are known");
    }

    /// Makes an interval of all pages that are not published yet: diffs are sent to homes, notices
    /// to all nodes.
    pub(super) fn publish(&mut self) {
        if self.unpublished.is_empty() {
            return;
        }
        let node = self.config.node;
        let number = self.closed() + 1;
        let pages: Box<[u32]> = std::mem::take(&mut self.unpublished).into_iter().collect();
        let interval = Interval { node, number, epoch: self.epoch, pages };
        let announced = self.log.insert(interval.clone());
        debug_assert!(announced, "own intervals have no gaps");
        self.seen.raise(node, number);
        let (mut diffs, mut unused) = (BTreeMap::<u16, Vec<WrittenPage>>::new(), Vec::new());
        for &page in &interval.pages {
            let Some((to, after, keeps_twin)) = self.publish_page(page, number) else { continue };
            diffs.entry(to).or_default().push(WrittenPage { page, after });
            unused.extend((!keeps_twin).then_some(page));
        }
        let (time, epoch) = (self.dependencies().into_owned(), self.epoch);
        for (to, pages) in diffs {
            let header = DiffHeader { writer: node, interval: number, epoch, time: time.clone() };
            self.actions.push_back(Action::SendDiffs { to, header, pages });
        }
        self.actions.extend(unused.into_iter().map(|page| Action::DropTwin { page }));
        if self.config.notices == NoticeTransfer::Push {
            for to in (0..self.config.nodes).filter(|&to| to != node) {
                let message = NodeMessage::Notices(interval.clone());
                self.actions.push_back(Action::Send { to, message });
            }
            self.log.discard(node, number);
        }
        self.bound_log();
    }

    /// Publishes one page of an interval. Returns, unless its home is here, the home, the interval
    /// of the diff before, and true if the twin is used further.
    fn publish_page(&mut self, page: u32, number: u32) -> Option<(u16, u32, bool)> {
        let node = self.config.node;
        let required = self.required.entry(page).or_default();
        let after = required.get(node);
        debug_assert!(after < number, "intervals ascend");
        required.raise(node, number);
        self.change(page..page + 1);
        if let Some(home) = self.homes.get_mut(&page) {
            home.note_own(node, number);
            self.serve(page);
            return None;
        }
        let home = self.home_of(page);
        let (Some(to), Some(copy)) = (home, self.cached.get_mut(&page)) else {
            clump_bug::bug!("a page that is written has a home and a copy");
            return None;
        };
        debug_assert_ne!(to, node, "home pages are no copies");
        copy.note_own(node, number);
        let written = self.ranks.iter().any(|rank| rank.has_written(page));
        let keep = written || self.config.twins == TwinTime::AtFetch;
        copy.set_twin(keep);
        Some((to, after, keep))
    }

    /// Returns the time of a rank's release, once everything that it wrote is published.
    pub(super) fn release_time(&mut self, rank: u16) -> VectorTime {
        let closed = self.closed();
        let view = &mut self.ranks[usize::from(rank)];
        view.note_own(self.config.node, closed);
        debug_assert!(self.seen.covers(view.time()), "a node has seen what its ranks have");
        debug_assert_eq!(view.time().get(self.config.node), closed);
        view.time().clone()
    }
}
