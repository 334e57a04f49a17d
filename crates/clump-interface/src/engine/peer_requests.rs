//! Requests of services to the interfaces of other nodes: those of one request, and those that
//! several requests share.
//!
//! A request that is forwarded has no answer as a rule, and its sender does not expect a refusal
//! for lack of room. It waits, and with it the later requests of its endpoint: the endpoint gets no
//! credit meanwhile, so waiting requests are bounded by the endpoints' credit. It waits for answers
//! of other interfaces, which forward nothing for it: they arrive, or their nodes are lost.

use super::request::ReplySink;
use crate::service::{Asked, JointPart, Ticket};
use clump_onesided::protocol::MAX_PIECE;
use clump_wire::SendResult;
use std::collections::{BTreeMap, HashMap};

/// Most requests to other interfaces under way.
const MAX_ASKS: usize = 256;
/// Requests to other interfaces that one request to forward may need. While fewer may be made, it
/// waits, with the later requests of its endpoint.
const FORWARD_ROOM: usize = 128;

/// A request to another interface.
#[derive(Debug)]
struct PeerRequest {
    /// Requests that it was made for, without those that have ended.
    tickets: Vec<Ticket>,
    node: u32,
    /// The request, while it has found no room.
    unsent: Option<Asked>,
}

/// A request to another interface that is being filled.
#[derive(Debug, Default)]
struct JointRequest {
    tickets: Vec<Ticket>,
    payload: Vec<u8>,
}

/// Node, request number and kind of a [`JointRequest`].
type JointKey = (u32, u8, u64);

/// The requests to other interfaces, until they are answered.
#[derive(Debug, Default)]
pub(super) struct PeerRequests {
    /// By cookie.
    all: HashMap<u64, PeerRequest>,
    /// Requests that are sent when this turn ends.
    joint: BTreeMap<JointKey, JointRequest>,
    cookies: u64,
    /// True if requests wait for room.
    unsent: bool,
    /// Requests to interfaces that are lost.
    lost: Vec<u64>,
    /// Parts that were sent together with an earlier one.
    joined: u64,
}

impl PeerRequests {
    /// Returns the number of requests that may still be made.
    pub(super) fn budget(&self) -> usize {
        debug_assert!(self.joint.values().all(|joint| !joint.payload.is_empty()), "being filled");
        MAX_ASKS.saturating_sub(self.all.len() + self.joint.len())
    }

    /// Returns true if fewer requests may be made than one request to forward may need.
    pub(super) fn is_forwarding_much(&self) -> bool {
        self.budget() < FORWARD_ROOM
    }

    /// Makes a request for another, and sends it if there is room.
    pub(super) fn ask(&mut self, ticket: Ticket, mut asked: Asked, out: &mut dyn ReplySink) {
        self.cookies += 1;
        debug_assert!(asked.words.len() >= 3, "segment, offset and cookie");
        if let Some(place) = asked.words.get_mut(2) {
            *place = self.cookies;
        }
        self.begin(vec![ticket], asked, out);
    }

    fn begin(&mut self, tickets: Vec<Ticket>, asked: Asked, out: &mut dyn ReplySink) {
        let (cookie, node) = (self.cookies, asked.node);
        debug_assert!(asked.payload.len() <= MAX_PIECE, "it is one message");
        let before = self.all.insert(cookie, PeerRequest { tickets, node, unsent: Some(asked) });
        debug_assert!(before.is_none(), "a cookie is of one request");
        self.send(cookie, out);
    }

    /// Sends a request, if there is room.
    fn send(&mut self, cookie: u64, out: &mut dyn ReplySink) {
        let Some(own) = self.all.get_mut(&cookie) else {
            clump_bug::bug!("what is sent was requested");
            return;
        };
        let Some(Asked { node, code, words, payload }) = &own.unsent else {
            clump_bug::bug!("a request is sent once");
            return;
        };
        debug_assert_eq!(words.get(2), Some(&cookie), "its answer carries its cookie");
        match out.ask(*node, *code, words, payload) {
            SendResult::Sent => own.unsent = None,
            SendResult::Full => self.unsent = true,
            SendResult::Refused(_) => {
                own.unsent = None;
                self.lost.push(cookie);
            }
        }
    }

    /// Returns true if requests wait for room.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent
    }

    /// Sends the requests that found no room.
    pub(super) fn send_again(&mut self, out: &mut dyn ReplySink) {
        self.unsent = false;
        let unsent = self.all.iter().filter(|(_, own)| own.unsent.is_some());
        let mut cookies: Vec<u64> = unsent.map(|(&cookie, _)| cookie).collect();
        cookies.sort_unstable();
        debug_assert!(cookies.last().is_none_or(|last| *last <= self.cookies), "they were begun");
        cookies.into_iter().for_each(|cookie| self.send(cookie, out));
    }

    /// Adds a part to the joint request to an interface.
    pub(super) fn join(&mut self, ticket: Ticket, part: JointPart, out: &mut dyn ReplySink) {
        let JointPart { node, code, kind, payload } = part;
        let key = (node, code, kind);
        debug_assert!(payload.len() <= MAX_PIECE, "a part fits into one request");
        let bytes = self.joint.get(&key).map_or(0, |joint| joint.payload.len());
        if bytes + payload.len() > MAX_PIECE {
            self.close_joint(key, out);
        }
        let joint = self.joint.entry(key).or_default();
        self.joined += u64::from(!joint.tickets.is_empty());
        joint.payload.extend_from_slice(&payload);
        debug_assert!(!joint.tickets.contains(&ticket), "a request has one part of each node");
        joint.tickets.push(ticket);
        debug_assert!(joint.payload.len() <= MAX_PIECE, "it is one request");
    }

    /// Sends the joint request to an interface.
    fn close_joint(&mut self, key: JointKey, out: &mut dyn ReplySink) {
        let Some(JointRequest { tickets, payload }) = self.joint.remove(&key) else { return };
        let (node, code, kind) = key;
        debug_assert!(!payload.is_empty(), "it was opened for a part");
        self.cookies += 1;
        let words = vec![0, 0, self.cookies, kind];
        self.begin(tickets, Asked { node, code, words, payload }, out);
    }

    /// Returns true if requests are being filled.
    #[inline]
    pub(super) fn has_joint(&self) -> bool {
        !self.joint.is_empty()
    }

    /// Sends all joint requests.
    pub(super) fn send_joint(&mut self, out: &mut dyn ReplySink) {
        let keys: Vec<JointKey> = self.joint.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close_joint(key, out));
        debug_assert!(self.joint.is_empty(), "all were sent");
    }

    /// Takes in the answer to a request. Returns its node, and the requests that it was made for;
    /// `None` if it was answered before.
    pub(super) fn take(&mut self, cookie: u64) -> Option<(u32, Vec<Ticket>)> {
        debug_assert!(self.lost.iter().all(|lost| *lost <= self.cookies), "they were begun");
        self.all.remove(&cookie).map(|own| (own.node, own.tickets))
    }

    /// Returns a request to an interface that is lost.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        self.lost.pop()
    }

    /// Returns true if requests are to interfaces that are lost.
    #[inline]
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Removes a request from the requests that were made for it. Those shared with others are
    /// still sent and answered.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        for own in self.all.values_mut() {
            own.tickets.retain(|other| *other != ticket);
        }
        for one in self.joint.values_mut() {
            one.tickets.retain(|other| *other != ticket);
        }
        // Sent requests are answered, and count until then.
        self.all.retain(|_, own| !own.tickets.is_empty() || own.unsent.is_none());
        debug_assert!(self.all.values().all(|own| !own.tickets.contains(&ticket)), "it is gone");
    }

    /// Returns the number of requests made, and of parts that were sent with an earlier one.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.cookies, self.joined]
    }

    /// Checks that each request is made for others that go on.
    pub(super) fn check_invariants(&self, is_pending: impl Fn(Ticket) -> bool) {
        debug_assert!(self.all.len() + self.joint.len() <= MAX_ASKS, "an interface asks little");
        let sent = self.all.values().flat_map(|own| &own.tickets);
        let joint = self.joint.values().flat_map(|joint| &joint.tickets);
        debug_assert!(sent.chain(joint).all(|ticket| is_pending(*ticket)), "made for a request");
    }
}
