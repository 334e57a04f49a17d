//! The receiving side of a connection: reassembles fragments into messages, ordered or not, within
//! a window.
//!
//! Pure. Fragments come in any order and each once (the channel below ensures it); the peer is not
//! trusted beyond that. Memory is bounded by the window and one message: credit for fragments of an
//! incomplete message is returned for one message at a time only, and only while none is ready.

use crate::port::Order;
use crate::receive_window::ReceiveWindow;
use crate::words::{FRAGMENT_COST, FragmentHeader};
use std::collections::{BTreeMap, VecDeque};

/// A violation of the protocol by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolViolation;

/// The bytes of a fragment, which are copied once.
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

/// A message that is incomplete.
#[derive(Debug, Default)]
struct PartialMessage {
    bytes: u64,
    /// Its beginning.
    front: Vec<u8>,
    /// Fragments behind a gap, by offset.
    stray: BTreeMap<u64, Vec<u8>>,
    /// Number of its bytes that are kept.
    kept: u64,
    /// Its cost in the window for which no credit was returned.
    cost: u64,
}

/// A complete message and its cost in the window.
#[derive(Debug, PartialEq, Eq)]
struct CompleteMessage {
    message: Vec<u8>,
    cost: u64,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Inbound {
    order: Order,
    window: ReceiveWindow,
    max_bytes: u64,
    ready: VecDeque<CompleteMessage>,
    /// Complete messages that wait for their turn.
    early: BTreeMap<u64, CompleteMessage>,
    parts: BTreeMap<u64, PartialMessage>,
    /// The incomplete message whose fragments return their credit on arrival. A peer sends one
    /// message after the other: all of those before this one is in flight, so no message waits for
    /// window that this one has.
    relieved: Option<u64>,
    /// Number of the next message in order, for ordered connections.
    next: u64,
    /// Number of complete messages that arrived.
    arrived: u64,
    /// Total number of messages of the peer, once it has announced it.
    total: Option<u64>,
    /// Total cost of what arrived, and of returned credit.
    taken: u64,
    given_back: u64,
    /// The part of the returned credit that the peer knows of.
    reported: u64,
}

/// A report of credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreditReport {
    /// Total cost of what the program has received.
    pub(crate) total: u64,
    /// The window from now on.
    pub(crate) window: u64,
}

impl Inbound {
    /// Makes the receiving side for messages of at most `max_bytes`, of which at most `window` of
    /// cost may be kept at first.
    pub(crate) fn new(order: Order, window: u64, max_bytes: u64) -> Self {
        Self {
            order,
            window: ReceiveWindow::new(window),
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

    /// Handles a fragment that has arrived at `now_ns`.
    ///
    /// # Errors
    /// A correct peer does not send it: too much at once, too long, twice, beyond the end.
    pub(crate) fn handle_fragment(
        &mut self,
        now_ns: u64,
        fragment: FragmentHeader,
        payload: &(impl Bytes + ?Sized),
    ) -> Result<(), ProtocolViolation> {
        let FragmentHeader { number, bytes, offset } = fragment;
        let len = payload.count() as u64;
        let cost = FRAGMENT_COST + len;
        self.taken += cost;
        let end = offset.checked_add(len).ok_or(ProtocolViolation)?;
        let empty = len == 0 && bytes != 0;
        let behind = self.order == Order::Ordered && number < self.next;
        let beyond = self.total.is_some_and(|total| number >= total || self.arrived >= total);
        // A fragment that finds nothing outstanding may be larger than the window.
        let most = self.window.bytes().max(cost);
        let greedy = self.taken.saturating_sub(self.given_back) > most;
        if end > bytes || bytes > self.max_bytes || empty || behind || beyond || greedy {
            return Err(ProtocolViolation);
        }
        self.window.on_arrival(now_ns, self.taken, self.given_back);
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

    /// Returns credit for the fragments of one incomplete message while no message is ready: it may
    /// be longer than the window.
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

    /// Records the total number of messages that the peer sends.
    ///
    /// # Errors
    /// It has sent more, or has announced another number.
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

    /// Returns true if the peer has announced its total number of messages.
    pub(crate) fn knows_total(&self) -> bool {
        self.total.is_some()
    }

    /// Returns the next message.
    pub(crate) fn poll_message(&mut self) -> Option<Vec<u8>> {
        let CompleteMessage { message, cost } = self.ready.pop_front()?;
        self.given_back += cost;
        self.relieve();
        Some(message)
    }

    /// Returns true if a message is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if the peer will send nothing more and everything was received.
    pub(crate) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.total == Some(self.arrived)
    }

    /// Returns the credit to report to the peer, when that is worth a message: a quarter of the
    /// window.
    pub(crate) fn poll_credit(&mut self, now_ns: u64) -> Option<CreditReport> {
        let due = self.wants_credit();
        due.then(|| {
            self.window.on_report(now_ns, self.reported, self.given_back);
            self.reported = self.given_back;
            CreditReport { total: self.reported, window: self.window.bytes() }
        })
    }

    /// Returns true if [`Inbound::poll_credit`] has credit to report.
    pub(crate) fn wants_credit(&self) -> bool {
        self.given_back - self.reported >= self.window.bytes() / 4
    }

    /// Records that the credit could not be sent: it is due again.
    pub(crate) fn on_credit_unsent(&mut self) {
        self.reported = self.reported.saturating_sub(self.window.bytes());
    }

    /// Returns the number of bytes that are kept.
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
