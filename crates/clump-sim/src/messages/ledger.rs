//! The oracle: every message and its fate. Naive on purpose.
//!
//! # Invariants
//! 1. A message is handled at most once and returned at most once, never both. Only if its target
//!    died may it be returned although it was handled or refused there: the target's state is lost.
//! 2. A message that is handled, deposited or returned is bit for bit the message sent.
//! 3. Messages of an ordered flow are handled in the order in which they were sent.
//! 4. A message that must be refused (bad tag, bad handler, outside the segment) is not handled.

use super::content;
use clump_wire::frame::{FrameKind, stack_of};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers from here on belong to messages that no endpoint may ever see.
pub(crate) const FORBIDDEN: u64 = 1 << 40;
/// Handler number that no endpoint has.
pub(crate) const NO_HANDLER: u8 = 200;

/// Intended end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedEnd {
    /// Handled, unless its endpoint closes.
    Handled,
    /// Refused by its target: bad tag, no such endpoint, outside the segment.
    Refused,
    /// Consumed by its target, without a handler.
    NoHandler,
}

/// A message and its fate.
#[derive(Debug, Clone)]
pub(crate) struct LedgerMessage {
    pub(crate) kind: FrameKind,
    pub(crate) reply: bool,
    pub(crate) bytes: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) aim: ExpectedEnd,
    pub(crate) ordered: bool,
    handled: bool,
    returned: bool,
    /// Fragments of its payload in the segment: offset and length.
    deposited: Vec<(u64, u64)>,
    /// True if no answer is due any more: its sender is closed or dead, or its target dead.
    excused: bool,
}

/// The record of all messages of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    messages: Vec<LedgerMessage>,
    /// Last message handled, for each ordered flow.
    last: HashMap<(u64, u64), u64>,
    /// Ranks given up, as a bit set.
    lost_ranks: u64,
    open: u64,
    /// First violation found.
    wrong: Option<String>,
    pub(crate) counts: LedgerCounts,
}

/// Numbers of messages by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LedgerCounts {
    pub(crate) sent: u64,
    pub(crate) handled: u64,
    pub(crate) returned: u64,
    pub(crate) bytes: u64,
}

/// The ledger as all its users hold it.
pub(crate) type SharedLedger = Arc<Mutex<Ledger>>;

/// Locks a ledger. Only one thread uses it, so the lock is never contended.
pub(crate) fn lock(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Records a message that is about to be sent. Returns its number.
    pub(crate) fn enter(
        &mut self,
        (kind, reply, aim, ordered): (FrameKind, bool, ExpectedEnd, bool),
        (from, to): (u64, u64),
        bytes: usize,
    ) -> u64 {
        let (handled, returned, deposited, excused) = (false, false, Vec::new(), false);
        let message = LedgerMessage {
            kind,
            reply,
            bytes,
            from,
            to,
            aim,
            ordered,
            handled,
            returned,
            deposited,
            excused,
        };
        self.messages.push(message);
        self.counts.sent += 1;
        self.open += 1;
        self.messages.len() as u64 - 1
    }

    /// Notes that a recorded message was not sent after all.
    pub(crate) fn withdraw(&mut self, id: u64) {
        self.resolve(id, |message| message.excused = true);
    }

    /// Records that a message is for an endpoint that does not exist.
    pub(crate) fn expect_refusal(&mut self, id: u64) {
        if let Some(message) = self.messages.get_mut(id as usize) {
            message.aim = ExpectedEnd::Refused;
        }
    }

    fn resolve(&mut self, id: u64, change: impl FnOnce(&mut LedgerMessage)) {
        let Some(message) = self.messages.get_mut(id as usize) else { return };
        let open = |m: &LedgerMessage| !m.handled && !m.returned && !m.excused;
        let before = open(message);
        change(message);
        self.open -= u64::from(before && !open(message));
    }

    /// Records a violation; only the first is kept.
    pub(crate) fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Returns the first violation.
    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Returns the number of messages whose fate is unknown and should become known.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Describes the first few of the open messages.
    pub(crate) fn some_open(&self) -> String {
        let open = |m: &&LedgerMessage| !m.handled && !m.returned && !m.excused;
        let open: Vec<_> = self.messages.iter().filter(open).collect();
        let few: Vec<_> = open.iter().take(4).map(|message| format!("{message:x?}")).collect();
        format!("{} messages are lost: {}", open.len(), few.join("; "))
    }

    /// Records that an endpoint got a message. Returns its number if the endpoint should handle it.
    pub(crate) fn on_handled(
        &mut self,
        (kind, reply, handler): (FrameKind, bool, u8),
        (from, to): (u64, u64),
        words: &[u64],
        payload: &[u8],
    ) -> Option<u64> {
        let tell = |what: &str| format!("a message {what}: {kind:?} {words:x?} {from:x} -> {to:x}");
        let id = number_of(kind, words);
        let Some(message) = id.and_then(|id| self.messages.get(id as usize)) else {
            self.complain(tell("was handled that no rank of the job has sent"));
            return None;
        };
        let id = id.unwrap_or_default();
        let aimed = match message.aim {
            ExpectedEnd::Handled => handler != NO_HANDLER,
            ExpectedEnd::NoHandler => handler == NO_HANDLER,
            ExpectedEnd::Refused => false,
        };
        let whole = match kind {
            FrameKind::Long => message.is_deposited(),
            FrameKind::Short => payload.is_empty(),
            _ => payload.len() == message.bytes && content::is_intact(id, 0, payload),
        };
        let same =
            (kind, reply, from, to) == (message.kind, message.reply, message.from, message.to);
        let excused = self.lost_ranks & (1 << stack_of(to)) != 0;
        let wrong = match () {
            () if !aimed => "was handled that should have been refused",
            () if !whole => "was handled before it had arrived whole, or is damaged",
            () if !same || !has_words(id, kind, message.bytes, words) => "was changed on its way",
            () if message.handled => "was handled twice",
            () if message.returned && !excused => "was handled that had been returned",
            () => "",
        };
        let flow = message.ordered.then_some((from, to));
        if !wrong.is_empty() {
            let more = format!("{}; entered as {message:x?}", tell(wrong));
            self.complain(more);
            return None;
        }
        if let Some(last) = flow.and_then(|flow| self.last.insert(flow, id))
            && last > id
        {
            self.complain(format!("{}; {last:x} came before", tell("was handled out of order")));
        }
        self.counts.handled += 1;
        self.counts.bytes += payload.len() as u64;
        if handler == NO_HANDLER {
            // It must still be returned.
            if let Some(message) = self.messages.get_mut(id as usize) {
                message.aim = ExpectedEnd::Refused;
            }
        } else {
            self.resolve(id, |message| message.handled = true);
        }
        Some(id)
    }

    /// Records that a message was returned to the endpoint that had sent it.
    pub(crate) fn on_returned(
        &mut self,
        (kind, reply): (FrameKind, bool),
        (from, to): (u64, u64),
        words: &[u64],
        payload: &[u8],
    ) {
        let tell = |what: &str| format!("a message {what}: {kind:?} {words:x?} {from:x} -> {to:x}");
        let id = number_of(kind, words);
        let Some(message) = id.and_then(|id| self.messages.get(id as usize)) else {
            return self.complain(tell("was returned that no rank of the job has sent"));
        };
        let id = id.unwrap_or_default();
        let whole = kind != FrameKind::Medium
            || (payload.len() == message.bytes && content::is_intact(id, 0, payload));
        let same =
            (kind, reply, from, to) == (message.kind, message.reply, message.from, message.to);
        let lost = self.lost_ranks & (1 << stack_of(to)) != 0;
        let wrong = match () {
            () if !whole => "came back damaged",
            () if !same || !has_words(id, kind, message.bytes, words) => "came back changed",
            () if message.returned && !lost => "came back twice",
            () if message.handled && !lost => "came back that was handled",
            () => "",
        };
        if !wrong.is_empty() {
            let more = format!("{}; entered as {message:x?}", tell(wrong));
            return self.complain(more);
        }
        self.counts.returned += 1;
        self.resolve(id, |message| message.returned = true);
    }

    /// Records that a fragment of a long message was written.
    pub(crate) fn on_deposit(&mut self, id: u64, to: u64, at: u64, data: &[u8]) {
        let Some(message) = self.messages.get_mut(id as usize) else {
            return self.complain(format!("a deposit of message {id:x} that no rank has sent"));
        };
        let end = at + data.len() as u64;
        let overlaps =
            message.deposited.iter().any(|&(from, bytes)| from < end && at < from + bytes);
        let fits =
            end <= message.bytes as u64 && message.to == to && message.kind == FrameKind::Long;
        let intact = content::is_intact(id, at, data);
        message.add_deposit(at, data.len() as u64);
        if overlaps || !fits || !intact {
            let what = if overlaps { "twice" } else { "wrongly" };
            let bytes = data.len();
            self.complain(format!("message {id:x} was deposited {what}: {bytes} bytes at {at}"));
        }
    }

    /// Records the death of a rank: it owes nothing and is owed nothing.
    pub(crate) fn on_death(&mut self, rank: u32) {
        self.lost_ranks |= 1 << rank;
        self.excuse(|message| stack_of(message.from) == rank || stack_of(message.to) == rank);
    }

    /// Records that an endpoint has closed: it is owed nothing any more.
    pub(crate) fn on_closed(&mut self, name: u64) {
        self.excuse(|message| message.from == name);
    }

    fn excuse(&mut self, is_excused: impl Fn(&LedgerMessage) -> bool) {
        for message in &mut self.messages {
            let open = !message.handled && !message.returned && !message.excused;
            if is_excused(message) {
                message.excused = true;
                self.open -= u64::from(open);
            }
        }
    }

    /// Returns the bytes of replies to a rank, and of requests that may be on their way back to it.
    pub(crate) fn answers_to(&self, rank: u32) -> usize {
        let open = |m: &&LedgerMessage| !m.handled && !m.returned && !m.excused;
        let answer = |m: &&LedgerMessage| stack_of(if m.reply { m.to } else { m.from }) == rank;
        let answers = self.messages.iter().filter(open).filter(answer);
        answers.map(|message| message.bytes + 200).sum()
    }

    /// Returns the first request of an endpoint whose fate is unknown: `None` once all its flows
    /// are finished.
    pub(crate) fn unresolved(&self, name: u64) -> Option<&LedgerMessage> {
        self.messages.iter().find(|message| {
            let open = !message.handled && !message.returned && !message.excused;
            // One without a handler counts as consumed before it is returned.
            message.from == name && open && !message.reply && message.aim == ExpectedEnd::Handled
        })
    }
}

impl LedgerMessage {
    fn add_deposit(&mut self, at: u64, bytes: u64) {
        // Fragments mostly arrive in order: neighbours are joined.
        match self.deposited.iter_mut().find(|(from, length)| from + *length == at) {
            Some((_, length)) => *length += bytes,
            None if bytes > 0 => self.deposited.push((at, bytes)),
            None => {}
        }
    }

    fn is_deposited(&self) -> bool {
        self.deposited.iter().map(|(_, bytes)| bytes).sum::<u64>() == self.bytes as u64
    }
}

/// Returns the number of the message that has these words.
fn number_of(kind: FrameKind, words: &[u64]) -> Option<u64> {
    words.get(if kind == FrameKind::Long { 2 } else { 0 }).copied()
}

fn has_words(id: u64, kind: FrameKind, bytes: usize, words: &[u64]) -> bool {
    let words = match (kind, words) {
        (FrameKind::Long, [_, length, rest @ ..]) if *length == bytes as u64 => rest,
        (FrameKind::Long, _) => return false,
        _ => words,
    };
    words.iter().copied().eq(content::words(id))
}
