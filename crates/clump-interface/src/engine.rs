//! Execution of requests of ranks of other nodes at a network interface: pure, and without trust in
//! requests.
//!
//! Takes requests one by one ([`Engine::handle_request`]), works on a [`Memory`], and gives answers
//! to an [`ReplySink`]. No clock, no socket, no thread; every word of a request is checked before
//! use. Answers that find no room are kept, and no further request of a requester with kept answers
//! is executed: so kept memory is bounded by the requests that requesters may have outstanding.
//!
//! [`Accounts`] has the requesters, their credit and what is kept for them; [`Waits`] has the
//! requests for locks and flags that wait, [`Locks`] the claims on locks; [`Calls`] has the
//! requests to services. The engine dispatches between them, and executes at once what needs none
//! of them (`operations.rs`).

mod account;
mod accounts;
mod calls;
mod claims;
mod execution_context;
mod locks;
mod operations;
mod peer_requests;
mod pending_request;
mod request;
#[cfg(test)]
mod tests;
mod wait;
mod waits;
mod watches;

use crate::memory::Memory;
use crate::service::{ServiceOutcome, Services};
use accounts::Accounts;
use calls::Calls;
use claims::At;
use clump_net::REQUEST_COST;
use clump_onesided::Refusal;
use clump_onesided::protocol::{ask, atomic_of, tell};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_wire::Message;
use execution_context::ExecutionContext;
use locks::Locks;
use operations::ExecutionResult;
pub use request::{EngineCounts, ReplySink};
use request::{NoSink, Request};
use waits::Waits;

/// Executor of one-sided operations on the memory of a node.
#[derive(Debug)]
pub struct Engine<M> {
    memory: M,
    /// Ranks of the job, used to check names.
    ranks: u32,
    accounts: Accounts,
    waits: Waits,
    locks: Locks,
    calls: Calls,
    /// Bytes of the answer that is being made.
    bytes: Vec<u8>,
}

impl<M: Memory> Engine<M> {
    /// Creates the engine of that name over `memory` for a job of `ranks` ranks, whose endpoints
    /// may each have `credit` bytes of requests unconsumed, with the services of this crate.
    pub fn new(name: Name, memory: M, ranks: u32, credit: u64) -> Self {
        debug_assert!(ranks > 0, "a job has ranks");
        debug_assert!(credit > REQUEST_COST, "an endpoint may send a request");
        Self {
            memory,
            ranks,
            accounts: Accounts::new(name, ranks, credit),
            waits: Waits::default(),
            locks: Locks::default(),
            calls: Calls::default(),
            bytes: Vec::new(),
        }
    }

    /// Sets the services, and admits requests of senders up to `senders`: interfaces are numbered
    /// behind ranks.
    #[must_use]
    pub fn with_services(mut self, services: Services, senders: u32) -> Self {
        debug_assert!(senders >= self.ranks, "ranks send requests");
        self.accounts.admit_senders(senders);
        self.calls = Calls::new(services);
        self
    }

    /// Returns the counts of what was executed.
    pub fn counts(&self) -> EngineCounts {
        let [executed, refused, delayed] = self.accounts.counts();
        let [services, later, asked, joined] = self.calls.counts();
        debug_assert!(services <= executed, "each is a request");
        EngineCounts { executed, refused, services, later, asked, joined, delayed }
    }

    /// Returns the parts of the engine, with what they work on.
    #[inline]
    fn parts<'a>(
        &'a mut self,
        out: &'a mut impl ReplySink,
    ) -> (&'a mut Waits, &'a mut Locks, &'a mut Calls, ExecutionContext<'a>) {
        let Self { memory, ranks, accounts, waits, locks, calls, bytes } = self;
        (waits, locks, calls, ExecutionContext { memory, ranks: *ranks, accounts, bytes, out })
    }

    /// Returns the account of an endpoint, opened if need be; `None` for names that no endpoint of
    /// this job has.
    #[inline]
    fn account(&mut self, from: Name) -> Option<usize> {
        self.accounts.current(from).or_else(|| self.find_account(from))
    }

    #[inline(never)]
    fn find_account(&mut self, from: Name) -> Option<usize> {
        let at = self.accounts.open(from)?;
        let before = self.accounts[at].name;
        if before != from {
            // A request that an endpoint sent before it was closed has no receiver for its answer.
            if from.generation() < before.generation() {
                return None;
            }
            let mut nowhere = NoSink;
            let (waits, locks, calls, mut on) = self.parts(&mut nowhere);
            calls.abandon(|name| name == before, &mut on);
            on.accounts.replace(at, from);
            waits.abandon(|name| name == before, locks, &mut on);
        }
        debug_assert_eq!(self.accounts[at].name, from, "an account is of its endpoint");
        Some(at)
    }

    /// Executes a request, or keeps it until it may be executed.
    #[inline]
    pub fn handle_request(&mut self, message: &Message<'_>, out: &mut impl ReplySink) {
        let Some(request) = Request::of(message) else { return };
        let Some(at) = self.account(request.from) else { return };
        if !self.accounts.keep_blocked(at, &request) {
            self.admit(at, &request, out);
            self.release_moved(out);
        }
    }

    /// Executes requests that have waited for a kept one.
    #[inline]
    fn release_moved(&mut self, out: &mut impl ReplySink) {
        while let Some(at) = self.accounts.next_moved() {
            self.release(at, out);
        }
        debug_assert!(!self.accounts.has_moved(), "nothing more was released meanwhile");
    }

    /// Executes a request unless it waits for another.
    #[inline]
    fn admit(&mut self, at: usize, request: &Request<'_>, out: &mut impl ReplySink) {
        let account = &mut self.accounts[at];
        debug_assert!(!account.is_blocked(), "behind a kept answer nothing is executed");
        debug_assert_eq!(account.name, request.from, "a request is its account's");
        if account.executed >= request.after {
            self.run(at, request, out);
        } else {
            account.hold(request.after, request.keep());
        }
        self.release(at, out);
    }

    /// Executes requests that have waited for others.
    #[inline]
    fn release(&mut self, at: usize, out: &mut impl ReplySink) {
        debug_assert!(at < self.accounts.len(), "accounts stay");
        while let Some(kept) = self.accounts[at].next_held() {
            let message = kept.message();
            if let Some(request) = Request::of(&message) {
                self.run(at, &request, out);
            }
        }
        self.accounts.report(at, out);
    }

    fn run(&mut self, at: usize, request: &Request<'_>, out: &mut impl ReplySink) {
        debug_assert!(
            request.after <= self.accounts[at].executed,
            "what is before it was executed"
        );
        debug_assert!(!self.accounts[at].is_blocked(), "behind a kept answer nothing is executed");
        if self.calls.delays(request, self.ranks) {
            return self.accounts.delay(at, request);
        }
        let counts = !matches!(request.handler, ask::QUIET | ask::CANCEL);
        let counts = self.execute(at, request, out) && counts;
        self.accounts.on_executed(at, request.payload.len(), counts);
        if self.calls.concerns_others() {
            let (.., calls, mut on) = self.parts(out);
            calls.note_changes(request, &mut on);
        }
    }

    /// Executes a request, and answers it. Returns false if it is kept; it then counts when it is
    /// executed.
    fn execute(&mut self, at: usize, request: &Request<'_>, out: &mut impl ReplySink) -> bool {
        let outcome = self.perform(at, request, out);
        let accounts = &mut self.accounts;
        match outcome.unwrap_or(ExecutionResult::Refused(0, Refusal::Unknown)) {
            ExecutionResult::Kept => return false,
            ExecutionResult::Done(0) | ExecutionResult::Later => {}
            ExecutionResult::Done(cookie) => accounts.answer(at, out, (tell::DONE, &[cookie]), &[]),
            ExecutionResult::Value(cookie, value) => {
                accounts.answer(at, out, (tell::VALUE, &[cookie, value]), &[]);
            }
            ExecutionResult::Bytes(cookie) => {
                accounts.answer(at, out, (tell::BYTES, &[cookie, 0]), &self.bytes);
            }
            ExecutionResult::Quiet(cookie) => {
                let [executed, failed, why, segment, offset] = accounts[at].take_progress();
                let words = [cookie, executed, failed, why, segment, offset];
                accounts.answer(at, out, (tell::QUIET, &words), &[]);
            }
            ExecutionResult::Refused(cookie, why) => {
                let place = [0, 1].map(|at| request.words.get(at).copied().unwrap_or(0));
                accounts.refuse(at, out, (cookie, why), place);
            }
            ExecutionResult::RefusedAt(cookie, why, segment) => {
                accounts.refuse(at, out, (cookie, why), [segment.to_bits(), 0]);
            }
        }
        true
    }

    /// Performs a request. Returns `None` if it does not have the words that it should.
    fn perform(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> Option<ExecutionResult> {
        let Request { handler, words, .. } = *request;
        if let Some(operation) = atomic_of(handler) {
            return operations::atomic(&mut self.memory, operation, words);
        }
        if request.is_served() {
            return Some(self.serve(at, request, out));
        }
        match handler {
            ask::QUIET => return Some(ExecutionResult::Quiet(*words.first()?)),
            ask::CANCEL => {
                let (waits, locks, calls, mut on) = self.parts(out);
                let cookie = *words.first()?;
                if !calls.cancel(at, cookie, &mut on) {
                    waits.cancel(at, cookie, (locks, &mut on));
                }
                return Some(ExecutionResult::Later);
            }
            ask::PORT => {
                let &[cookie, port] = words else { return None };
                return Some(ExecutionResult::Value(cookie, self.memory.port(port)));
            }
            _ => {}
        }
        let (&[segment, offset, cookie], rest) = words.split_first_chunk()?;
        let place = (SegmentName::from_bits(segment), offset, cookie);
        let done = if matches!(handler, ask::WAIT | ask::LOCK | ask::UNLOCK) {
            self.perform_waiting(at, (handler, rest), place, out)
        } else {
            operations::perform(&mut self.memory, request, place, rest, &mut self.bytes)
        };
        Some(done.unwrap_or_else(|why| ExecutionResult::Refused(cookie, why)))
    }

    /// Performs a request for a lock or a flag.
    fn perform_waiting(
        &mut self,
        at: usize,
        (handler, rest): (u8, &[u64]),
        place: (SegmentName, u64, u64),
        out: &mut impl ReplySink,
    ) -> Result<ExecutionResult, Refusal> {
        debug_assert!(at < self.accounts.len(), "accounts stay");
        let (waits, locks, _, mut on) = self.parts(out);
        let on = &mut on;
        match (handler, rest) {
            (ask::WAIT, &[comparison, value]) => {
                waits.watch(at, place, (comparison, value), (locks, on))?;
            }
            (ask::LOCK, &[how]) => waits.lock(at, place, how, (locks, on))?,
            (ask::UNLOCK, &[position, word, passed @ (0 | 1)]) => {
                let (segment, offset, _) = place;
                let lock = At { segment, offset, position };
                let released = locks.unlock(at, lock, (word, passed == 1), on)?;
                waits.end(&released.ended);
                return Ok(match released.executed {
                    true => ExecutionResult::Done(0),
                    false => ExecutionResult::Kept,
                });
            }
            _ => return Err(Refusal::Unknown),
        }
        Ok(ExecutionResult::Later)
    }

    /// Performs a request to a service.
    fn serve(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> ExecutionResult {
        debug_assert!(request.is_served(), "one of the numbers of services");
        let cookie = request.words.get(2).copied().unwrap_or(0);
        let (.., calls, mut on) = self.parts(out);
        let outcome = calls.begin(at, request, &mut on);
        match outcome.unwrap_or_else(ServiceOutcome::Refused) {
            ServiceOutcome::Done => ExecutionResult::Done(cookie),
            // The requester wants no result (cookie 0).
            ServiceOutcome::Value(_) | ServiceOutcome::Bytes if cookie == 0 => {
                ExecutionResult::Done(0)
            }
            ServiceOutcome::Value(value) => ExecutionResult::Value(cookie, value),
            ServiceOutcome::Bytes => ExecutionResult::Bytes(cookie),
            ServiceOutcome::Later if cookie == 0 => ExecutionResult::Kept,
            ServiceOutcome::Later => ExecutionResult::Later,
            ServiceOutcome::Refused(why) => ExecutionResult::Refused(cookie, why),
            ServiceOutcome::RefusedAt(why, name) => ExecutionResult::RefusedAt(cookie, why, name),
        }
    }

    /// Handles a credit request: the endpoint `from` requests a report once `total` bytes of its
    /// requests have been consumed, and `wanted` bytes of credit.
    pub fn handle_credit_request(
        &mut self,
        from: Name,
        (total, wanted): (u64, u64),
        out: &mut impl ReplySink,
    ) {
        let Some(at) = self.account(from) else { return };
        self.accounts.on_asked(at, (total, wanted), out);
    }

    /// Sends answers that were kept for lack of room, and executes the requests behind them.
    pub fn handle_room(&mut self, out: &mut impl ReplySink) {
        let (.., calls, mut on) = self.parts(out);
        if calls.send_unsent(&mut on) {
            self.release_moved(out);
        }
        self.send_messages(out);
        if !self.accounts.take_stuck() {
            return;
        }
        for at in 0..self.accounts.len() {
            self.accounts[at].send_deferred(out);
            if !self.calls.is_forwarding_much() {
                self.accounts[at].end_delay();
            }
            while let Some(kept) = self.accounts[at].next_later() {
                let message = kept.message();
                if let Some(request) = Request::of(&message) {
                    self.admit(at, &request, out);
                }
            }
            // Held requests may have become due meanwhile.
            self.release(at, out);
            self.accounts.note_blocked(at);
        }
        self.check_invariants();
    }

    /// Returns true if answers wait for room.
    pub fn wants_room(&self) -> bool {
        self.accounts.is_stuck() || self.calls.wants_room()
    }

    /// Drops everything kept for a rank that is lost or has finalized.
    pub fn forget(&mut self, rank: u32) {
        let (gone, mut nowhere) = (|name: Name| name.rank() == rank, NoSink);
        self.accounts.clear(rank);
        let (waits, locks, calls, mut on) = self.parts(&mut nowhere);
        calls.abandon(gone, &mut on);
        waits.abandon(gone, locks, &mut on);
        locks.orphan(rank);
        calls.rank_gone(rank);
        debug_assert!(!waits.has_any(gone), "it waits no more");
        self.check_invariants();
    }

    /// Drops the requests of a rank of this node that has died or finalized.
    pub fn drop_requests(&mut self, rank: u32) {
        let (gone, mut nowhere) = (|name: Name| name.rank() == rank, NoSink);
        self.accounts.clear(rank);
        let (waits, _, calls, mut on) = self.parts(&mut nowhere);
        calls.abandon(gone, &mut on);
        debug_assert!(!waits.has_any(gone), "it waits by itself");
        self.check_invariants();
    }

    /// Answers all requests whose wait has ended. Called when something may have changed.
    pub fn handle_waits(&mut self, out: &mut impl ReplySink) {
        let (_, locks, _, mut on) = self.parts(out);
        locks.notify_orphans(&mut on);
        self.release_moved(out);
        let (waits, locks, _, mut on) = self.parts(out);
        waits.answer(locks, &mut on);
        self.check_invariants();
    }

    /// Returns true if requests wait, or messages are due.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty() || self.locks.has_orphans() || self.accounts.has_moved()
    }

    /// Takes in calls of ranks of this node: bits, as
    /// [`clump_shm::rank::RankBlock::take_called`] returns them.
    pub fn handle_calls(&mut self, calls: u64, out: &mut impl ReplySink) {
        let (.., services, mut on) = self.parts(out);
        services.handle_calls(calls, &mut on);
        self.send_messages(out);
    }

    /// Ends a turn: sends the services' joint requests to other interfaces, and their messages, as
    /// far as there is room.
    pub fn send_messages(&mut self, out: &mut impl ReplySink) {
        let (.., calls, mut on) = self.parts(out);
        if calls.send_joint(&mut on) {
            self.release_moved(out);
        }
        self.calls.send_messages(out);
    }

    /// Takes in the answer of another interface to a request of this one.
    pub fn handle_answer(
        &mut self,
        cookie: u64,
        answer: Result<&[u8], Refusal>,
        out: &mut impl ReplySink,
    ) {
        let (.., calls, mut on) = self.parts(out);
        calls.handle_answer(cookie, answer, &mut on);
        self.release_moved(out);
    }

    /// Records that watched words may have changed: those of the bits `changed`, as
    /// [`clump_shm::rank::RankBlock::take_changed`] returns them.
    pub fn handle_changes(&mut self, changed: u64, out: &mut impl ReplySink) {
        let (.., calls, mut on) = self.parts(out);
        calls.handle_changes(changed, &mut on);
        self.release_moved(out);
    }

    /// Returns true if words are watched.
    #[inline]
    pub fn has_watches(&self) -> bool {
        self.calls.has_watches()
    }

    /// Returns the bytes kept for requesters.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        self.accounts.memory_bytes() + self.calls.memory_bytes()
    }

    /// Checks the relations between accounts, waits and claims, which hold between two calls,
    /// whatever requesters send.
    ///
    /// # Panics
    /// Panics if one is broken, in builds with debug assertions.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            self.accounts.check_invariants();
            self.waits.check_invariants(&self.accounts);
            self.locks.check_invariants(&self.accounts);
            self.calls.check_invariants(&self.accounts);
        }
    }
}
