//! The directory of pages that get their home by the first write.

use crate::config::TwinTime;
use crate::home_page::HomePage;
use crate::message::{Action, NodeMessage, PageAccess};
use crate::node::{HomeLookup, NodeState};
use crate::page_version::PageVersion;

impl<P> NodeState<P> {
    /// Looks up a page's home in the directory. A rank that may write claims it: where writes are
    /// found by scans, that is any.
    pub(super) fn ask_home(&mut self, rank: u16, page: u32, access: PageAccess) {
        let claim = access == PageAccess::Write || self.config.twins == TwinTime::AtFetch;
        let zeros = self.cached.get(&page).is_some_and(|copy| copy.satisfies(&self.required(page)));
        if zeros && !claim {
            self.grant(rank, page, access);
            return;
        }
        let first = !self.lookups.contains_key(&page);
        let lookup = self.lookups.entry(page).or_default();
        debug_assert!(lookup.waiters.iter().all(|waiter| waiter.0 != rank), "waits once");
        lookup.waiters.push((rank, access));
        if first {
            let keeper = self.keeper(u64::from(page));
            self.send(keeper, NodeMessage::AskHome { page, claim });
        }
        debug_assert!(self.home_of(page).is_none(), "a known home is not looked up");
    }

    /// Answers as the directory: the first claim wins.
    pub(super) fn on_ask_home(&mut self, from: u16, page: u32, claim: bool) {
        debug_assert_eq!(
            self.keeper(u64::from(page)),
            self.config.node,
            "a page has one directory"
        );
        debug_assert!(page < self.config.pages, "the page exists");
        if claim {
            self.claims.entry(page).or_insert(from);
        }
        let home = self.claims.get(&page).copied();
        self.send(from, NodeMessage::HomeIs { page, home });
    }

    /// Takes the directory's answer.
    pub(super) fn on_home_is(&mut self, page: u32, home: Option<u16>) {
        let Some(HomeLookup { waiters }) = self.lookups.remove(&page) else {
            clump_bug::bug!("answers follow lookups");
            return;
        };
        match home {
            Some(home) => {
                debug_assert!(!self.moved.contains_key(&page), "a page is claimed once");
                self.moved.insert(page, home);
                if home == self.config.node {
                    self.take_claimed(page);
                }
            }
            None if self.required(page).is_initial() => {
                self.cached.entry(page).or_default().take_zeros();
            }
            None => {}
        }
        debug_assert!(!waiters.is_empty(), "a rank waits for the answer");
        for (rank, access) in waiters {
            self.fault(rank, page, access);
        }
    }

    /// Makes a home page of the zeros that ranks may have read here.
    fn take_claimed(&mut self, page: u32) {
        if self.cached.remove(&page).is_some_and(|copy| copy.has_twin()) {
            self.actions.push_back(Action::DropTwin { page });
        }
        let fresh = HomePage::new(PageVersion::default(), self.zero());
        let before = self.homes.insert(page, fresh);
        debug_assert!(before.is_none(), "a page is claimed once");
        debug_assert_eq!(self.home_of(page), Some(self.config.node));
        self.retry_early();
    }
}
