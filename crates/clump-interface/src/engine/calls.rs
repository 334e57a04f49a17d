//! Calls of services: requests begun, continued, ended and cancelled, with the words they watch and
//! the requests they made.

use super::accounts::Accounts;
use super::execution_context::ExecutionContext;
use super::peer_requests::PeerRequests;
use super::pending_request::{MAX_LATER, PendingRequest};
use super::request::{ReplySink, Request};
use super::watches::Watches;
use crate::service::{
    ServiceContext, ServiceEffects, ServiceMessage, ServiceOutcome, ServiceRequest, Services,
    Ticket, Wakeup,
};
use clump_onesided::Refusal;
use clump_onesided::protocol::{MAX_PIECE, ask, atomic_of, code, tell};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_wire::SendResult;
use std::collections::BTreeMap;

/// Reason of a step of a service.
enum Step<'a> {
    Begin(&'a ServiceRequest<'a>),
    Go(Wakeup<'a>),
}

/// Services of an engine, and the requests to them that end later.
#[derive(Debug, Default)]
pub(super) struct Calls {
    services: Services,
    tickets: Ticket,
    pending: BTreeMap<Ticket, PendingRequest>,
    watches: Watches,
    peers: PeerRequests,
    effects: ServiceEffects,
    /// True if a service has made a step since its messages were sent.
    stepped: bool,
    /// Message that found no room.
    kept: Option<ServiceMessage>,
    /// Requests begun, those that ended later among them.
    begun: u64,
    later: u64,
}

impl Calls {
    /// Creates the calls of these services.
    pub(super) fn new(services: Services) -> Self {
        Self { services, ..Self::default() }
    }

    /// Executes a request to a service. Returns its state.
    pub(super) fn begin(
        &mut self,
        account: usize,
        request: &Request<'_>,
        on: &mut ExecutionContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        self.begun += 1;
        let service = self.services.which(request.handler).ok_or(Refusal::Unknown)?;
        let split = request.words.split_first_chunk().ok_or(Refusal::Unknown)?;
        let (&[segment, offset, cookie], words) = split;
        let place = (SegmentName::from_bits(segment), offset);
        let limited = !request.is_forwarded();
        if limited && on.accounts[account].pending >= MAX_LATER || self.services.is_full(service) {
            return Err(Refusal::Overloaded);
        }
        self.tickets += 1;
        let (ticket, from) = (self.tickets, request.from);
        let of_service = ServiceRequest {
            from,
            code: request.handler,
            segment: place.0,
            offset,
            answered: cookie != 0,
            words,
            payload: request.payload,
        };
        // Requests of interfaces make no further requests.
        let budget = if from.rank() < on.ranks { self.peers.budget() } else { 0 };
        let outcome = self.step(service, (ticket, budget), &Step::Begin(&of_service), on);
        if outcome != ServiceOutcome::Later {
            self.effects.watch = None;
            let ServiceEffects { asked, joint, .. } = &mut self.effects;
            debug_assert!(asked.is_empty() && joint.is_empty(), "an ended request makes none");
            asked.clear();
            joint.clear();
            return Ok(outcome);
        }
        on.accounts[account].pending += u32::from(limited);
        self.later += 1;
        let asks = self.apply_effects(ticket, on);
        let pending = PendingRequest { account, from, cookie, service, place, asks, limited };
        self.pending.insert(ticket, pending);
        if cookie == 0 && asks == 0 {
            // One that waits for nothing ends now: it cannot be cancelled.
            self.watches.due.push(ticket);
        }
        Ok(ServiceOutcome::Later)
    }

    /// Returns true if a request cannot be forwarded now.
    #[inline]
    pub(super) fn delays(&self, request: &Request<'_>, ranks: u32) -> bool {
        request.is_forwarded() && request.from.rank() < ranks && self.is_forwarding_much()
    }

    /// Returns true if no further request can be forwarded now.
    pub(super) fn is_forwarding_much(&self) -> bool {
        let full =
            self.services.which(code::SPREAD).is_some_and(|which| self.services.is_full(which));
        full || self.peers.is_forwarding_much()
    }

    /// Runs a step of a service.
    fn step(
        &mut self,
        which: usize,
        (ticket, budget): (u64, usize),
        step: &Step<'_>,
        on: &mut ExecutionContext<'_>,
    ) -> ServiceOutcome {
        let Some(service) = self.services.list.get_mut(which) else {
            clump_bug::bug!("request numbers lead to services");
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        on.bytes.clear();
        self.stepped = true;
        let (memory, bytes, effects) = (&mut *on.memory, &mut *on.bytes, &mut self.effects);
        let mut context = ServiceContext { memory, ticket, bytes, effects, budget };
        let outcome = match step {
            Step::Begin(request) => service.handle(request, &mut context),
            Step::Go(why) => service.resume(ticket, *why, &mut context),
        };
        self.touch_changed();
        if outcome == ServiceOutcome::Bytes && on.bytes.len() > MAX_PIECE {
            clump_bug::bug!("an answer fits into one message");
            return ServiceOutcome::Refused(Refusal::Overloaded);
        }
        outcome
    }

    /// Applies the effects of the first step of a request that ends later. Returns the number of
    /// requests to other interfaces that it made.
    fn apply_effects(&mut self, ticket: Ticket, on: &mut ExecutionContext<'_>) -> u32 {
        debug_assert!(!self.pending.contains_key(&ticket), "it has just begun");
        if let Some((segment, offset)) = self.effects.watch.take() {
            if let Some(bit) = self.watches.insert(ticket, segment, offset) {
                on.memory.watch(bit, true);
            }
            // It may have changed before it was watched.
            self.watches.due.push(ticket);
        }
        let mut asks = 0;
        for asked in std::mem::take(&mut self.effects.asked) {
            self.peers.ask(ticket, asked, on.out);
            asks += 1;
        }
        for part in std::mem::take(&mut self.effects.joint) {
            self.peers.join(ticket, part, on.out);
            asks += 1;
        }
        asks
    }

    /// Takes in calls of ranks of this node: bits, as
    /// [`clump_shm::rank::RankBlock::take_called`] returns them.
    pub(super) fn handle_calls(&mut self, calls: u64, on: &mut ExecutionContext<'_>) {
        self.stepped = true;
        for service in &mut self.services.list {
            on.bytes.clear();
            let (memory, bytes, effects) = (&mut *on.memory, &mut *on.bytes, &mut self.effects);
            let (ticket, budget) = (0, 0);
            let mut context = ServiceContext { memory, ticket, bytes, effects, budget };
            service.handle_calls(calls, &mut context);
        }
        let ServiceEffects { asked, joint, .. } = &self.effects;
        debug_assert!(asked.is_empty() && joint.is_empty(), "a call asks by messages");
        self.effects.watch = None;
        self.touch_changed();
        self.resume_due(on);
    }

    /// Sends the joint requests to other interfaces. Returns false if there are none.
    #[inline]
    pub(super) fn send_joint(&mut self, on: &mut ExecutionContext<'_>) -> bool {
        let filled = self.peers.has_joint();
        if filled {
            self.peers.send_joint(on.out);
            self.resume_due(on);
        }
        filled
    }

    /// Sends the services' messages to other interfaces, as far as there is room.
    pub(super) fn send_messages(&mut self, out: &mut impl ReplySink) {
        if !self.stepped && self.kept.is_none() {
            return;
        }
        let Self { services, kept, stepped, .. } = self;
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
        debug_assert!(self.kept.is_none(), "everything was sent");
    }

    /// Returns true if requests or messages to other interfaces wait for room.
    #[inline]
    pub(super) fn wants_room(&self) -> bool {
        self.peers.has_unsent() || self.kept.is_some()
    }

    /// Sends requests to other interfaces that found no room. Returns false if there are none.
    pub(super) fn send_unsent(&mut self, on: &mut ExecutionContext<'_>) -> bool {
        let unsent = self.peers.has_unsent();
        if unsent {
            self.peers.send_again(on.out);
            self.resume_due(on);
        }
        unsent
    }

    /// Takes in the answer of another interface to a request of this one.
    pub(super) fn handle_answer(
        &mut self,
        cookie: u64,
        answer: Result<&[u8], Refusal>,
        on: &mut ExecutionContext<'_>,
    ) {
        self.take_answer(cookie, answer, on);
        self.resume_due(on);
    }

    fn take_answer(
        &mut self,
        cookie: u64,
        answer: Result<&[u8], Refusal>,
        on: &mut ExecutionContext<'_>,
    ) {
        let Some((node, tickets)) = self.peers.take(cookie) else { return };
        // Requesters may have left.
        for ticket in tickets {
            let Some(pending) = self.pending.get_mut(&ticket) else {
                clump_bug::bug!("requests end with the one that made them");
                continue;
            };
            debug_assert!(pending.asks > 0, "each answer is of one request");
            pending.asks -= 1;
            let (service, why) = (pending.service, Wakeup::Answered(node, answer));
            let outcome = self.step(service, (ticket, 0), &Step::Go(why), on);
            self.conclude(ticket, outcome, on);
        }
    }

    /// Resumes requests whose watched words may have changed, or whose nodes are lost.
    fn resume_due(&mut self, on: &mut ExecutionContext<'_>) {
        while let Some(cookie) = self.peers.next_lost() {
            self.take_answer(cookie, Err(Refusal::NodeLost), on);
        }
        while let Some(ticket) = self.watches.due.pop() {
            let Some(pending) = self.pending.get(&ticket) else { continue };
            let step = Step::Go(Wakeup::Changed);
            let outcome = self.step(pending.service, (ticket, 0), &step, on);
            self.conclude(ticket, outcome, on);
        }
        debug_assert!(self.watches.due.is_empty(), "all that were due were resumed");
    }

    /// Ends a request, unless it continues.
    fn conclude(&mut self, ticket: Ticket, outcome: ServiceOutcome, on: &mut ExecutionContext<'_>) {
        self.effects.watch = None;
        let Some(&pending) = self.pending.get(&ticket) else {
            clump_bug::bug!("a step is of a request that goes on");
            return;
        };
        let mut outcome = outcome;
        if outcome == ServiceOutcome::Later {
            if pending.cookie != 0 || pending.asks > 0 {
                return;
            }
            // It cannot be cancelled, and `quiet` would wait for ever.
            self.forget(ticket, &pending);
            outcome = ServiceOutcome::Refused(Refusal::Overloaded);
        }
        self.remove(ticket, on);
        pending.answer(outcome, on);
        if pending.cookie == 0 {
            on.accounts.on_ended_later(pending.account);
        }
    }

    /// Removes a request that has ended, its watch, and the requests it made.
    fn remove(&mut self, ticket: Ticket, on: &mut ExecutionContext<'_>) {
        let Some(pending) = self.pending.remove(&ticket) else {
            clump_bug::bug!("a request ends once");
            return;
        };
        if let Some(bit) = self.watches.remove(ticket) {
            on.memory.watch(bit, false);
        }
        if pending.asks > 0 {
            self.peers.forget(ticket);
        }
        if pending.limited {
            let account = &mut on.accounts[pending.account];
            debug_assert!(account.pending > 0, "each is counted at its account");
            account.pending = account.pending.saturating_sub(1);
        }
    }

    fn forget(&mut self, ticket: Ticket, pending: &PendingRequest) {
        debug_assert!(self.pending.contains_key(&ticket), "it has not ended");
        if let Some(service) = self.services.list.get_mut(pending.service) {
            service.forget(ticket);
        }
    }

    /// Ends a request whose requester does not wait any more. Returns false if there is none.
    pub(super) fn cancel(
        &mut self,
        account: usize,
        cookie: u64,
        on: &mut ExecutionContext<'_>,
    ) -> bool {
        let is_it = |one: &PendingRequest| (one.account, one.cookie) == (account, cookie);
        let found = self.pending.iter().find(|(_, pending)| is_it(pending));
        let Some((&ticket, &pending)) = found.filter(|_| cookie != 0) else { return false };
        debug_assert_eq!(pending.from, on.accounts[account].name, "only its requester cancels it");
        self.forget(ticket, &pending);
        self.remove(ticket, on);
        let (segment, offset) = pending.place;
        let words = [cookie, Refusal::TimedOut as u64, segment.to_bits(), offset];
        on.answer(account, tell::FAILED, &words);
        true
    }

    /// Gives up the requests of closed endpoints.
    pub(super) fn abandon(&mut self, gone: impl Fn(Name) -> bool, on: &mut ExecutionContext<'_>) {
        let of_them = self.pending.iter().filter(|(_, pending)| gone(pending.from));
        let all: Vec<_> = of_them.map(|(&ticket, &pending)| (ticket, pending)).collect();
        for (ticket, pending) in all {
            self.forget(ticket, &pending);
            self.remove(ticket, on);
        }
        let left = self.pending.values().any(|pending| gone(pending.from));
        debug_assert!(!left, "all are gone");
    }

    /// Drops what services keep for a rank that is lost or has finalized.
    pub(super) fn rank_gone(&mut self, rank: u32) {
        self.services.list.iter_mut().for_each(|service| service.rank_gone(rank));
    }

    /// Resumes requests that watch words of the bits `changed`, as
    /// [`clump_shm::rank::RankBlock::take_changed`] returns them.
    pub(super) fn handle_changes(&mut self, changed: u64, on: &mut ExecutionContext<'_>) {
        self.watches.mark(changed);
        self.resume_due(on);
    }

    /// Returns true if the effects of a request may concern others.
    #[inline]
    pub(super) fn concerns_others(&self) -> bool {
        let Self { watches, peers, .. } = self;
        !watches.is_empty() || !watches.due.is_empty() || peers.has_lost()
    }

    /// Returns true if words are watched.
    #[inline]
    pub(super) fn has_watches(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Marks the watched words that services have changed.
    fn touch_changed(&mut self) {
        let Self { effects, watches, .. } = self;
        if !watches.is_empty() {
            for (segment, offset, bytes) in &effects.changed {
                watches.touch(*segment, *offset, *bytes);
            }
        }
        effects.changed.clear();
    }

    /// Resumes requests that watch words which `request`, executed just now, may have changed.
    #[cold]
    pub(super) fn note_changes(&mut self, request: &Request<'_>, on: &mut ExecutionContext<'_>) {
        let Request { handler, words, payload, deposited, .. } = *request;
        debug_assert_eq!(handler & ask::AFTER, 0, "what it waited for was executed");
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
                self.watches.touch(name, offset, bytes);
            }
            if let (ask::PUT | ask::PUT_LONG, &[_, segment, offset, _, _]) = (handler, rest) {
                self.watches.touch(SegmentName::from_bits(segment), offset, 8);
            }
        }
        self.resume_due(on);
    }

    /// Returns the number of requests begun, ended later, made, and joined.
    pub(super) fn counts(&self) -> [u64; 4] {
        let [asked, joined] = self.peers.counts();
        debug_assert!(self.later <= self.begun, "only services answer later");
        [self.begun, self.later, asked, joined]
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.services.memory_bytes()
    }

    /// Checks that each later request is of its account, and counted there.
    pub(super) fn check_invariants(&self, accounts: &Accounts) {
        for pending in self.pending.values() {
            let PendingRequest { account, from, cookie, asks, .. } = *pending;
            debug_assert!(account < accounts.len(), "a request has an account");
            let name = accounts[account].name;
            debug_assert_eq!(name, from, "the account of a request is that of its endpoint");
            debug_assert!(cookie != 0 || asks > 0, "it ends by itself, or is cancelled");
        }
        let limited = self.pending.values().filter(|pending| pending.limited).count();
        debug_assert_eq!(accounts.pending(), limited, "each is counted at its account");
        let is_pending = |ticket: Ticket| self.pending.contains_key(&ticket);
        self.peers.check_invariants(is_pending);
        self.watches.check_invariants(is_pending);
    }
}
