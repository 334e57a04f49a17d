//! Endpoints of other nodes that have sent requests, and the replies and reports owed to them.

use crate::core::HandlerContext;
use clump_net::Pushed;
use clump_shm::name::Name;
use clump_transport::Reply;
use clump_wire::frame::FrameKind;
use std::collections::{HashMap, VecDeque};

/// Requesters on other nodes.
#[derive(Debug, Default)]
pub(super) struct Requesters {
    pub(super) all: Vec<Requester>,
    by_name: HashMap<u64, usize>,
    /// Index of the requester whose request came last: the next request is likely to be from it
    /// too.
    last: usize,
}

impl Requesters {
    /// Returns the requester of that name, new or known.
    #[inline]
    pub(super) fn of(&mut self, name: Name) -> &mut Requester {
        if self.all.get(self.last).is_none_or(|last| last.name != name) {
            self.find(name);
        }
        &mut self.all[self.last]
    }

    #[inline(never)]
    fn find(&mut self, name: Name) {
        let Self { all, by_name, last } = self;
        *last = *by_name.entry(name.to_bits()).or_insert_with(|| {
            all.push(Requester::new(name));
            all.len() - 1
        });
    }
}

/// An endpoint of another node that has sent requests.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) name: Name,
    /// Bytes of its requests that were handled, and how many of those were reported to it.
    pub(super) consumed: u64,
    pub(super) reported: u64,
    /// The total at which it asked for a report.
    pub(super) asked: Option<u64>,
    /// Replies that found no room.
    pub(super) stash: VecDeque<StashedReply>,
}

#[derive(Debug)]
pub(super) struct StashedReply {
    pub(super) kind: FrameKind,
    pub(super) handler: u8,
    pub(super) words: Vec<u64>,
    pub(super) payload: Vec<u8>,
}

impl StashedReply {
    /// Returns the reply as transports take it.
    pub(super) fn between(&self, from: u64, to: u64) -> Reply<'_> {
        let Self { kind, handler, words, payload } = self;
        Reply { kind: *kind, handler: *handler, from, to, words, payload }
    }
}

impl Requester {
    fn new(name: Name) -> Self {
        Self { name, consumed: 0, reported: 0, asked: None, stash: VecDeque::new() }
    }

    /// Returns true if a reply waits for room; then no more requests of it are handled.
    pub(super) fn is_stuck(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Sends a reply; stores it if there is no room. Returns which of these happened.
    pub(crate) fn answer(
        &mut self,
        handler_context: &HandlerContext,
        (kind, handler): (FrameKind, u8),
        words: &[u64],
        payload: &[u8],
    ) -> ReplyAttempt {
        let Some(network) = handler_context.context.network() else { return ReplyAttempt::Refused };
        let (from, to) = (handler_context.name.to_bits(), self.name.to_bits());
        let reply = Reply { kind, handler, from, to, words, payload };
        match network.reply(self.name.rank(), &reply) {
            Pushed::Accepted => ReplyAttempt::Sent,
            Pushed::Lost(_) => ReplyAttempt::Refused,
            Pushed::Full => {
                let (words, payload) = (words.to_vec(), payload.to_vec());
                self.stash.push_back(StashedReply { kind, handler, words, payload });
                ReplyAttempt::PutAside
            }
        }
    }

    /// Reports to the requester the bytes consumed, if a report is due.
    pub(super) fn report(&mut self, handler_context: &HandlerContext) {
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
}

/// Result of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyAttempt {
    Sent,
    PutAside,
    Refused,
}
