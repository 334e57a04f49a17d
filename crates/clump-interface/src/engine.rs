//! Execution of requests of ranks of other nodes at a network interface: pure, and without trust in
//! requests.
//!
//! Takes requests one by one ([`Engine::handle_request`]), works on a [`Memory`], and gives answers
//! to an [`ReplySink`]. No clock, no socket, no thread; every word of a request is checked before
//! use. Answers that find no room are kept, and no further request of a requester with kept answers
//! is executed: so kept memory is bounded by the requests that requesters may have outstanding.

mod account;
mod claims;
mod execute;
mod invariants;
mod joint;
mod passing;
mod pending_request;
mod request;
mod served;
#[cfg(test)]
mod tests;
mod wait;
mod waits;
mod watches;

use crate::memory::Memory;
use crate::service::Services;
use account::{Account, Kept};
use claims::Claims;
use clump_net::REQUEST_COST;
use clump_onesided::protocol::ask;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use pending_request::ServiceState;
pub use request::{EngineCounts, ReplySink, Request};
use std::collections::HashMap;
use wait::Wait;

/// Executor of one-sided operations on the memory of a node.
#[derive(Debug)]
pub struct Engine<M> {
    pub(crate) memory: M,
    /// Ranks of the job, used to check names.
    ranks: u32,
    /// Senders of requests: ranks, and behind them the interfaces of all nodes.
    senders: u32,
    credit: u64,
    accounts: Vec<Account>,
    /// Accounts by rank and index: an endpoint that opens anew takes the place of the one before
    /// it.
    by_place: HashMap<(u32, u8), usize>,
    /// Account of the last request: the next is likely to have the same.
    last: usize,
    scratch: Vec<u8>,
    /// Requests whose answer waits for another rank.
    waits: Vec<Wait>,
    /// Claims on locks that wait for them or hold them.
    places: Claims,
    /// True if some claims are orphaned: this interface has to repeat the grant of a rank that has
    /// left.
    orphans: bool,
    /// Accounts in which a kept request has been executed.
    moved: Vec<usize>,
    /// True if accounts have kept answers that may find room now.
    stuck: bool,
    /// Services, and requests to them that end later.
    service_state: ServiceState,
    counts: EngineCounts,
}

impl<M: Memory> Engine<M> {
    /// Creates an engine over `memory` for a job of `ranks` ranks, whose endpoints may each have
    /// `credit` bytes of requests unconsumed, with the services of this crate.
    pub fn new(memory: M, ranks: u32, credit: u64) -> Self {
        debug_assert!(ranks > 0, "a job has ranks");
        debug_assert!(credit > REQUEST_COST, "an endpoint may send a request");
        Self {
            memory,
            ranks,
            senders: ranks,
            credit,
            accounts: Vec::new(),
            by_place: HashMap::new(),
            last: 0,
            scratch: Vec::new(),
            waits: Vec::new(),
            places: Claims::default(),
            orphans: false,
            moved: Vec::new(),
            stuck: false,
            service_state: ServiceState::default(),
            counts: EngineCounts::default(),
        }
    }

    /// Sets the services, and admits requests of senders up to `senders`: interfaces are numbered
    /// behind ranks.
    #[must_use]
    pub fn with_services(mut self, services: Services, senders: u32) -> Self {
        debug_assert!(self.accounts.is_empty(), "before the first request");
        debug_assert!(senders >= self.ranks, "ranks send requests");
        (self.service_state.services, self.senders) = (services, senders);
        self
    }

    /// Returns the counts of what was executed.
    pub fn counts(&self) -> EngineCounts {
        debug_assert!(self.counts.services <= self.counts.executed, "each is a request");
        debug_assert!(self.counts.later <= self.counts.services, "only services answer later");
        self.counts
    }

    /// Returns the account of an endpoint, opened if need be; `None` for names that no endpoint of
    /// this job has.
    #[inline]
    fn account(&mut self, from: Name) -> Option<usize> {
        if self.accounts.get(self.last).is_some_and(|last| last.name == from) {
            return Some(self.last);
        }
        self.find_account(from)
    }

    #[inline(never)]
    fn find_account(&mut self, from: Name) -> Option<usize> {
        if from.rank() >= self.senders || usize::from(from.index()) >= ENDPOINTS {
            return None;
        }
        let place = (from.rank(), from.index());
        let at = *self.by_place.entry(place).or_insert_with(|| {
            self.accounts.push(Account::new(from));
            self.accounts.len() - 1
        });
        let account = &mut self.accounts[at];
        if account.name != from {
            // A request that an endpoint sent before it was closed has no receiver for its answer.
            if from.generation() < account.name.generation() {
                return None;
            }
            let before = account.name;
            debug_assert_eq!((before.rank(), before.index()), place, "its place is the same");
            self.abandon_laters(|name| name == before);
            self.accounts[at] = Account::new(from);
            self.abandon_all(|name| name == before);
        }
        debug_assert_eq!(self.accounts[at].name, from, "an account is of its endpoint");
        debug_assert_eq!(self.by_place.len(), self.accounts.len(), "each place has an account");
        self.last = at;
        Some(at)
    }

    /// Executes a request, or keeps it until it may be executed.
    #[inline]
    pub fn handle_request(&mut self, request: &Request<'_>, out: &mut impl ReplySink) {
        let Some(at) = self.account(request.from) else { return };
        let account = &mut self.accounts[at];
        if account.is_blocked() {
            debug_assert!(self.stuck, "kept answers are sent when there is room");
            account.later.push_back(Kept::of(request));
            return;
        }
        debug_assert!(account.later.is_empty(), "what arrived earlier is executed earlier");
        self.admit(at, request, out);
        if !self.moved.is_empty() {
            self.release_moved(out);
        }
    }

    /// Executes requests that have waited for a kept one.
    #[cold]
    fn release_moved(&mut self, out: &mut impl ReplySink) {
        while let Some(at) = self.moved.pop() {
            self.release(at, out);
        }
        debug_assert!(self.moved.is_empty(), "nothing more was released meanwhile");
    }

    /// Executes a request unless it waits for another.
    #[inline]
    fn admit(&mut self, at: usize, request: &Request<'_>, out: &mut impl ReplySink) {
        let account = &mut self.accounts[at];
        debug_assert!(!account.is_blocked(), "behind a kept answer nothing is executed");
        debug_assert_eq!(account.name, request.from, "a request is its account's");
        if request.handler & ask::AFTER == 0 {
            self.run(at, request, out);
        } else if let Some((&after, words)) = request.words.split_last() {
            let bare = Request { handler: request.handler & !ask::AFTER, words, ..*request };
            if account.executed >= after {
                self.run(at, &bare, out);
            } else {
                account.hold(after, Kept::of(&bare));
            }
        }
        self.release(at, out);
    }

    /// Executes requests that have waited for others.
    #[inline]
    fn release(&mut self, at: usize, out: &mut impl ReplySink) {
        while let Some(kept) = self.accounts[at].next_held() {
            let from = self.accounts[at].name;
            self.run(at, &kept.request(from), out);
        }
        self.accounts[at].report(self.credit, out);
        debug_assert!(!self.accounts[at].is_due(), "held requests are executed once they are due");
    }

    fn run(&mut self, at: usize, request: &Request<'_>, out: &mut impl ReplySink) {
        debug_assert_eq!(request.handler & ask::AFTER, 0, "a held request is executed without it");
        debug_assert!(!self.accounts[at].is_blocked(), "behind a kept answer nothing is executed");
        if self.delays(at, request) {
            return;
        }
        self.counts.executed += 1;
        let counts = !matches!(request.handler, ask::QUIET | ask::CANCEL);
        let counts = self.execute(at, request, out) && counts;
        let account = &mut self.accounts[at];
        account.executed += u64::from(counts);
        account.on_consumed(request.payload.len());
        self.stuck |= account.is_stuck();
        if self.concerns_others() {
            self.note_changes(request, out);
        }
    }

    /// Handles a credit request: the endpoint `from` requests a report once `total` bytes of its
    /// requests have been consumed.
    pub fn handle_credit_request(&mut self, from: Name, total: u64, out: &mut impl ReplySink) {
        let Some(at) = self.account(from) else { return };
        let account = &mut self.accounts[at];
        account.on_asked(total);
        account.report(self.credit, out);
    }

    /// Sends answers that were kept for lack of room, and executes the requests behind them.
    pub fn handle_room(&mut self, out: &mut impl ReplySink) {
        self.send_own_again(out);
        self.send_messages(out);
        if !std::mem::take(&mut self.stuck) {
            return;
        }
        for at in 0..self.accounts.len() {
            self.accounts[at].send_deferred(out);
            self.end_delay(at);
            while !self.accounts[at].is_blocked() {
                let Some(kept) = self.accounts[at].later.pop_front() else { break };
                let from = self.accounts[at].name;
                self.admit(at, &kept.request(from), out);
            }
            // Held requests may have become due meanwhile.
            self.release(at, out);
            self.stuck |= self.accounts[at].is_blocked();
            let account = &self.accounts[at];
            debug_assert!(account.later.is_empty() || account.is_blocked(), "they were executed");
        }
        self.check_invariants();
    }

    /// Returns true if answers wait for room.
    pub fn wants_room(&self) -> bool {
        self.stuck || self.service_state.unsent || self.service_state.kept.is_some()
    }

    /// Drops everything kept for a rank that is lost or has finalized.
    pub fn forget(&mut self, rank: u32) {
        for account in self.accounts.iter_mut().filter(|account| account.name.rank() == rank) {
            account.clear();
        }
        self.abandon_all(|name| name.rank() == rank);
        self.orphan(rank);
        self.service_state.services.list.iter_mut().for_each(|service| service.rank_gone(rank));
        debug_assert!(self.waits.iter().all(|wait| wait.from.rank() != rank), "it waits no more");
        self.check_invariants();
    }

    /// Drops the requests of a rank of this node that has died or finalized.
    pub fn drop_requests(&mut self, rank: u32) {
        for account in self.accounts.iter_mut().filter(|account| account.name.rank() == rank) {
            account.clear();
        }
        self.abandon_laters(|name| name.rank() == rank);
        debug_assert!(self.waits.iter().all(|wait| wait.from.rank() != rank), "it waits by itself");
        self.check_invariants();
    }

    /// Returns the bytes kept for requesters.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let kept: usize = self.accounts.iter().map(Account::memory_bytes).sum();
        kept + self.service_state.services.memory_bytes()
    }
}
