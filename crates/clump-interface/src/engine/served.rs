//! Requests to services: begun, continued, ended, cancelled.

use super::account::Account;
use super::joint::is_forwarded;
use super::pending_request::{MAX_ASKS, MAX_LATER, OwnAsk, PendingRequest, ServiceState};
use super::{Engine, ReplySink, Request};
use crate::memory::Memory;
use crate::service::{
    ServiceContext, ServiceEffects, ServiceOutcome, ServiceRequest, Ticket, Wakeup,
};
use clump_onesided::Refusal;
use clump_onesided::protocol::{FIRST_CODE, LAST_CODE, MAX_PIECE, ask, atomic_of, tell};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_wire::SendResult;

/// Reason of a step of a service.
enum Step<'a> {
    Begin(&'a ServiceRequest<'a>),
    Go(Wakeup<'a>),
}

impl<M: Memory> Engine<M> {
    /// Executes a request to a service. Returns its state, and its ticket.
    pub(super) fn serve(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> Result<ServiceOutcome, Refusal> {
        self.counts.services += 1;
        let which = self.service_state.services.which(request.handler).ok_or(Refusal::Unknown)?;
        let split = request.words.split_first_chunk().ok_or(Refusal::Unknown)?;
        let (&[segment, offset, cookie], words) = split;
        let place = (SegmentName::from_bits(segment), offset);
        let limited = !is_forwarded(request.handler);
        if limited && self.accounts[at].pending >= MAX_LATER || self.is_full(which) {
            return Err(Refusal::Overloaded);
        }
        self.service_state.tickets += 1;
        let ticket = self.service_state.tickets;
        let of_service = ServiceRequest {
            from: request.from,
            code: request.handler,
            segment: place.0,
            offset,
            answered: cookie != 0,
            words,
            payload: request.payload,
        };
        // Requests of interfaces make no further requests.
        let budget = match request.from.rank() < self.ranks {
            true => MAX_ASKS.saturating_sub(self.service_state.under_way()),
            false => 0,
        };
        let outcome = self.step(which, (ticket, budget), &Step::Begin(&of_service));
        if outcome != ServiceOutcome::Later {
            self.service_state.effects.watch = None;
            let ServiceEffects { asked, joint, .. } = &mut self.service_state.effects;
            debug_assert!(asked.is_empty() && joint.is_empty(), "an ended request makes none");
            asked.clear();
            joint.clear();
            return Ok(outcome);
        }
        self.accounts[at].pending += u32::from(limited);
        self.counts.later += 1;
        let (from, service) = (request.from, which);
        let later = PendingRequest { account: at, from, cookie, service, place, asks: 0, limited };
        self.service_state.pending.insert(ticket, later);
        self.keep(ticket, out);
        let asks = self.service_state.pending.get(&ticket).map_or(0, |later| later.asks);
        if cookie == 0 && asks == 0 {
            // One that waits for nothing ends now: it cannot be cancelled.
            self.service_state.watches.due.push(ticket);
        }
        Ok(ServiceOutcome::Later)
    }

    pub(super) fn is_full(&self, which: usize) -> bool {
        let service = self.service_state.services.list.get(which);
        service.is_none_or(|service| service.memory_bytes() >= service.memory_bound())
    }

    /// Runs a step of a service.
    fn step(
        &mut self,
        which: usize,
        (ticket, budget): (u64, usize),
        step: &Step<'_>,
    ) -> ServiceOutcome {
        let Self { memory, scratch, service_state, .. } = self;
        let Some(service) = service_state.services.list.get_mut(which) else {
            clump_bug::bug!("request numbers lead to services");
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        scratch.clear();
        service_state.stepped = true;
        let effects = &mut service_state.effects;
        let mut context = ServiceContext { memory, ticket, bytes: scratch, effects, budget };
        let outcome = match step {
            Step::Begin(request) => service.handle(request, &mut context),
            Step::Go(why) => service.resume(ticket, *why, &mut context),
        };
        if outcome == ServiceOutcome::Bytes && scratch.len() > MAX_PIECE {
            clump_bug::bug!("an answer fits into one message");
            return ServiceOutcome::Refused(Refusal::Overloaded);
        }
        outcome
    }

    /// Applies the effects of a step of a request that ends later.
    fn keep(&mut self, ticket: Ticket, out: &mut impl ReplySink) {
        debug_assert!(self.service_state.pending.contains_key(&ticket), "effects are of a request");
        if let Some((segment, offset)) = self.service_state.effects.watch.take() {
            let bit = self.service_state.watches.insert(ticket, segment, offset);
            if let Some(bit) = bit {
                self.memory.watch(bit, true);
            }
            // It may have changed before it was watched.
            self.service_state.watches.due.push(ticket);
        }
        let asked = std::mem::take(&mut self.service_state.effects.asked);
        for mut one in asked {
            self.service_state.own_cookies += 1;
            self.counts.asked += 1;
            let cookie = self.service_state.own_cookies;
            if let Some(place) = one.words.get_mut(2) {
                *place = cookie;
            }
            let unsent = Some((one.code, one.words, one.payload));
            let tickets = vec![ticket];
            self.service_state.asks.insert(cookie, OwnAsk { tickets, node: one.node, unsent });
            if let Some(later) = self.service_state.pending.get_mut(&ticket) {
                later.asks += 1;
            }
            self.send_own(cookie, out);
        }
        for part in std::mem::take(&mut self.service_state.effects.joint) {
            self.join(ticket, part, out);
        }
    }

    /// Sends a request to another interface, if there is room.
    pub(super) fn send_own(&mut self, cookie: u64, out: &mut impl ReplySink) {
        let Some(own) = self.service_state.asks.get_mut(&cookie) else {
            clump_bug::bug!("what is sent was requested");
            return;
        };
        let Some((code, words, payload)) = &own.unsent else {
            clump_bug::bug!("a request is sent once");
            return;
        };
        debug_assert_eq!(words.get(2), Some(&cookie), "its answer carries its cookie");
        match out.ask(own.node, *code, words, payload) {
            SendResult::Sent => own.unsent = None,
            SendResult::Full => self.service_state.unsent = true,
            SendResult::Refused(_) => {
                own.unsent = None;
                self.service_state.lost.push(cookie);
            }
        }
    }

    /// Takes in calls of ranks of this node: bits, as
    /// [`clump_shm::rank::RankBlock::take_called`] returns them.
    pub fn handle_calls(&mut self, calls: u64, out: &mut impl ReplySink) {
        let Self { memory, scratch, service_state, .. } = self;
        service_state.stepped = true;
        for service in &mut service_state.services.list {
            scratch.clear();
            let effects = &mut service_state.effects;
            let (ticket, budget) = (0, 0);
            let mut context = ServiceContext { memory, ticket, bytes: scratch, effects, budget };
            service.handle_calls(calls, &mut context);
        }
        let ServiceEffects { asked, joint, .. } = &self.service_state.effects;
        debug_assert!(asked.is_empty() && joint.is_empty(), "a call asks by messages");
        self.service_state.effects.watch = None;
        self.touch_changed();
        self.fire(out);
        self.send_messages(out);
    }

    /// Ends a turn: sends the services' joint requests to other interfaces, and their messages, as
    /// far as there is room.
    pub fn send_messages(&mut self, out: &mut impl ReplySink) {
        self.send_joint(out);
        if !self.service_state.stepped && self.service_state.kept.is_none() {
            return;
        }
        let ServiceState { services, kept, stepped, .. } = &mut self.service_state;
        *stepped = false;
        let mut next = || services.list.iter_mut().find_map(|service| service.poll_message());
        while let Some(message) = kept.take().or_else(&mut next) {
            let [a, b, c, d] = message.words;
            debug_assert!(message.payload.len() <= MAX_PIECE, "a message is one request");
            let words = [0, 0, 0, a, b, c, d];
            match out.ask(message.node, message.code, &words, &message.payload) {
                // The loss of a node is found by the requests that wait for it.
                SendResult::Sent | SendResult::Refused(_) => {}
                SendResult::Full => {
                    *kept = Some(message);
                    return;
                }
            }
        }
        debug_assert!(self.service_state.kept.is_none(), "everything was sent");
    }

    /// Sends requests to other interfaces that found no room.
    pub(super) fn send_own_again(&mut self, out: &mut impl ReplySink) {
        if !std::mem::take(&mut self.service_state.unsent) {
            return;
        }
        let mut unsent: Vec<_> = self.service_state.asks.iter().collect();
        unsent.retain(|(_, own)| own.unsent.is_some());
        let mut cookies: Vec<u64> = unsent.into_iter().map(|(&cookie, _)| cookie).collect();
        cookies.sort_unstable();
        cookies.into_iter().for_each(|cookie| self.send_own(cookie, out));
        self.fire(out);
        self.release_moved(out);
    }

    /// Takes in the answer of another interface to a request of this one.
    pub fn handle_answer(
        &mut self,
        cookie: u64,
        answer: Result<&[u8], Refusal>,
        out: &mut impl ReplySink,
    ) {
        self.take_answer(cookie, answer, out);
        self.fire(out);
        self.release_moved(out);
    }

    fn take_answer(
        &mut self,
        cookie: u64,
        answer: Result<&[u8], Refusal>,
        out: &mut impl ReplySink,
    ) {
        let Some(own) = self.service_state.asks.remove(&cookie) else { return };
        // Requesters may have left.
        for ticket in own.tickets {
            let Some(later) = self.service_state.pending.get_mut(&ticket) else {
                clump_bug::bug!("requests end with the one that made them");
                continue;
            };
            debug_assert!(later.asks > 0, "each answer is of one request");
            later.asks -= 1;
            let (service, why) = (later.service, Wakeup::Answered(own.node, answer));
            let outcome = self.step(service, (ticket, 0), &Step::Go(why));
            self.conclude(ticket, outcome, out);
        }
    }

    /// Resumes requests whose watched words may have changed.
    pub(super) fn fire(&mut self, out: &mut impl ReplySink) {
        while let Some(cookie) = self.service_state.lost.pop() {
            self.take_answer(cookie, Err(Refusal::NodeLost), out);
        }
        while let Some(ticket) = self.service_state.watches.due.pop() {
            let Some(later) = self.service_state.pending.get(&ticket) else { continue };
            let outcome = self.step(later.service, (ticket, 0), &Step::Go(Wakeup::Changed));
            self.conclude(ticket, outcome, out);
        }
    }

    /// Ends a request, unless it continues.
    fn conclude(&mut self, ticket: Ticket, outcome: ServiceOutcome, out: &mut impl ReplySink) {
        self.touch_changed();
        self.service_state.effects.watch = None;
        let Some(&later) = self.service_state.pending.get(&ticket) else {
            clump_bug::bug!("a step is of a request that goes on");
            return;
        };
        let mut outcome = outcome;
        if outcome == ServiceOutcome::Later {
            if later.cookie != 0 || later.asks > 0 {
                return;
            }
            // It cannot be cancelled, and `quiet` would wait for ever.
            self.forget_later(later.service, ticket);
            outcome = ServiceOutcome::Refused(Refusal::Overloaded);
        }
        self.drop_later(ticket);
        let refused = matches!(outcome, ServiceOutcome::Refused(_) | ServiceOutcome::RefusedAt(..));
        self.counts.refused += u64::from(refused);
        let Self { accounts, scratch, moved, stuck, .. } = self;
        let Some(account) = accounts.get_mut(later.account) else {
            clump_bug::bug!("accounts stay");
            return;
        };
        debug_assert_eq!(account.name, later.from, "pending end with their endpoint");
        end(account, &later, outcome, (scratch, out));
        if later.cookie == 0 {
            account.executed += 1;
            moved.push(later.account);
        }
        *stuck |= account.is_stuck();
    }

    /// Removes a request that ended later, its watch, and the requests it made.
    fn drop_later(&mut self, ticket: Ticket) {
        let Some(later) = self.service_state.pending.remove(&ticket) else {
            clump_bug::bug!("a request ends once");
            return;
        };
        if let Some(bit) = self.service_state.watches.remove(ticket) {
            self.memory.watch(bit, false);
        }
        if later.asks > 0 {
            self.drop_asks(ticket);
        }
        if let Some(account) = self.accounts.get_mut(later.account).filter(|_| later.limited) {
            debug_assert!(account.pending > 0, "each is counted at its account");
            account.pending = account.pending.saturating_sub(1);
        }
    }

    fn forget_later(&mut self, service: usize, ticket: Ticket) {
        debug_assert!(self.service_state.pending.contains_key(&ticket), "it has not ended");
        if let Some(service) = self.service_state.services.list.get_mut(service) {
            service.forget(ticket);
        }
    }

    /// Ends a request whose requester does not wait any more. Returns false if there is none.
    pub(super) fn cancel_later(
        &mut self,
        at: usize,
        cookie: u64,
        out: &mut impl ReplySink,
    ) -> bool {
        let is_it = |later: &PendingRequest| (later.account, later.cookie) == (at, cookie);
        let found = self.service_state.pending.iter().find(|(_, later)| is_it(later));
        let Some((&ticket, &later)) = found.filter(|_| cookie != 0) else { return false };
        self.forget_later(later.service, ticket);
        self.drop_later(ticket);
        let (segment, offset) = later.place;
        let words = [cookie, Refusal::TimedOut as u64, segment.to_bits(), offset];
        self.accounts[at].answer(out, tell::FAILED, &words, &[]);
        self.stuck |= self.accounts[at].is_stuck();
        true
    }

    /// Gives up the requests of closed endpoints.
    pub(super) fn abandon_laters(&mut self, gone: impl Fn(Name) -> bool) {
        let of_them = self.service_state.pending.iter().filter(|(_, later)| gone(later.from));
        let all: Vec<_> = of_them.map(|(&ticket, later)| (ticket, later.service)).collect();
        for (ticket, service) in all {
            self.forget_later(service, ticket);
            self.drop_later(ticket);
        }
        debug_assert!(
            !self.service_state.pending.values().any(|later| gone(later.from)),
            "all are gone"
        );
    }

    /// Records that watched words may have changed: those of the bits `changed`, as
    /// [`clump_shm::rank::RankBlock::take_changed`] returns them.
    pub fn handle_changes(&mut self, changed: u64, out: &mut impl ReplySink) {
        self.service_state.watches.mark(changed);
        self.fire(out);
        self.release_moved(out);
    }

    /// Returns true if the effects of a request may concern others.
    #[inline]
    pub(super) fn concerns_others(&self) -> bool {
        let ServiceState { watches, lost, .. } = &self.service_state;
        !watches.is_empty() || !watches.due.is_empty() || !lost.is_empty()
    }

    /// Returns true if words are watched.
    #[inline]
    pub fn has_watches(&self) -> bool {
        !self.service_state.watches.is_empty()
    }

    /// Marks the watched words that services have changed.
    pub(super) fn touch_changed(&mut self) {
        let changed = std::mem::take(&mut self.service_state.effects.changed);
        if !self.service_state.watches.is_empty() {
            for (segment, offset, bytes) in &changed {
                self.service_state.watches.touch(*segment, *offset, *bytes);
            }
        }
        self.service_state.effects.changed = changed;
        self.service_state.effects.changed.clear();
    }

    /// Resumes requests that watch words which `request`, executed just now, may have changed.
    #[cold]
    pub(super) fn note_changes(&mut self, request: &Request<'_>, out: &mut impl ReplySink) {
        let Request { handler, words, payload, deposited, .. } = *request;
        self.touch_changed();
        let watches = &mut self.service_state.watches;
        if let &[segment, offset, ref rest @ ..] = words {
            let name = SegmentName::from_bits(segment);
            let bytes = match handler {
                _ if atomic_of(handler).is_some() => 8,
                ask::PUT => payload.len() as u64,
                ask::PUT_LONG => deposited,
                // Up to the end of the segment, roughly: a resumed request looks for itself.
                ask::PUT_STRIDED | ask::SET => u64::MAX,
                _ => 0,
            };
            if bytes != 0 {
                watches.touch(name, offset, bytes);
            }
            if let (ask::PUT | ask::PUT_LONG, &[_, segment, offset, _, _]) = (handler, rest) {
                watches.touch(SegmentName::from_bits(segment), offset, 8);
            }
        }
        self.fire(out);
    }

    /// Checks that each later request is of its account, and counted there.
    pub(super) fn check_served(&self) {
        let ServiceState { pending, asks, watches, .. } = &self.service_state;
        for later in pending.values() {
            let account = self.accounts.get(later.account);
            let its = account.is_some_and(|account| account.name == later.from);
            debug_assert!(its, "the account of a request is that of its endpoint");
            debug_assert!(
                later.cookie != 0 || later.asks > 0,
                "it ends by itself, or is cancelled"
            );
        }
        let counted: u32 = self.accounts.iter().map(|account| account.pending).sum();
        let limited = pending.values().filter(|later| later.limited).count();
        debug_assert_eq!(counted as usize, limited, "each is counted at its account");
        debug_assert!(self.service_state.under_way() <= MAX_ASKS, "an interface asks little");
        let known = |ticket: &Ticket| pending.contains_key(ticket);
        let asked = asks.values().flat_map(|own| &own.tickets);
        let joint = self.service_state.joint.values().flat_map(|joint| &joint.tickets);
        debug_assert!(asked.chain(joint).all(known), "each is made for a request");
        watches.check_invariants(|ticket| pending.contains_key(&ticket));
    }
}

/// Answers a request that has ended.
fn end(
    account: &mut Account,
    later: &PendingRequest,
    outcome: ServiceOutcome,
    (bytes, out): (&[u8], &mut impl ReplySink),
) {
    let (cookie, (segment, offset)) = (later.cookie, later.place);
    debug_assert_ne!(outcome, ServiceOutcome::Later, "it has ended");
    let mut fail = |why, (segment, offset): (SegmentName, u64)| {
        if cookie == 0 {
            account.failed += 1;
            account.first_failure.get_or_insert((why, segment.to_bits(), offset));
        } else {
            let words = [cookie, why as u64, segment.to_bits(), offset];
            account.answer(out, tell::FAILED, &words, &[]);
        }
    };
    match outcome {
        ServiceOutcome::Refused(why) => fail(why, (segment, offset)),
        ServiceOutcome::RefusedAt(why, segment) => fail(why, (segment, 0)),
        _ if cookie == 0 => {}
        ServiceOutcome::Value(value) => account.answer(out, tell::VALUE, &[cookie, value], &[]),
        ServiceOutcome::Bytes => account.answer(out, tell::BYTES, &[cookie, 0], bytes),
        ServiceOutcome::Done | ServiceOutcome::Later => {
            account.answer(out, tell::DONE, &[cookie], &[]);
        }
    }
}

/// Returns true for the numbers of requests to services.
#[inline]
pub(super) fn is_served(handler: u8) -> bool {
    (FIRST_CODE..=LAST_CODE).contains(&handler)
}
