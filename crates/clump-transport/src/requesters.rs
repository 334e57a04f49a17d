//! The endpoints of other nodes that have sent requests to one of this rank, and what is owed to
//! them: replies that found no room, and reports of the bytes consumed. Without input and output
//! of its own, so that the simulator runs it as it is.

use clump_proto::{Consumption, CreditPool, REQUEST_COST};
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage, SendResult};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The way of replies and reports to endpoints of other nodes.
pub trait ReplyOutlet {
    /// Sends a reply.
    fn reply(&mut self, reply: &Message<'_>) -> SendResult;

    /// Sends a reply without regard to limits.
    fn reply_anyway(&mut self, reply: &Message<'_>);

    /// Reports to the endpoint `to` the bytes of its requests that `from` has consumed,
    /// in all, and the credit that it grants; 0: as before.
    fn report(&mut self, from: u64, to: u64, consumed: [u64; 2]);

    /// Returns the bytes of requests that one endpoint may leave unconsumed at another.
    fn credit(&self) -> u64;
}

/// Decision about a message of another node.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// Nothing: it concerned flow control.
    Done,
    /// It is a reply, or a message of this endpoint that comes back: it is to be handled.
    Answer,
    /// It is a request and is to be handled; then [`Requester::note_consumed`] is to be called.
    Request(&'a mut Requester),
    /// It is a request, and has to wait: requests are held, or a reply to its sender waits for
    /// room.
    Wait,
}

/// Pool of credit of all endpoints of a rank.
pub type SharedPool = Arc<Mutex<CreditPool>>;

fn lock(pool: &SharedPool) -> MutexGuard<'_, CreditPool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requesters of one endpoint.
#[derive(Debug)]
pub struct Requesters {
    /// The endpoint.
    me: u64,
    all: Vec<Requester>,
    by_name: HashMap<u64, usize>,
    /// Credit that the rank can grant beyond that of every requester, to those of all its
    /// endpoints.
    pool: SharedPool,
    /// Index of the requester whose request came last: the next request is likely to be from it
    /// too.
    last: usize,
}

impl Requesters {
    /// Creates the requesters of the endpoint `me`, which get credit out of `pool`: none.
    pub fn new(me: u64, pool: SharedPool) -> Self {
        Self { me, all: Vec::new(), by_name: HashMap::new(), pool, last: 0 }
    }

    /// Decides about a message from another node. `hold`: requests are not to be handled now.
    #[inline]
    pub fn admit(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        message: &Message<'_>,
        hold: bool,
    ) -> Arrival<'_> {
        let from = message.route.from;
        match message.kind {
            FrameKind::Ask => {
                let word = |at: usize| message.words.get(at).copied();
                self.note_asked(outlet, from, word(0), word(1).unwrap_or(0));
                Arrival::Done
            }
            FrameKind::Credit | FrameKind::Part => Arrival::Done,
            FrameKind::Returned => Arrival::Answer,
            _ if message.reply => Arrival::Answer,
            _ => {
                let requester = self.of(from);
                if hold || requester.is_stuck() {
                    return Arrival::Wait;
                }
                Arrival::Request(requester)
            }
        }
    }

    /// Notes a credit request of the endpoint `from`: it asks for a report at that total, and for
    /// so much credit. If there is less, requesters that do nothing give theirs back.
    #[cold]
    fn note_asked(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        from: u64,
        total: Option<u64>,
        wanted: u64,
    ) {
        let (pool, credit) = (self.pool.clone(), outlet.credit());
        let mut pool = lock(&pool);
        let granted = self.of(from).account.granted().max(credit);
        if pool.lacks(wanted, granted) {
            for other in self.all.iter_mut().filter(|other| other.name != from) {
                other.account.give_back_unused(credit, &mut pool);
                other.report(outlet);
            }
        }
        let requester = self.of(from);
        requester.account.on_asked(total);
        requester.account.grant(credit, wanted, &mut pool);
        requester.report(outlet);
        debug_assert!(requester.account.granted() >= granted || granted == credit, "it grew");
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
        let Self { me, all, by_name, last, .. } = self;
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
        mut refused: impl FnMut(&Message<'_>),
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
        let mut pool = lock(&self.pool);
        for requester in &mut self.all {
            requester.close(outlet);
            requester.account.give_back(outlet.credit(), &mut pool);
        }
        drop(pool);
        debug_assert!(!self.is_stuck(), "a reply is kept that nobody will send");
    }

    /// Notes that a request with so many bytes of payload has come and is hidden until it is due,
    /// on a network that is slower on purpose: a longer path holds more, so credit grows with what
    /// is hidden, and no latency becomes a gap.
    pub fn note_hidden(&mut self, outlet: &mut impl ReplyOutlet, from: u64, payload: usize) {
        debug_assert!(from != self.me, "of another node");
        let pool = self.pool.clone();
        self.of(from).note_hidden(outlet, payload, &pool);
    }

    /// Checks relations that hold between calls.
    pub fn check_invariants(&self) {
        assert_eq!(self.all.len(), self.by_name.len(), "a requester is known twice");
        assert!(self.all.is_empty() || self.last < self.all.len(), "the last is none of them");
        for (name, &at) in &self.by_name {
            let requester = &self.all[at];
            assert_eq!((requester.me, requester.name), (self.me, *name));
            requester.account.check_invariants(None);
            let kept = requester.account.kept().len();
            assert!(kept <= 2, "a request was handled while a reply waited");
        }
    }
}

/// An endpoint of another node that has sent requests.
#[derive(Debug)]
pub struct Requester {
    me: u64,
    name: u64,
    /// Its requests that were handled, and replies that found no room.
    account: Consumption<OwnedMessage>,
    /// Bytes of its requests that are hidden until they are due.
    hidden: u64,
}

impl Requester {
    fn new(me: u64, name: u64) -> Self {
        Self { me, name, account: Consumption::default(), hidden: 0 }
    }

    /// Returns the name of the endpoint.
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Returns true if a reply waits for room; then no more requests of it are handled.
    pub fn is_stuck(&self) -> bool {
        self.account.is_stuck()
    }

    /// Sends a reply. [`SendResult::Full`]: there is no room, and it is kept and sent later.
    pub fn send(
        &mut self,
        outlet: &mut impl ReplyOutlet,
        head: (FrameKind, u8),
        words: &[u64],
        payload: &[u8],
    ) -> SendResult {
        let reply = Message::answer(head, (self.me, self.name), (words, payload));
        // A program may reply, and then return the request: the second stays behind the first.
        let pushed = if self.is_stuck() { SendResult::Full } else { outlet.reply(&reply) };
        if pushed == SendResult::Full {
            self.account.keep(reply.to_owned());
        }
        debug_assert!(
            (pushed == SendResult::Full) == self.is_stuck(),
            "{pushed:?}, and kept or not"
        );
        pushed
    }

    fn flush(&mut self, outlet: &mut impl ReplyOutlet, refused: &mut impl FnMut(&Message<'_>)) {
        self.account.flush(|kept| {
            let reply = kept.message();
            let result = outlet.reply(&reply);
            if matches!(result, SendResult::Refused(_)) {
                refused(&reply);
            }
            result != SendResult::Full
        });
    }

    /// Notes that a request with so many bytes of payload beside its words was handled, and reports
    /// it if a report is due.
    #[inline]
    pub fn note_consumed(&mut self, outlet: &mut impl ReplyOutlet, payload: usize) {
        self.account.on_consumed(payload);
        self.hidden = self.hidden.saturating_sub(REQUEST_COST + payload as u64);
        self.report(outlet);
    }

    /// Notes a hidden request. Credit is doubled while half of it is hidden: the other half is for
    /// the report, which comes a quarter late.
    #[cold]
    fn note_hidden(&mut self, outlet: &mut impl ReplyOutlet, payload: usize, pool: &SharedPool) {
        self.hidden += REQUEST_COST + payload as u64;
        let credit = outlet.credit();
        let now = credit.max(self.account.granted());
        debug_assert!(credit > 0, "without credit no request leaves");
        if self.hidden > now / 2 {
            self.account.grant(credit, 2 * now, &mut lock(pool));
            self.report(outlet);
        }
        debug_assert!(self.account.granted() <= 2 * now, "it is doubled at most");
    }

    /// Reports to the requester the bytes consumed, if a report is due.
    fn report(&mut self, outlet: &mut impl ReplyOutlet) {
        if let Some(total) = self.account.poll_report(outlet.credit()) {
            outlet.report(self.me, self.name, [total, self.account.granted()]);
        }
    }

    fn close(&mut self, outlet: &mut impl ReplyOutlet) {
        for kept in self.account.take_kept() {
            outlet.reply_anyway(&kept.message());
        }
        if let Some(total) = self.account.last_report() {
            outlet.report(self.me, self.name, [total, 0]);
        }
        debug_assert!(!self.is_stuck(), "nothing is kept any more");
    }
}

#[cfg(test)]
mod tests;
