//! Invariants of an engine: its accounts, waits and claims refer to each other.

use super::Engine;
use super::claims::{ClaimAccount, ClaimState};
use super::wait::MAX_WAITS;
use crate::memory::Memory;
use clump_shm::geometry::ENDPOINTS;

impl<M: Memory> Engine<M> {
    /// Checks the relations between accounts, waits and claims, which hold between two calls,
    /// whatever requesters send.
    ///
    /// # Panics
    /// Panics if one is broken, in builds with debug assertions.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.check_accounts();
        self.check_waits();
        self.check_claims();
        self.check_served();
    }

    fn check_accounts(&self) {
        let Self { accounts, by_place, last, moved, stuck, .. } = self;
        debug_assert_eq!(by_place.len(), accounts.len(), "each place has an account");
        for (&(rank, index), &at) in by_place {
            debug_assert!(at < accounts.len(), "a place has an account");
            let name = accounts[at].name;
            debug_assert_eq!((name.rank(), name.index()), (rank, index), "of an endpoint there");
            debug_assert!(rank < self.senders && usize::from(index) < ENDPOINTS, "of this job");
        }
        debug_assert!(accounts.is_empty() || *last < accounts.len(), "it was used last");
        debug_assert!(moved.iter().all(|at| *at < accounts.len()), "accounts that moved exist");
        for (at, account) in accounts.iter().enumerate() {
            account.check_invariants(self.credit);
            debug_assert!(
                !account.is_blocked() || *stuck,
                "kept answers are sent when there is room"
            );
            debug_assert!(!account.is_due() || moved.contains(&at), "what is due is executed");
        }
    }

    fn check_waits(&self) {
        for wait in &self.waits {
            let of_it = self.waits.iter().filter(|other| other.from == wait.from).count();
            debug_assert!(of_it <= MAX_WAITS, "an endpoint has few waits");
            let account = self.accounts.get(wait.account);
            let its = account.is_some_and(|account| account.name == wait.from);
            debug_assert!(its, "the account of a wait is that of its endpoint");
            wait.check_invariants();
        }
    }

    fn check_claims(&self) {
        self.places.check_invariants();
        let all = self.places.find(|_| true);
        for place in all.iter().filter_map(|at| self.places.get(*at)) {
            let ClaimAccount { account, from, state, gone, .. } = *place;
            let name = self.accounts.get(account).map(|account| account.name);
            let same = |name: clump_shm::name::Name| {
                (name.rank(), name.index()) == (from.rank(), from.index())
            };
            debug_assert!(name.is_some_and(same), "the account of a claim is that of its place");
            debug_assert!(gone || name == Some(from), "of the same endpoint, unless that is gone");
            debug_assert!(!gone || place.is_promised(), "only promises outlive an endpoint");
            let orphan = matches!(state, ClaimState::Orphaned(_));
            debug_assert!(!orphan || self.orphans, "orphaned claims are granted from here");
        }
    }
}
