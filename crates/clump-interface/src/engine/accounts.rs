//! The accounts of all requesters of an engine: found by endpoint, answered, and released.

use super::account::Account;
use super::request::{ReplySink, Request};
use clump_onesided::Refusal;
use clump_onesided::protocol::tell;
use clump_proto::CreditPool;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// Bytes of credit that an engine can grant beyond that of every requester: what one and a half
/// paths of 10 Gb/s and 50 ms hold. Requests that it need not keep take no memory.
const GRANTABLE: u64 = 96 << 20;

/// Accounts of requesters, and which of them can go on.
#[derive(Debug)]
pub(super) struct Accounts {
    /// Name under which the engine answers.
    engine: Name,
    /// Senders of requests: ranks, and behind them the interfaces of all nodes.
    senders: u32,
    credit: u64,
    /// Credit that can be granted beyond that.
    pool: CreditPool,
    all: Vec<Account>,
    /// Accounts by rank and index: an endpoint that opens anew takes the place of the one before
    /// it.
    by_place: HashMap<(u32, u8), usize>,
    /// Account of the last request: the next is likely to have the same.
    last: usize,
    /// Accounts in which a kept request has been executed.
    moved: Vec<usize>,
    /// True if accounts have kept answers that may find room now.
    stuck: bool,
    /// Requests executed, those refused among them, and times that one had to wait until less was
    /// being forwarded.
    executed: u64,
    refused: u64,
    delayed: u64,
}

impl Index<usize> for Accounts {
    type Output = Account;

    #[inline]
    fn index(&self, at: usize) -> &Account {
        &self.all[at]
    }
}

impl IndexMut<usize> for Accounts {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Account {
        &mut self.all[at]
    }
}

impl Accounts {
    /// Creates accounts at the engine of that name for endpoints of `senders` ranks and interfaces,
    /// which may each have `credit` bytes of requests unconsumed.
    pub(super) fn new(engine: Name, senders: u32, credit: u64) -> Self {
        debug_assert!(senders > 0, "ranks send requests");
        Self {
            engine,
            senders,
            credit,
            pool: CreditPool::new(GRANTABLE),
            all: Vec::new(),
            by_place: HashMap::new(),
            last: 0,
            moved: Vec::new(),
            stuck: false,
            executed: 0,
            refused: 0,
            delayed: 0,
        }
    }

    /// Admits requests of senders up to `senders`.
    pub(super) fn admit_senders(&mut self, senders: u32) {
        debug_assert!(self.all.is_empty(), "before the first request");
        debug_assert!(senders >= self.senders, "ranks send requests");
        self.senders = senders;
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the account of an endpoint, if the last request was its own.
    #[inline]
    pub(super) fn current(&self, from: Name) -> Option<usize> {
        self.all.get(self.last).filter(|last| last.name == from).map(|_| self.last)
    }

    /// Returns the account at the place of an endpoint, opened if need be; it may be that of an
    /// endpoint that had the place before. `None` for names that no endpoint of this job has.
    pub(super) fn open(&mut self, from: Name) -> Option<usize> {
        if from.rank() >= self.senders || usize::from(from.index()) >= ENDPOINTS {
            return None;
        }
        let place = (from.rank(), from.index());
        self.last = *self.by_place.entry(place).or_insert_with(|| {
            self.all.push(Account::new(from));
            self.all.len() - 1
        });
        let name = self.all[self.last].name;
        debug_assert_eq!((name.rank(), name.index()), place, "its place is the same");
        debug_assert_eq!(self.by_place.len(), self.all.len(), "each place has an account");
        Some(self.last)
    }

    /// Begins the account of an endpoint that opened anew.
    pub(super) fn replace(&mut self, at: usize, name: Name) {
        let before = self.all[at].name;
        debug_assert_eq!((before.rank(), before.index()), (name.rank(), name.index()), "its place");
        self.all[at].consumption().give_back(self.credit, &mut self.pool);
        debug_assert!(self.pool.left() <= GRANTABLE, "no more comes back than was taken");
        self.all[at] = Account::new(name);
    }

    /// Sends an answer, or keeps it until there is room.
    #[inline]
    pub(super) fn answer(
        &mut self,
        at: usize,
        out: &mut (impl ReplySink + ?Sized),
        content: (u8, &[u64]),
        payload: &[u8],
    ) {
        let account = &mut self.all[at];
        account.answer(self.engine, out, content, payload);
        self.stuck |= account.is_stuck();
        debug_assert!(self.stuck || !self.all[at].is_stuck(), "kept answers are sent later");
    }

    /// Sends an optional message. Returns false when there is no room now.
    pub(super) fn offer(&self, at: usize, out: &mut dyn ReplySink, content: (u8, &[u64])) -> bool {
        debug_assert!(at < self.all.len(), "accounts stay");
        self.all[at].offer(self.engine, out, content)
    }

    /// Reports a refusal: to its requester if it has an answer, else at the next quiet.
    pub(super) fn refuse(
        &mut self,
        at: usize,
        out: &mut (impl ReplySink + ?Sized),
        (cookie, why): (u64, Refusal),
        [segment, offset]: [u64; 2],
    ) {
        self.refused += 1;
        if cookie == 0 {
            self.all[at].fail((why, segment, offset));
        } else {
            let words = [cookie, why as u64, segment, offset];
            self.answer(at, out, (tell::FAILED, &words), &[]);
        }
        debug_assert!(cookie != 0 || self.all[at].has_failed(), "the next quiet reports it");
    }

    /// Keeps a request that arrived behind a kept answer, or behind a request that cannot be
    /// forwarded now. Returns false if nothing is before it.
    #[inline]
    pub(super) fn keep_blocked(&mut self, at: usize, request: &Request<'_>) -> bool {
        let account = &mut self.all[at];
        debug_assert_eq!(account.name, request.from, "a request is its account's");
        if account.is_blocked() {
            debug_assert!(self.stuck, "kept answers are sent when there is room");
            account.later.push_back(request.keep());
            return true;
        }
        debug_assert!(account.later.is_empty(), "what arrived earlier is executed earlier");
        false
    }

    /// Keeps a request that cannot be forwarded now, before those that came behind it.
    #[cold]
    pub(super) fn delay(&mut self, at: usize, request: &Request<'_>) {
        self.delayed += 1;
        self.all[at].delay(request.keep());
        self.stuck = true;
        debug_assert!(self.all[at].is_blocked(), "what comes behind it is kept");
    }

    /// Counts a request that was executed: its payload, and, unless it only asks or ends later, the
    /// request itself.
    #[inline]
    pub(super) fn on_executed(&mut self, at: usize, payload: usize, counts: bool) {
        self.executed += 1;
        let account = &mut self.all[at];
        account.executed += u64::from(counts);
        account.on_consumed(payload);
        debug_assert!(self.refused <= self.executed, "a request is refused once");
    }

    /// Counts a request that ended later: what waited for it can go on.
    pub(super) fn on_ended_later(&mut self, at: usize) {
        debug_assert!(at < self.all.len(), "accounts stay");
        self.all[at].executed += 1;
        self.moved.push(at);
    }

    /// Returns true if requests have waited for one that ended later.
    #[inline]
    pub(super) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Returns an account in which a request has ended later.
    pub(super) fn next_moved(&mut self) -> Option<usize> {
        self.moved.pop()
    }

    /// Notes a credit request of an endpoint: it asks for a report once `total` bytes are consumed,
    /// and for `wanted` bytes of credit. If there is less, requesters that do nothing give theirs
    /// back.
    pub(super) fn on_asked(
        &mut self,
        at: usize,
        (total, wanted): (u64, u64),
        out: &mut impl ReplySink,
    ) {
        debug_assert!(at < self.all.len(), "accounts stay");
        let Self { all, pool, credit, .. } = self;
        let granted = all[at].consumption().granted().max(*credit);
        if pool.lacks(wanted, granted) {
            for (_, other) in all.iter_mut().enumerate().filter(|(other, _)| *other != at) {
                other.consumption().give_back_unused(*credit, pool);
                other.report(*credit, out);
            }
        }
        let consumption = all[at].consumption();
        consumption.on_asked(Some(total));
        consumption.grant(*credit, wanted, pool);
        debug_assert!(consumption.granted() >= granted || granted == *credit, "it grew");
        self.report(at, out);
    }

    /// Reports consumption to an endpoint, if that is due.
    #[inline]
    pub(super) fn report(&mut self, at: usize, out: &mut impl ReplySink) {
        let account = &mut self.all[at];
        account.report(self.credit, out);
        debug_assert!(!account.is_due(), "held requests are executed once they are due");
    }

    /// Returns true if accounts wait for room.
    #[inline]
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Returns true if accounts have waited for room: all of them are to be tried again, and noted
    /// by [`Accounts::note_blocked`] if they still wait.
    pub(super) fn take_stuck(&mut self) -> bool {
        std::mem::take(&mut self.stuck)
    }

    pub(super) fn note_blocked(&mut self, at: usize) {
        let account = &self.all[at];
        self.stuck |= account.is_blocked();
        debug_assert!(account.later.is_empty() || account.is_blocked(), "they were executed");
    }

    /// Drops everything kept for endpoints of a rank or interface.
    pub(super) fn clear(&mut self, sender: u32) {
        let its = self.all.iter_mut().filter(|account| account.name.rank() == sender);
        its.for_each(Account::clear);
    }

    /// Returns the number of requests executed, refused, and delayed.
    pub(super) fn counts(&self) -> [u64; 3] {
        debug_assert!(self.refused <= self.executed, "each is a request");
        [self.executed, self.refused, self.delayed]
    }

    /// Checks that each place has its account, and that what can go on is noted.
    pub(super) fn check_invariants(&self) {
        let Self { all, by_place, last, moved, stuck, .. } = self;
        debug_assert_eq!(by_place.len(), all.len(), "each place has an account");
        for (&(rank, index), &at) in by_place {
            debug_assert!(at < all.len(), "a place has an account");
            let name = all[at].name;
            debug_assert_eq!((name.rank(), name.index()), (rank, index), "of an endpoint there");
            debug_assert!(rank < self.senders && usize::from(index) < ENDPOINTS, "of this job");
        }
        debug_assert!(all.is_empty() || *last < all.len(), "it was used last");
        debug_assert!(moved.iter().all(|at| *at < all.len()), "accounts that moved exist");
        for (at, account) in all.iter().enumerate() {
            account.check_invariants(self.credit);
            let waits = account.is_blocked();
            debug_assert!(!waits || *stuck, "kept answers are sent when there is room");
            debug_assert!(!account.is_due() || moved.contains(&at), "what is due is executed");
        }
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.iter().map(Account::memory_bytes).sum()
    }

    /// Returns the requests of services that end later, as they are counted.
    pub(super) fn pending(&self) -> usize {
        self.all.iter().map(|account| account.pending as usize).sum()
    }
}
