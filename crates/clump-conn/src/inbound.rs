//! The receiving side of a connection: pieces become messages, in order or not, within a window.
//!
//! Pure. Pieces come in any order and each once (the channel below sees to it); the peer is not trusted
//! beyond that. What is kept is bounded by the window and one message: only of one message at a time are pieces
//! given back before it is whole, and only while none is ready.

use crate::port::Order;
use crate::words::{FragmentHeader, PIECE_COST};
use std::collections::{BTreeMap, VecDeque};

/// A peer that does not keep to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolViolation;

/// The bytes of a piece, which are copied once.
pub(crate) trait Bytes {
    fn count(&self) -> usize;
    fn append_to(&self, to: &mut Vec<u8>);
}

impl Bytes for [u8] {
    fn count(&self) -> usize {
        self.len()
    }

    fn append_to(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }
}

impl Bytes for clump_am::Payload<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn append_to(&self, to: &mut Vec<u8>) {
        clump_am::Payload::append_to(self, to);
    }
}

/// A message that is not whole.
#[derive(Debug, Default)]
struct PartialMessage {
    bytes: u64,
    /// Its beginning.
    front: Vec<u8>,
    /// Pieces behind a gap, by offset.
    stray: BTreeMap<u64, Vec<u8>>,
    /// Bytes that are kept of it.
    kept: u64,
    /// What it costs of the window, and has not been given back.
    cost: u64,
}

/// A whole message and what it costs of the window.
#[derive(Debug, PartialEq, Eq)]
struct CompleteMessage {
    message: Vec<u8>,
    cost: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbound {
    order: Order,
    window: u64,
    max_bytes: u64,
    ready: VecDeque<CompleteMessage>,
    /// Whole messages that wait for their turn.
    early: BTreeMap<u64, CompleteMessage>,
    parts: BTreeMap<u64, PartialMessage>,
    /// The part whose pieces are given back as they come, until it is whole. A peer sends one message after the
    /// other: all of those before this one is on its way, so that nothing waits for room that this one has.
    relieved: Option<u64>,
    /// Number of the message whose turn it is, where order is kept.
    next: u64,
    /// Whole messages that arrived, ever.
    arrived: u64,
    /// How many the peer sends in all, once it has said so.
    total: Option<u64>,
    /// Cost of what arrived, and of what was given back, ever.
    taken: u64,
    given_back: u64,
    /// What the peer knows of the latter.
    reported: u64,
}

impl Inbound {
    /// Messages of at most `max_bytes`, of which at most `window` of cost may be kept.
    pub(crate) fn new(order: Order, window: u64, max_bytes: u64) -> Self {
        Self {
            order,
            window,
            max_bytes,
            ready: VecDeque::new(),
            early: BTreeMap::new(),
            parts: BTreeMap::new(),
            relieved: None,
            next: 0,
            arrived: 0,
            total: None,
            taken: 0,
            given_back: 0,
            reported: 0,
        }
    }

    /// Takes in a piece.
    ///
    /// # Errors
    /// A correct peer does not send it: too much at once, too long, twice, beyond the end.
    pub(crate) fn handle_fragment(
        &mut self,
        fragment: FragmentHeader,
        payload: &(impl Bytes + ?Sized),
    ) -> Result<(), ProtocolViolation> {
        let FragmentHeader { number, bytes, offset } = fragment;
        let len = payload.count() as u64;
        let cost = PIECE_COST + len;
        self.taken += cost;
        let end = offset.checked_add(len).ok_or(ProtocolViolation)?;
        let empty = len == 0 && bytes != 0;
        let behind = self.order == Order::Ordered && number < self.next;
        let beyond = self.total.is_some_and(|total| number >= total || self.arrived >= total);
        // A piece that finds nothing outstanding may be larger than the window.
        let most = self.window.max(cost);
        let greedy = self.taken.saturating_sub(self.given_back) > most;
        if end > bytes || bytes > self.max_bytes || empty || behind || beyond || greedy {
            return Err(ProtocolViolation);
        }
        let part = self
            .parts
            .entry(number)
            .or_insert_with(|| PartialMessage { bytes, ..PartialMessage::default() });
        part.put(bytes, offset, payload, cost)?;
        if part.front.len() as u64 == part.bytes
            && let Some(part) = self.parts.remove(&number)
        {
            self.on_whole(number, CompleteMessage { message: part.front, cost: part.cost })?;
        }
        self.relieve();
        Ok(())
    }

    fn on_whole(&mut self, number: u64, whole: CompleteMessage) -> Result<(), ProtocolViolation> {
        self.arrived += 1;
        if self.relieved == Some(number) {
            self.relieved = None;
        }
        match self.order {
            Order::Any => self.ready.push_back(whole),
            Order::Ordered => {
                if self.early.insert(number, whole).is_some() {
                    return Err(ProtocolViolation);
                }
                while let Some(whole) = self.early.remove(&self.next) {
                    self.next += 1;
                    self.ready.push_back(whole);
                }
            }
        }
        Ok(())
    }

    /// While no message is ready, pieces of one are given back as they come: it may be longer than the window.
    fn relieve(&mut self) {
        if !self.ready.is_empty() {
            return;
        }
        let first = self.parts.first_key_value().map(|(&number, _)| number);
        let next = match self.order {
            Order::Any => self.relieved.or(first),
            Order::Ordered => first.filter(|&first| first == self.next),
        };
        if let Some(number) = next
            && let Some(part) = self.parts.get_mut(&number)
        {
            self.relieved = Some(number);
            self.given_back += std::mem::take(&mut part.cost);
        }
    }

    /// The peer sends so many messages in all.
    ///
    /// # Errors
    /// It has sent more, or has said otherwise.
    pub(crate) fn handle_total(&mut self, total: u64) -> Result<(), ProtocolViolation> {
        let known = self.total.is_none_or(|known| known == total);
        let last = self.parts.last_key_value().map(|(&number, _)| number);
        let last = last.max(self.early.last_key_value().map(|(&number, _)| number));
        if !known || total < self.arrived || last.is_some_and(|last| last >= total) {
            return Err(ProtocolViolation);
        }
        self.total = Some(total);
        Ok(())
    }

    /// Whether the peer has said how many messages it sends.
    pub(crate) fn knows_total(&self) -> bool {
        self.total.is_some()
    }

    /// The next message.
    pub(crate) fn poll_message(&mut self) -> Option<Vec<u8>> {
        let CompleteMessage { message, cost } = self.ready.pop_front()?;
        self.given_back += cost;
        self.relieve();
        Some(message)
    }

    /// Whether a message is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the peer will send nothing more and everything was received.
    pub(crate) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.total == Some(self.arrived)
    }

    /// What to tell the peer about room, when that is worth a message: a quarter of the window.
    pub(crate) fn poll_credit(&mut self) -> Option<u64> {
        let due = self.wants_credit();
        due.then(|| {
            self.reported = self.given_back;
            self.reported
        })
    }

    /// Whether [`Inbound::poll_credit`] has something to tell.
    pub(crate) fn wants_credit(&self) -> bool {
        self.given_back - self.reported >= self.window / 4
    }

    /// The news did not get out: it is due again.
    pub(crate) fn on_credit_unsent(&mut self) {
        self.reported = self.reported.saturating_sub(self.window);
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let parts = self.parts.values();
        let parts = parts.map(|p| p.front.len() + p.stray.values().map(Vec::len).sum::<usize>());
        let whole = self.ready.iter().chain(self.early.values()).map(|w| w.message.len());
        parts.sum::<usize>() + whole.sum::<usize>()
    }
}

impl PartialMessage {
    fn put(
        &mut self,
        bytes: u64,
        offset: u64,
        fragment: &(impl Bytes + ?Sized),
        cost: u64,
    ) -> Result<(), ProtocolViolation> {
        let front = self.front.len() as u64;
        let kept = self.kept + fragment.count() as u64;
        if bytes != self.bytes || offset < front || kept > bytes {
            return Err(ProtocolViolation);
        }
        self.kept = kept;
        self.cost += cost;
        if offset > front {
            let mut stray = Vec::new();
            fragment.append_to(&mut stray);
            return match self.stray.insert(offset, stray) {
                None => Ok(()),
                Some(_) => Err(ProtocolViolation),
            };
        }
        fragment.append_to(&mut self.front);
        while let Some(next) = self.stray.remove(&(self.front.len() as u64)) {
            self.front.extend_from_slice(&next);
        }
        let overlapped = self.stray.first_key_value();
        match overlapped {
            Some((&at, _)) if at < self.front.len() as u64 => Err(ProtocolViolation),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
