//! Requests to other interfaces that several requests share, and requests that wait until less is
//! being forwarded.
//!
//! A request that is forwarded has no answer as a rule, and its sender does not expect a refusal
//! for lack of room. It waits, and with it the later requests of its endpoint: the endpoint gets no
//! credit meanwhile, so waiting requests are bounded by the endpoints' credit. It waits for answers
//! of other interfaces, which forward nothing for it: they arrive, or their nodes are lost.

use super::account::Kept;
use super::pending_request::{FORWARD_ROOM, JointAsk, JointKey, MAX_ASKS, OwnAsk, ServiceState};
use super::{Engine, ReplySink, Request};
use crate::memory::Memory;
use crate::service::{JointPart, Ticket};
use clump_onesided::protocol::{MAX_PIECE, code};

/// Returns true for numbers of requests that are forwarded in parts to other interfaces.
#[inline]
pub(super) fn is_forwarded(handler: u8) -> bool {
    handler == code::SPREAD
}

impl ServiceState {
    /// Returns the number of requests to other interfaces under way, those being filled included.
    pub(super) fn under_way(&self) -> usize {
        debug_assert!(self.joint.values().all(|joint| !joint.payload.is_empty()), "being filled");
        self.asks.len() + self.joint.len()
    }
}

impl<M: Memory> Engine<M> {
    /// Keeps a request that cannot be forwarded now, and returns true.
    #[inline]
    pub(super) fn delays(&mut self, at: usize, request: &Request<'_>) -> bool {
        is_forwarded(request.handler)
            && request.from.rank() < self.ranks
            && self.is_forwarding_much(request.handler)
            && self.delay(at, request)
    }

    fn is_forwarding_much(&self, handler: u8) -> bool {
        debug_assert!(is_forwarded(handler), "others are refused where there is no room");
        let which = self.service_state.services.which(handler);
        let full = which.is_some_and(|which| self.is_full(which));
        full || self.service_state.under_way() + FORWARD_ROOM > MAX_ASKS
    }

    #[cold]
    fn delay(&mut self, at: usize, request: &Request<'_>) -> bool {
        debug_assert!(self.service_state.under_way() > 0, "something ends, and makes room");
        self.counts.delayed += 1;
        self.accounts[at].delay(Kept::of(request));
        self.stuck = true;
        true
    }

    /// Lets an account's requests go on, if its first can be forwarded now.
    #[inline]
    pub(super) fn end_delay(&mut self, at: usize) {
        if self.accounts[at].delayed && !self.is_forwarding_much(code::SPREAD) {
            debug_assert!(!self.accounts[at].later.is_empty(), "the first of them is delayed");
            self.accounts[at].delayed = false;
        }
    }

    /// Adds a part to the joint request to an interface.
    pub(super) fn join(&mut self, ticket: Ticket, part: JointPart, out: &mut impl ReplySink) {
        let JointPart { node, code, kind, payload } = part;
        let key = (node, code, kind);
        debug_assert!(payload.len() <= MAX_PIECE, "a part fits into one request");
        let bytes = self.service_state.joint.get(&key).map_or(0, |joint| joint.payload.len());
        if bytes + payload.len() > MAX_PIECE {
            self.close_joint(key, out);
        }
        let joint = self.service_state.joint.entry(key).or_default();
        self.counts.joined += u64::from(!joint.tickets.is_empty());
        joint.payload.extend_from_slice(&payload);
        debug_assert!(!joint.tickets.contains(&ticket), "a request has one part of each node");
        joint.tickets.push(ticket);
        debug_assert!(joint.payload.len() <= MAX_PIECE, "it is one request");
        if let Some(later) = self.service_state.pending.get_mut(&ticket) {
            later.asks += 1;
        }
    }

    /// Sends the joint request to an interface.
    fn close_joint(&mut self, key: JointKey, out: &mut impl ReplySink) {
        let Some(JointAsk { tickets, payload }) = self.service_state.joint.remove(&key) else {
            return;
        };
        let (node, code, kind) = key;
        debug_assert!(payload.len() <= MAX_PIECE, "it is one request");
        debug_assert!(!payload.is_empty(), "it was opened for a part");
        self.service_state.own_cookies += 1;
        self.counts.asked += 1;
        let cookie = self.service_state.own_cookies;
        let unsent = Some((code, vec![0, 0, cookie, kind], payload));
        self.service_state.asks.insert(cookie, OwnAsk { tickets, node, unsent });
        self.send_own(cookie, out);
    }

    /// Sends all joint requests.
    pub(super) fn send_joint(&mut self, out: &mut impl ReplySink) {
        if self.service_state.joint.is_empty() {
            return;
        }
        let keys: Vec<JointKey> = self.service_state.joint.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close_joint(key, out));
        self.fire(out);
        self.release_moved(out);
        debug_assert!(
            self.service_state.joint.is_empty(),
            "what was released waits for the next turn"
        );
    }

    /// Removes a request from the requests that were made for it. Those shared with others are
    /// still sent and answered.
    pub(super) fn drop_asks(&mut self, ticket: Ticket) {
        let ServiceState { asks, joint, .. } = &mut self.service_state;
        for own in asks.values_mut() {
            own.tickets.retain(|other| *other != ticket);
        }
        for one in joint.values_mut() {
            one.tickets.retain(|other| *other != ticket);
        }
        // Sent requests are answered, and count until then.
        asks.retain(|_, own| !own.tickets.is_empty() || own.unsent.is_none());
        debug_assert!(asks.values().all(|own| !own.tickets.contains(&ticket)), "it is gone");
    }
}
