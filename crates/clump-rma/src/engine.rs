//! What a network interface does with the requests of ranks of other nodes: pure, and distrustful.
//!
//! Takes requests one by one ([`Engine::handle_request`]), works on a [`Memory`], and gives answers to an
//! [`Outlet`]. No clock, no socket, no thread; nothing in a request is believed before it is checked. What
//! finds no room on the way back is kept, and of a requester for whom something is kept no further request
//! is executed: so what is kept is bounded by what requesters may have outstanding.

mod account;
mod execute;
mod passing;
mod places;
#[cfg(test)]
mod tests;
mod waits;

use crate::memory::Memory;
use crate::protocol::ask;
use account::{Account, Kept};
use clump_net::REQUEST_COST;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use places::Places;
use std::collections::HashMap;
use waits::Wait;

/// A request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The endpoint that sent it.
    pub from: Name,
    /// What it asks, of [`crate::protocol::ask`].
    pub handler: u8,
    /// Its words.
    pub words: &'a [u64],
    /// Its payload, unless it was deposited.
    pub payload: &'a [u8],
    /// Bytes that were deposited.
    pub deposited: u64,
}

/// Where answers go.
pub trait Outlet {
    /// Sends an answer; false when there is no room now.
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool;
    /// Tells an endpoint how many bytes of its requests were consumed, ever.
    fn report(&mut self, to: Name, consumed: u64);
}

/// See the module.
#[derive(Debug)]
pub struct Engine<M> {
    pub(crate) memory: M,
    /// Ranks of the job, by which names are checked.
    ranks: u32,
    credit: u64,
    accounts: Vec<Account>,
    /// By rank and index: an endpoint that opens anew takes the place of the one before it.
    by_place: HashMap<(u32, u8), usize>,
    /// Whose request came last: the next is likely to be its too.
    last: usize,
    scratch: Vec<u8>,
    /// Requests whose answer waits for somebody.
    waits: Vec<Wait>,
    /// Claims on locks that wait or have them.
    places: Places,
    /// Some of those have to be told by us what a rank that is gone may have told them.
    orphans: bool,
    /// Accounts of which something was executed that had been kept.
    moved: Vec<usize>,
    /// Accounts that keep answers back may not all be stuck any more.
    stuck: bool,
}

impl<M: Memory> Engine<M> {
    /// An engine over `memory` for a job of `ranks` ranks, whose endpoints may each have `credit` bytes
    /// of requests unconsumed.
    pub fn new(memory: M, ranks: u32, credit: u64) -> Self {
        Self {
            memory,
            ranks,
            credit,
            accounts: Vec::new(),
            by_place: HashMap::new(),
            last: 0,
            scratch: Vec::new(),
            waits: Vec::new(),
            places: Places::default(),
            orphans: false,
            moved: Vec::new(),
            stuck: false,
        }
    }

    /// The account of an endpoint, opened if need be; `None` for names that no endpoint of this job has.
    #[inline]
    fn account(&mut self, from: Name) -> Option<usize> {
        if self.accounts.get(self.last).is_some_and(|last| last.name == from) {
            return Some(self.last);
        }
        self.find_account(from)
    }

    #[inline(never)]
    fn find_account(&mut self, from: Name) -> Option<usize> {
        if from.rank() >= self.ranks || usize::from(from.index()) >= ENDPOINTS {
            return None;
        }
        let place = (from.rank(), from.index());
        let at = *self.by_place.entry(place).or_insert_with(|| {
            self.accounts.push(Account::new(from));
            self.accounts.len() - 1
        });
        let account = &mut self.accounts[at];
        if account.name != from {
            // What an endpoint sent before it was closed is of no use to it now.
            if from.generation() < account.name.generation() {
                return None;
            }
            let before = account.name;
            *account = Account::new(from);
            self.abandon_all(|name| name == before);
        }
        self.last = at;
        Some(at)
    }

    /// Executes a request, or keeps it until it may be.
    #[inline]
    pub fn handle_request(&mut self, request: &Request<'_>, out: &mut impl Outlet) {
        let Some(at) = self.account(request.from) else { return };
        let account = &mut self.accounts[at];
        if account.is_stuck() {
            account.later.push_back(Kept::of(request));
            return;
        }
        self.admit(at, request, out);
        if !self.moved.is_empty() {
            self.release_moved(out);
        }
    }

    /// Executes what has waited for something that was kept.
    #[cold]
    fn release_moved(&mut self, out: &mut impl Outlet) {
        while let Some(at) = self.moved.pop() {
            self.release(at, out);
        }
    }

    /// Executes a request if it waits for no other.
    #[inline]
    fn admit(&mut self, at: usize, request: &Request<'_>, out: &mut impl Outlet) {
        let account = &mut self.accounts[at];
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
    fn release(&mut self, at: usize, out: &mut impl Outlet) {
        while let Some(kept) = self.accounts[at].next_held() {
            let from = self.accounts[at].name;
            self.run(at, &kept.request(from), out);
        }
        self.accounts[at].report(self.credit, out);
    }

    fn run(&mut self, at: usize, request: &Request<'_>, out: &mut impl Outlet) {
        let counts = !matches!(request.handler, ask::QUIET | ask::CANCEL);
        let counts = self.execute(at, request, out) && counts;
        let account = &mut self.accounts[at];
        account.executed += u64::from(counts);
        account.consumed += REQUEST_COST + request.payload.len() as u64;
        self.stuck |= account.is_stuck();
    }

    /// The endpoint `from` wants to be told once `total` bytes of its requests have been consumed.
    pub fn handle_question(&mut self, from: Name, total: u64, out: &mut impl Outlet) {
        let Some(at) = self.account(from) else { return };
        let account = &mut self.accounts[at];
        // Questions overtake each other, and the least is answered soonest.
        account.asked = Some(account.asked.map_or(total, |asked| asked.min(total)));
        account.report(self.credit, out);
    }

    /// There may be room again: sends what was kept, and executes what waited for that.
    pub fn handle_room(&mut self, out: &mut impl Outlet) {
        if !std::mem::take(&mut self.stuck) {
            return;
        }
        for at in 0..self.accounts.len() {
            self.accounts[at].send_kept(out);
            while !self.accounts[at].is_stuck() {
                let Some(kept) = self.accounts[at].later.pop_front() else { break };
                let from = self.accounts[at].name;
                self.admit(at, &kept.request(from), out);
            }
            // What was held back may have become due meanwhile.
            self.release(at, out);
            self.stuck |= self.accounts[at].is_stuck();
        }
    }

    /// Whether answers wait for room.
    pub fn wants_room(&self) -> bool {
        self.stuck
    }

    /// A rank is lost, or has finalized: nothing is kept for it any more.
    pub fn forget(&mut self, rank: u32) {
        for account in self.accounts.iter_mut().filter(|account| account.name.rank() == rank) {
            account.clear();
        }
        self.abandon_all(|name| name.rank() == rank);
        self.orphan(rank);
    }

    /// Bytes kept for requesters.
    pub fn memory_bytes(&self) -> usize {
        self.accounts.iter().map(Account::memory_bytes).sum()
    }
}
