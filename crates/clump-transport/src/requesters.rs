//! The endpoints of other nodes that have sent requests to one of this rank, and what is owed to
//! them: replies that found no room, and reports of the bytes consumed. Without input and output
//! of its own, so that the simulator runs it as it is.

use crate::transport::Reply;
use clump_net::{ArrivedMessage, Disposition, QueuedMessage, REQUEST_COST};
use clump_wire::frame::FrameKind;
use clump_wire::{Reason, SendResult};
use std::collections::{HashMap, VecDeque};

/// The way of replies and reports to endpoints of other nodes.
pub trait ReplyOutlet {
    /// Sends a reply.
    fn reply(&mut self, reply: &Reply<'_>) -> SendResult;

    /// Sends a reply without regard to limits.
    fn reply_anyway(&mut self, reply: &Reply<'_>);

    /// Reports to the endpoint `to` the bytes of its requests that `from` has consumed in all.
    fn report(&mut self, from: u64, to: u64, total: u64);

    /// Returns the bytes of requests that one endpoint may leave unconsumed at another.
    fn credit(&self) -> u64;
}

/// Decision about a message of another node.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// Nothing: it concerned flow control.
    Done,
    /// It is a message of this endpoint, of that kind, which will not arrive any more.
    Lost(FrameKind, Reason),
    /// It is a reply, or a message of this endpoint that comes back: it is to be handled.
    Answer(FrameKind),
    /// It is a request and is to be handled; then [`Requester::note_consumed`] is to be called.
    Request(FrameKind, &'a mut Requester),
    /// It is a request, and has to wait: requests are held, or a reply to its sender waits for
    /// room.
    Wait,
}

/// Requesters of one endpoint.
#[derive(Debug)]
pub struct Requesters {
    /// The endpoint.
    me: u64,
    all: Vec<Requester>,
    by_name: HashMap<u64, usize>,
    /// Index of the requester whose request came last: the next request is likely to be from it
    /// too.
    last: usize,
}

impl Requesters {
    /// Creates the requesters of the endpoint `me`: none.
    pub fn new(me: u64) -> Self {
        Self { me, all: Vec::new(), by_name: HashMap::new(), last: 0 }
    }

    /// Decides about a message from another node. `hold`: requests are not to be handled now.
    #[inline]
    pub fn admit(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        message: &ArrivedMessage<'_>,
        hold: bool,
    ) -> Arrival<'_> {
        let from = message.route.from;
        match message.sort {
            Disposition::Lost(kind, refusal) => Arrival::Lost(kind, refusal),
            Disposition::Message(FrameKind::Ask) => {
                let asked = message.words().first().copied();
                self.of(from).note_asked(outlet, asked);
                Arrival::Done
            }
            Disposition::Message(FrameKind::Credit | FrameKind::Part) => Arrival::Done,
            Disposition::Message(FrameKind::Returned) => Arrival::Answer(FrameKind::Returned),
            Disposition::Message(kind) if message.reply => Arrival::Answer(kind),
            Disposition::Message(kind) => {
                let requester = self.of(from);
                if hold || requester.is_stuck() {
                    return Arrival::Wait;
                }
                Arrival::Request(kind, requester)
            }
        }
    }

    /// Returns the requester of that name, new or known.
    #[inline]
    fn of(&mut self, name: u64) -> &mut Requester {
        if self.all.get(self.last).is_none_or(|last| last.name != name) {
            self.find(name);
        }
        debug_assert!(self.all[self.last].name == name, "another requester is taken for {name:x}");
        &mut self.all[self.last]
    }

    #[inline(never)]
    fn find(&mut self, name: u64) {
        let Self { me, all, by_name, last } = self;
        *last = *by_name.entry(name).or_insert_with(|| {
            all.push(Requester::new(*me, name));
            all.len() - 1
        });
        debug_assert!(all.len() == by_name.len(), "a requester is known twice");
    }

    /// Returns true if replies wait for room.
    pub fn is_stuck(&self) -> bool {
        self.all.iter().any(Requester::is_stuck)
    }

    /// Sends kept replies as far as there is room, and shows to `refused` those that the requester
    /// will never take. Returns the number of requesters whose replies still wait.
    pub fn flush(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        mut refused: impl FnMut(&Reply<'_>),
    ) -> usize {
        let mut stuck = 0;
        for requester in &mut self.all {
            debug_assert!(requester.me == self.me, "another endpoint's requester");
            requester.flush(outlet, &mut refused);
            stuck += usize::from(requester.is_stuck());
        }
        debug_assert!((stuck > 0) == self.is_stuck());
        stuck
    }

    /// Sends everything that is owed, without regard to limits, because the endpoint closes. A peer
    /// that waits for it to consume its requests gets no other report.
    pub fn close(&mut self, outlet: &mut impl ReplyOutlet) {
        for requester in &mut self.all {
            requester.close(outlet);
        }
        debug_assert!(!self.is_stuck(), "a reply is kept that nobody will send");
    }

    /// Checks relations that hold between calls.
    pub fn check_invariants(&self) {
        assert_eq!(self.all.len(), self.by_name.len(), "a requester is known twice");
        assert!(self.all.is_empty() || self.last < self.all.len(), "the last is none of them");
        for (name, &at) in &self.by_name {
            let requester = &self.all[at];
            assert_eq!((requester.me, requester.name), (self.me, *name));
            assert!(requester.reported <= requester.consumed, "more is reported than consumed");
            assert!(requester.kept.len() <= 2, "a request was handled while a reply waited");
        }
    }
}

/// Returns true if a message that waits is another endpoint's request.
pub fn is_request(queued: &QueuedMessage) -> bool {
    use FrameKind::{Long, Medium, Short};
    matches!(queued.sort, Disposition::Message(Short | Medium | Long)) && !queued.reply
}

/// An endpoint of another node that has sent requests.
#[derive(Debug)]
pub struct Requester {
    me: u64,
    name: u64,
    /// Bytes of its requests that were handled, and how many of those were reported to it.
    consumed: u64,
    reported: u64,
    /// The total at which it asked for a report.
    asked: Option<u64>,
    /// Replies that found no room.
    kept: VecDeque<KeptReply>,
}

/// A reply that waits for room.
#[derive(Debug)]
struct KeptReply {
    kind: FrameKind,
    handler: u8,
    words: Vec<u64>,
    payload: Vec<u8>,
}

impl Requester {
    fn new(me: u64, name: u64) -> Self {
        Self { me, name, consumed: 0, reported: 0, asked: None, kept: VecDeque::new() }
    }

    /// Returns the name of the endpoint.
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Returns true if a reply waits for room; then no more requests of it are handled.
    pub fn is_stuck(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Sends a reply. [`SendResult::Full`]: there is no room, and it is kept and sent later.
    pub fn send(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        (kind, handler): (FrameKind, u8),
        words: &[u64],
        payload: &[u8],
    ) -> SendResult {
        let (from, to) = (self.me, self.name);
        // A program may reply, and then return the request: the second stays behind the first.
        let pushed = match self.is_stuck() {
            true => SendResult::Full,
            false => outlet.reply(&Reply { kind, handler, from, to, words, payload }),
        };
        if pushed == SendResult::Full {
            let (words, payload) = (words.to_vec(), payload.to_vec());
            self.kept.push_back(KeptReply { kind, handler, words, payload });
        }
        debug_assert!(
            (pushed == SendResult::Full) == self.is_stuck(),
            "{pushed:?}, and kept or not"
        );
        pushed
    }

    fn flush(&mut self, outlet: &mut impl ReplyOutlet, refused: &mut impl FnMut(&Reply<'_>)) {
        while let Some(first) = self.kept.front() {
            let reply = first.reply(self.me, self.name);
            match outlet.reply(&reply) {
                SendResult::Full => return,
                SendResult::Sent => {}
                SendResult::Refused(_) => refused(&reply),
            }
            self.kept.pop_front();
        }
        debug_assert!(!self.is_stuck());
    }

    /// Notes that a request with so many bytes of payload beside its words was handled, and reports
    /// it if a report is due.
    #[inline]
    pub fn note_consumed(&mut self, outlet: &mut impl ReplyOutlet, payload: usize) {
        self.consumed += REQUEST_COST + payload as u64;
        self.report(outlet);
        debug_assert!(self.consumed > 0 && self.reported <= self.consumed);
    }

    /// Notes a credit request: the requester wants a report at that total. Credit requests may
    /// overtake each other. The least is answered soonest: a requester that asked for more asks
    /// again after the answer.
    fn note_asked(&mut self, outlet: &mut impl ReplyOutlet, total: Option<u64>) {
        self.asked = self.asked.into_iter().chain(total).min();
        self.report(outlet);
    }

    /// Reports to the requester the bytes consumed, if a report is due.
    fn report(&mut self, outlet: &mut impl ReplyOutlet) {
        debug_assert!(self.reported <= self.consumed, "more is reported than was consumed");
        let due = self.consumed - self.reported >= outlet.credit() / 4
            || self.asked.is_some_and(|asked| self.consumed >= asked);
        if due {
            self.reported = self.consumed;
            self.asked = None;
            outlet.report(self.me, self.name, self.consumed);
        }
        debug_assert!(self.asked.is_none_or(|asked| asked > self.consumed), "asked in vain");
    }

    fn close(&mut self, outlet: &mut impl ReplyOutlet) {
        for kept in self.kept.drain(..) {
            outlet.reply_anyway(&kept.reply(self.me, self.name));
        }
        if self.consumed != self.reported {
            self.reported = self.consumed;
            outlet.report(self.me, self.name, self.consumed);
        }
        debug_assert!(self.reported == self.consumed, "the requester waits for a report");
    }
}

impl KeptReply {
    fn reply(&self, from: u64, to: u64) -> Reply<'_> {
        let Self { kind, handler, words, payload } = self;
        Reply { kind: *kind, handler: *handler, from, to, words, payload }
    }
}

#[cfg(test)]
mod tests;
