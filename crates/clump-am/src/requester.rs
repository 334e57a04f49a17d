//! Endpoints of other nodes that have sent requests, and the replies and reports owed to them.

use crate::handler_context::HandlerContext;
use crate::message::{KeptMessage, MessageKind, OutgoingMessage};
use crate::reason::Reason;
use crate::reply_queue::ReplyAttempt;
use clump_net::{Pushed, REQUEST_COST};
use clump_shm::name::Name;
use clump_trace::Role;
use clump_transport::{Network, Reply};
use std::collections::{HashMap, VecDeque};

/// Requesters on other nodes.
#[derive(Debug, Default)]
pub(crate) struct Requesters {
    pub(crate) all: Vec<Requester>,
    by_name: HashMap<u64, usize>,
    /// Index of the requester whose request came last: the next request is likely to be from it
    /// too.
    last: usize,
}

impl Requesters {
    /// Returns the requester of that name, new or known.
    #[inline]
    pub(crate) fn of(&mut self, name: Name) -> &mut Requester {
        if self.all.get(self.last).is_none_or(|last| last.name != name) {
            self.find(name);
        }
        debug_assert!(self.all[self.last].name == name, "another requester is taken for {name}");
        &mut self.all[self.last]
    }

    #[inline(never)]
    fn find(&mut self, name: Name) {
        let Self { all, by_name, last } = self;
        *last = *by_name.entry(name.to_bits()).or_insert_with(|| {
            all.push(Requester::new(name));
            all.len() - 1
        });
        debug_assert!(all.len() == by_name.len(), "a requester is known twice");
    }
}

/// An endpoint of another node that has sent requests.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) name: Name,
    /// Bytes of its requests that were handled, and how many of those were reported to it.
    consumed: u64,
    reported: u64,
    /// The total at which it asked for a report.
    asked: Option<u64>,
    /// Replies that found no room.
    stash: VecDeque<KeptMessage>,
}

impl Requester {
    fn new(name: Name) -> Self {
        Self { name, consumed: 0, reported: 0, asked: None, stash: VecDeque::new() }
    }

    /// Returns true if a reply waits for room; then no more requests of it are handled.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Sends a reply, or keeps it if there is no room.
    pub(crate) fn send(
        &mut self,
        handler_context: &HandlerContext,
        message: &OutgoingMessage<'_>,
    ) -> ReplyAttempt {
        let attempt = self.attempt(handler_context, message);
        if attempt == ReplyAttempt::PutAside {
            self.stash.push_back(message.to_kept());
        }
        attempt
    }

    fn attempt(
        &self,
        handler_context: &HandlerContext,
        message: &OutgoingMessage<'_>,
    ) -> ReplyAttempt {
        let refused = ReplyAttempt::Refused(Reason::ReplyRejected);
        let Some(network) = handler_context.context.network() else { return refused };
        let reply = reply_between(handler_context.name, self.name, message);
        match network.reply(self.name.rank(), &reply) {
            Pushed::Accepted => ReplyAttempt::Sent,
            Pushed::Lost(_) => refused,
            Pushed::Full => ReplyAttempt::PutAside,
        }
    }

    /// Sends kept replies as far as there is room. Those that the requester will never take go to
    /// handler 0 of this endpoint.
    pub(crate) fn flush(&mut self, handler_context: &mut HandlerContext) {
        while let Some(first) = self.stash.front() {
            let message = first.outgoing();
            match self.attempt(handler_context, &message) {
                ReplyAttempt::PutAside => return,
                ReplyAttempt::Sent => {}
                ReplyAttempt::Refused(_) if message.kind == MessageKind::Returned => {}
                ReplyAttempt::Refused(reason) => {
                    let why = (Role::Reply, reason);
                    handler_context.return_to_sender(self.name, why, &message);
                }
            }
            self.stash.pop_front();
        }
        debug_assert!(!self.is_stuck());
    }

    /// Notes that a request with so many bytes of payload was handled, and reports it if a report
    /// is due.
    pub(crate) fn note_consumed(&mut self, handler_context: &HandlerContext, payload: u64) {
        self.consumed += REQUEST_COST + payload;
        self.report(handler_context);
    }

    /// Notes a credit request: the requester wants a report at that total. Credit requests may
    /// overtake each other. The least is answered soonest: a requester that asked for more asks
    /// again after the answer.
    pub(crate) fn note_asked(&mut self, handler_context: &HandlerContext, total: Option<u64>) {
        self.asked = self.asked.into_iter().chain(total).min();
        self.report(handler_context);
    }

    /// Reports to the requester the bytes consumed, if a report is due.
    fn report(&mut self, handler_context: &HandlerContext) {
        debug_assert!(self.reported <= self.consumed, "more is reported than was consumed");
        let Some(network) = handler_context.context.network() else { return };
        let due = self.consumed - self.reported >= network.credit() / 4
            || self.asked.is_some_and(|asked| self.consumed >= asked);
        if due {
            self.reported = self.consumed;
            self.asked = None;
            let (me, to) = (handler_context.name.to_bits(), self.name.to_bits());
            network.report(self.name.rank(), me, to, self.consumed);
        }
    }

    /// Sends everything that is owed, without regard to limits: the endpoint `me` closes. A peer
    /// that waits for it to consume its requests gets no other report.
    pub(crate) fn close(&self, network: &Network, me: Name) {
        for kept in &self.stash {
            let reply = kept.outgoing();
            network.reply_anyway(self.name.rank(), &reply_between(me, self.name, &reply));
        }
        if self.consumed != self.reported {
            let (me, to) = (me.to_bits(), self.name.to_bits());
            network.report(self.name.rank(), me, to, self.consumed);
        }
    }
}

/// Returns a reply as transports take it.
fn reply_between<'a>(from: Name, to: Name, message: &OutgoingMessage<'a>) -> Reply<'a> {
    let &OutgoingMessage { kind, handler, words, payload } = message;
    let (from, to) = (from.to_bits(), to.to_bits());
    Reply { kind: kind.frame(), handler: handler.0, from, to, words, payload }
}
