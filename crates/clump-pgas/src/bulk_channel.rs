//! One-way sends of any number of items to any rank, with bounded memory at the receiver: a ring
//! for each sender, and credit that comes back as the receiver takes items out.

use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::layout::Layout;
use crate::pgas::Pgas;
use crate::ring::{RingSpan, places};
use crate::spread::Spread;
use clump_rma::Signal;
use std::cell::{Cell, RefCell};
use zerocopy::IntoBytes;

/// Bit of the word that a sender writes: it sends no more.
const FINISHED: u64 = 1 << 63;

/// Channels from each rank to each. Items of one sender arrive in their order. Its memory is freed
/// when a rank drops it: let all ranks be done with it before ([`BulkChannel::finish`]).
#[derive(Debug)]
pub struct BulkChannel<T> {
    pgas: Pgas,
    /// Rings of each receiver, by sender.
    items: Spread<T>,
    /// Ends of these rings, written by their senders.
    ends: Spread<u64>,
    /// Firsts of each sender's rings at receivers, written by these.
    credits: Spread<u64>,
    capacity: usize,
    /// Items sent to each rank.
    sent: RefCell<Vec<u64>>,
    /// Items received from each rank.
    received: RefCell<Vec<u64>>,
    /// Sender that is received from first, in turn.
    turn: Cell<usize>,
}

impl<T: Element> BulkChannel<T> {
    /// Opens channels with room for `capacity` items of each sender at each receiver. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank died or left.
    pub fn open(pgas: &Pgas, capacity: usize) -> Result<Self> {
        let (ranks, capacity) = (pgas.nranks(), capacity.max(1));
        let rings = ranks.saturating_mul(ranks);
        let none = || RefCell::new(vec![0; ranks]);
        Ok(Self {
            pgas: pgas.clone(),
            items: pgas.spread(rings.saturating_mul(capacity), Layout::Block)?,
            ends: pgas.spread(rings, Layout::Block)?,
            credits: pgas.spread(rings, Layout::Block)?,
            capacity,
            sent: none(),
            received: none(),
            turn: Cell::new(0),
        })
    }

    /// Begins to send the first of these items, as many as there is room for at the receiver, and
    /// returns their number. They may be used again when it returns.
    ///
    /// # Errors
    /// Fails if there is no such rank. On another node, [`Pgas::sync`] reports a refusal.
    pub fn try_send(&self, to: usize, items: &[T]) -> Result<usize> {
        let (me, ranks) = (self.pgas.rank(), self.pgas.nranks());
        let mut sent = self.sent.borrow_mut();
        let end = sent.get_mut(to).ok_or(ErrorKind::NoSuchRank { rank: to })?;
        let span = RingSpan { first: self.credits.local().get(to)?, end: *end };
        debug_assert!(span.len() <= self.capacity, "items that are not received have room");
        let fit = span.room(self.capacity).min(items.len());
        let (begin, word) = ((to * ranks + me) * self.capacity, to * ranks + me);
        let mut rest = items;
        for (place, count) in places(*end, fit, self.capacity) {
            let (these, behind) = rest.split_at(count);
            if count > 0 {
                *end += count as u64;
                self.put(begin + place, these, (word, *end))?;
            }
            rest = behind;
        }
        debug_assert!(fit <= items.len() && rest.len() + fit == items.len(), "the first of them");
        Ok(fit)
    }

    /// Writes items into a ring, and its end behind them.
    fn put(&self, first: usize, items: &[T], (word, end): (usize, u64)) -> Result<()> {
        let (from, signalled) = (self.items.ptr(first), self.ends.ptr(word));
        let (Some(from), Some(signalled)) = (from, signalled) else {
            return Err(ErrorKind::NoSuchElement { index: word, len: self.ends.len() }.into());
        };
        debug_assert_eq!(from.rank(), signalled.rank(), "both at the receiver");
        from.check(items.len())?;
        let (segment, offset) = (signalled.segment(), signalled.offset());
        let signal = Signal { segment, offset, value: end, adds: false };
        // An end is written behind what was sent before it, too.
        self.pgas.rma().fence();
        let peer = self.pgas.inner.peer(from.segment())?;
        Ok(peer.target.put_signal(from.offset(), items.as_bytes(), signal)?)
    }

    /// Sends items to a rank. While that has no room, runs `receive` on what has arrived here, so
    /// that ranks which send to each other never wait for each other.
    ///
    /// # Errors
    /// Fails as [`BulkChannel::try_send`] and [`BulkChannel::receive`] do.
    pub fn send(
        &self,
        to: usize,
        items: &[T],
        mut receive: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        let mut rest = items;
        loop {
            let sent = self.try_send(to, rest)?;
            debug_assert!(sent <= rest.len(), "no more than there are");
            rest = rest.get(sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            if sent == 0 && self.receive(&mut receive)? == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Runs `receive` on the items that have arrived, with their sender, run by run; returns their
    /// number. Their memory is the sender's again when it has returned.
    ///
    /// # Errors
    /// Fails as `receive` does, whose items are received then; or if a message fails.
    pub fn receive(&self, mut receive: impl FnMut(usize, &[T]) -> Result<()>) -> Result<usize> {
        self.pgas.poll()?;
        let (me, ranks) = (self.pgas.rank(), self.pgas.nranks());
        let first_sender = self.turn.replace((self.turn.get() + 1) % ranks);
        let mut all = 0;
        for sender in (0..ranks).map(|turn| (first_sender + turn) % ranks) {
            let first = self.received.borrow().get(sender).copied().unwrap_or_default();
            let end = self.end(sender)? & !FINISHED;
            let count = RingSpan { first, end }.len();
            debug_assert!(count <= self.capacity, "senders have credit for no more");
            if count == 0 {
                continue;
            }
            debug_assert!(first <= end, "ends grow");
            let mut items = vec![T::new_zeroed(); count];
            let mut rest = &mut items[..];
            for (place, count) in places(first, count, self.capacity) {
                let (these, behind) = rest.split_at_mut(count);
                self.items.local().copy_to(sender * self.capacity + place, these)?;
                rest = behind;
            }
            debug_assert!(rest.is_empty(), "each is copied");
            if let Some(received) = self.received.borrow_mut().get_mut(sender) {
                *received = end;
            }
            // Credits have no order: a later one stands.
            self.credits.at(sender * ranks + me).now().max(end)?;
            all += count;
            receive(sender, &items)?;
        }
        Ok(all)
    }

    /// Returns the word that a sender writes at this rank.
    fn end(&self, sender: usize) -> Result<u64> {
        debug_assert!(sender < self.pgas.nranks(), "a rank of the job");
        let offset = 8 * sender as u64;
        let part = self.ends.part(self.pgas.rank());
        let part = part.ok_or(ErrorKind::NoSuchRank { rank: sender })?;
        Ok(part.target.load(offset)?)
    }

    /// Sends no more, and runs `receive` on all that is still to come, from all ranks. The channel
    /// can be used again afterwards. A collective.
    ///
    /// # Errors
    /// Fails with the first error of `receive`, when everything has been received; or if a rank
    /// died or left.
    pub fn finish(&self, mut receive: impl FnMut(usize, &[T]) -> Result<()>) -> Result<()> {
        let (me, ranks) = (self.pgas.rank(), self.pgas.nranks());
        for to in 0..ranks {
            let end = self.sent.borrow().get(to).copied().unwrap_or_default();
            let word = to * ranks + me;
            if let Some(word) = self.ends.ptr(word) {
                debug_assert!(end & FINISHED == 0, "nobody sends so many");
                self.pgas.rma().fence();
                let peer = self.pgas.inner.peer(word.segment())?;
                peer.target.signal(word.offset(), end | FINISHED, false)?;
            }
        }
        let mut failure = Ok(());
        loop {
            // Before the receive: what was sent before the end is there then.
            let finished = (0..ranks).try_fold(true, |all, sender| {
                Ok::<_, crate::error::Error>(all && self.end(sender)? & FINISHED != 0)
            })?;
            let received = self.receive(|from, items| {
                let result = if failure.is_ok() { receive(from, items) } else { Ok(()) };
                if result.is_err() {
                    failure = result;
                }
                Ok(())
            })?;
            if finished {
                break;
            }
            if received == 0 {
                std::thread::yield_now();
            }
        }
        debug_assert!(self.sent.borrow().len() == ranks, "a count for each rank");
        // Ends and credits begin anew, once nobody reads them any more.
        self.pgas.all_store_sync()?;
        for at in 0..ranks {
            self.ends.local().set(at, 0)?;
            self.credits.local().set(at, 0)?;
        }
        self.sent.borrow_mut().fill(0);
        self.received.borrow_mut().fill(0);
        self.pgas.barrier()?;
        failure
    }
}
