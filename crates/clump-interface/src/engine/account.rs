//! An engine's record of an endpoint that sends it requests.

use super::request::ReplySink;
use clump_onesided::Refusal;
use clump_onesided::protocol::tell;
use clump_proto::Consumption;
use clump_shm::name::Name;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage};
use std::collections::{BTreeMap, VecDeque};

/// Requests, answers and counts of one requesting endpoint.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: Name,
    /// Requests executed, refused ones included.
    pub(super) executed: u64,
    /// Number of refused requests without an answer, and the first of them since the last report.
    failed: u64,
    first_failure: Option<(Refusal, u64, u64)>,
    /// Bytes of requests executed, and answers that found no room.
    consumption: Consumption<OwnedMessage>,
    /// Requests that wait for others of this endpoint, by the number of those, in arrival order.
    held: BTreeMap<(u64, u64), OwnedMessage>,
    holds: u64,
    /// Requests that arrived while answers waited, or behind one that cannot be forwarded now.
    pub(super) later: VecDeque<OwnedMessage>,
    /// True if the first of those cannot be forwarded now.
    delayed: bool,
    /// Requests to services that end later.
    pub(super) pending: u32,
}

impl Account {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            executed: 0,
            failed: 0,
            first_failure: None,
            consumption: Consumption::default(),
            held: BTreeMap::new(),
            holds: 0,
            later: VecDeque::new(),
            delayed: false,
            pending: 0,
        }
    }

    /// Returns true if answers wait for room.
    #[inline]
    pub(super) fn is_stuck(&self) -> bool {
        self.consumption.is_stuck()
    }

    /// Returns true if its requests are kept: answers wait for room, or the first cannot be
    /// forwarded now.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.is_stuck() || self.delayed
    }

    /// Records a refusal that the next quiet reports.
    pub(super) fn fail(&mut self, refused: (Refusal, u64, u64)) {
        self.failed += 1;
        self.first_failure.get_or_insert(refused);
    }

    /// Returns true if refusals have not been reported.
    pub(super) fn has_failed(&self) -> bool {
        self.first_failure.is_some()
    }

    /// Returns the words of a quiet answer behind its cookie, and forgets the first refusal.
    pub(super) fn take_progress(&mut self) -> [u64; 5] {
        debug_assert!(self.first_failure.is_none() || self.failed > 0, "failures are counted");
        let first = self.first_failure.take();
        let (why, segment, offset) = first.unwrap_or((Refusal::Unknown, 0, 0));
        [self.executed, self.failed, why as u64, segment, offset]
    }

    /// Returns the next request that arrived behind others, unless it has to wait.
    pub(super) fn next_later(&mut self) -> Option<OwnedMessage> {
        debug_assert!(!self.delayed || !self.later.is_empty(), "the first of them is delayed");
        if self.is_blocked() { None } else { self.later.pop_front() }
    }

    /// Lets its requests go on: the first can be forwarded now.
    pub(super) fn end_delay(&mut self) {
        debug_assert!(!self.delayed || !self.later.is_empty(), "the first of them is delayed");
        self.delayed = false;
    }

    /// Keeps a request that cannot be forwarded now, before those that came behind it.
    pub(super) fn delay(&mut self, kept: OwnedMessage) {
        debug_assert!(!self.delayed, "behind it nothing is executed");
        self.later.push_front(kept);
        self.delayed = true;
        debug_assert!(self.is_blocked(), "what comes behind it is kept");
    }

    pub(super) fn hold(&mut self, after: u64, kept: OwnedMessage) {
        debug_assert!(after > self.executed, "a request is held behind others only");
        self.holds += 1;
        self.held.insert((after, self.holds), kept);
    }

    /// Removes and returns a request whose predecessors have been executed, unless answers wait.
    #[inline]
    pub(super) fn next_held(&mut self) -> Option<OwnedMessage> {
        if self.held.is_empty() || self.is_blocked() {
            return None;
        }
        let first = self.held.first_entry()?;
        debug_assert!(first.key().1 <= self.holds, "it was held before");
        if first.key().0 <= self.executed { Some(first.remove()) } else { None }
    }

    /// Returns an answer of the engine of that name to this endpoint.
    #[inline]
    fn message<'a>(
        &self,
        engine: Name,
        (handler, words): (u8, &'a [u64]),
        payload: &'a [u8],
    ) -> Message<'a> {
        debug_assert!(!words.is_empty(), "answers begin with the cookie");
        let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
        let names = (engine.to_bits(), self.name.to_bits());
        Message::answer((kind, handler), names, (words, payload))
    }

    /// Sends an answer of the engine of that name, or keeps it until there is room.
    #[inline]
    pub(super) fn answer(
        &mut self,
        engine: Name,
        out: &mut (impl ReplySink + ?Sized),
        content: (u8, &[u64]),
        payload: &[u8],
    ) {
        debug_assert!((tell::VALUE..tell::NEXT).contains(&content.0), "an answer");
        let answer = self.message(engine, content, payload);
        if self.is_stuck() || !out.answer(&answer) {
            self.consumption.keep(answer.to_owned());
        }
    }

    /// Sends an optional message. Returns false when there is no room now.
    pub(super) fn offer(
        &self,
        engine: Name,
        out: &mut dyn ReplySink,
        (handler, words): (u8, &[u64]),
    ) -> bool {
        debug_assert_eq!(handler, tell::NEXT, "all other messages are answers");
        !self.is_stuck() && out.answer(&self.message(engine, (handler, words), &[]))
    }

    pub(super) fn send_deferred(&mut self, out: &mut impl ReplySink) {
        self.consumption.flush(|kept| out.answer(&kept.message()));
    }

    /// Notes that a request with so many bytes of payload was executed, refused ones included.
    #[inline]
    pub(super) fn on_consumed(&mut self, payload: usize) {
        self.consumption.on_consumed(payload);
    }

    /// Returns its requests as far as they were consumed.
    pub(super) fn consumption(&mut self) -> &mut Consumption<OwnedMessage> {
        &mut self.consumption
    }

    /// Reports consumption to the endpoint, if that is due.
    #[inline]
    pub(super) fn report(&mut self, credit: u64, out: &mut impl ReplySink) {
        if let Some(total) = self.consumption.poll_report(credit) {
            out.report(self.name, [total, self.consumption.granted()]);
        }
    }

    /// Returns true if a held request may be executed.
    pub(super) fn is_due(&self) -> bool {
        let first = self.held.first_key_value().map(|((after, _), _)| *after);
        !self.is_blocked() && first.is_some_and(|after| after <= self.executed)
    }

    /// Checks the order of requests and answers, and the counts.
    pub(super) fn check_invariants(&self, credit: u64) {
        debug_assert!(self.later.is_empty() || self.is_blocked(), "nothing else delays a request");
        debug_assert!(self.held.keys().all(|(_, number)| *number <= self.holds), "all were held");
        debug_assert!(self.held.len() as u64 <= self.holds, "each was held once");
        if cfg!(debug_assertions) {
            self.consumption.check_invariants(Some(credit));
        }
        debug_assert!(self.first_failure.is_none() || self.failed > 0, "failures are counted");
    }

    /// Drops everything kept.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.later.clear();
        self.delayed = false;
        drop(self.consumption.take_kept());
        debug_assert!(!self.is_blocked(), "nothing is kept any more");
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let requests = self.held.values().chain(&self.later).map(OwnedMessage::bytes);
        let answers = self.consumption.kept().map(OwnedMessage::bytes);
        requests.chain(answers).sum()
    }
}
