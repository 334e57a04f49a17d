//! One-way sends of any number of items to any rank, with bounded memory at the receiver: a ring
//! for each sender, and credit that comes back as the receiver takes items out.

use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::layout::Layout;
use crate::pgas::{Pgas, took_part};
use crate::ring::{RingSpan, places};
use crate::spread::Spread;
use clump_rma::{Comparison, Signal};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Bit of the word that a sender writes: it sends no more.
const FINISHED: u64 = 1 << 63;
/// Bit of the word that is added to when something happens: all ranks are idle.
const QUIET: u64 = 1 << 63;
/// Weight of an active rank beside that of an item in flight.
const ACTIVE: u64 = 1 << 48;
/// Longest sleep without a look at what could have been missed.
const MAX_NAP: Duration = Duration::from_millis(20);

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
    /// A word of each rank that others add to when they have sent, received or ended something.
    events: Spread<u64>,
    /// Active ranks and items in flight, at rank 0.
    in_flight: Spread<u64>,
    capacity: usize,
    /// Items sent to each rank.
    sent: RefCell<Vec<u64>>,
    /// Items received from each rank, and those that it has credit for.
    received: RefCell<Vec<u64>>,
    credited: RefCell<Vec<u64>>,
    /// Items sent less items received that are not counted in `in_flight`.
    uncounted: Cell<u64>,
    buffer: RefCell<Vec<T>>,
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
            events: pgas.spread(ranks, Layout::Block)?,
            in_flight: pgas.spread(1, Layout::Block)?,
            capacity,
            sent: none(),
            received: none(),
            credited: none(),
            uncounted: Cell::new(0),
            buffer: RefCell::default(),
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
        self.uncounted.set(self.uncounted.get().wrapping_add(fit as u64));
        if fit > 0 {
            self.notify(to, 1)?;
        }
        Ok(fit)
    }

    /// Adds to the word of events of a rank, behind what was sent to it.
    fn notify(&self, to: usize, value: u64) -> Result<()> {
        debug_assert!(value == 1 || value == QUIET, "an event, or the end of a run");
        self.pgas.rma().fence();
        self.write_word(&self.events, to, (value, true))
    }

    fn write_word(&self, words: &Spread<u64>, at: usize, (value, adds): (u64, bool)) -> Result<()> {
        let word = words.ptr(at).ok_or(ErrorKind::NoSuchRank { rank: at })?;
        debug_assert!(at < words.len(), "a word of this array");
        let peer = self.pgas.inner.peer(word.segment())?;
        Ok(peer.target.signal(word.offset(), value, adds)?)
    }

    /// Returns this rank's word of events. State that is read afterwards is as new as it, or newer.
    fn events(&self) -> Result<u64> {
        self.events.local().get(0)
    }

    /// Sleeps until there are other events than these.
    fn await_event(&self, seen: u64) -> Result<()> {
        let own = self.events.part(self.pgas.rank());
        let own = own.ok_or(ErrorKind::NoSuchRank { rank: self.pgas.rank() })?;
        debug_assert_eq!(self.events.local().len(), 1, "a word of each rank");
        self.pgas.inner.wait(|| {
            own.target.when_within(0, Comparison::NotEqual, seen, Some(MAX_NAP))?;
            Ok(())
        })
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
            let seen = self.events()?;
            let sent = self.try_send(to, rest)?;
            debug_assert!(sent <= rest.len(), "no more than there are");
            rest = rest.get(sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            if sent == 0 && self.receive(&mut receive)? == 0 {
                self.await_event(seen)?;
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
        let ranks = self.pgas.nranks();
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
            let mut items = self.buffer.take();
            items.clear();
            items.resize(count, T::new_zeroed());
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
            self.uncounted.set(self.uncounted.get().wrapping_sub(count as u64));
            self.credit(sender, end)?;
            all += count;
            let handled = receive(sender, &items);
            self.buffer.replace(items);
            handled?;
        }
        Ok(all)
    }

    /// Gives a sender its room back, once that is a fourth of a ring: with less it does not wait.
    fn credit(&self, sender: usize, end: u64) -> Result<()> {
        let mut credited = self.credited.borrow_mut();
        let Some(credit) = credited.get_mut(sender) else {
            clump_bug::bug!("items have come from rank {sender}, which there is not");
            return Ok(());
        };
        debug_assert!(*credit <= end, "ends grow");
        if (end - *credit) as usize * 4 < self.capacity {
            return Ok(());
        }
        *credit = end;
        let word = sender * self.pgas.nranks() + self.pgas.rank();
        // In order: no credit is replaced by an older one.
        self.pgas.rma().fence();
        debug_assert!(end & FINISHED == 0 && word < self.credits.len(), "a count of items");
        self.write_word(&self.credits, word, (end, false))?;
        self.notify(sender, 1)
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
            debug_assert!(end & FINISHED == 0, "nobody sends so many");
            self.pgas.rma().fence();
            self.write_word(&self.ends, word, (end | FINISHED, false))?;
            self.notify(to, 1)?;
        }
        let mut failure = Ok(());
        loop {
            let seen = self.events()?;
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
                self.await_event(seen)?;
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
        self.credited.borrow_mut().fill(0);
        self.uncounted.set(0);
        self.pgas.barrier()?;
        failure
    }

    /// Runs `work`, which may send, and `receive` on what arrives, until `work` has returned false
    /// at all ranks and nothing is in flight. `work` is called again after each receive. A
    /// collective; termination is detected by counting active ranks and items in flight.
    ///
    /// # Errors
    /// Fails with the first error of `work` or `receive`, when all is over: until then what arrives
    /// here is dropped ([`Error::took_part`]). Or if a rank died or left.
    ///
    /// [`Error::took_part`]: crate::Error::took_part
    pub fn run(
        &self,
        mut work: impl FnMut() -> Result<bool>,
        mut receive: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        let (me, ranks) = (self.pgas.rank(), self.pgas.nranks());
        let in_flight = || self.in_flight.at(0);
        if me == 0 {
            in_flight().write(ACTIVE.wrapping_mul(ranks as u64))?;
        }
        let before = self.events()? & QUIET;
        debug_assert!((ranks as u64) < ACTIVE, "ranks and items are told apart");
        self.pgas.barrier()?;
        let mut failure = Ok(());
        while self.events()? & QUIET == before {
            // This rank is counted as active.
            loop {
                let received = self.receive(|from, items| {
                    if failure.is_ok() {
                        failure = receive(from, items);
                    }
                    Ok(())
                })?;
                let more = if failure.is_ok() { work() } else { Ok(false) };
                let more = more.unwrap_or_else(|error| {
                    failure = Err(error);
                    false
                });
                if received == 0 && !more {
                    break;
                }
            }
            let change = self.uncounted.take().wrapping_sub(ACTIVE);
            debug_assert!(change != 0, "a rank goes idle");
            let left = in_flight().fetch_add(change)?.wait()?.wrapping_add(change);
            if left == 0 {
                (0..ranks).try_for_each(|rank| self.notify(rank, QUIET))?;
            }
            self.await_items(before)?;
        }
        let over = self.pgas.barrier();
        debug_assert!(self.uncounted.get() == 0, "nothing is in flight");
        over.and(took_part(failure))
    }

    /// Waits, as an idle rank, until something arrives, and is active again; or until all ranks
    /// are idle.
    fn await_items(&self, before: u64) -> Result<()> {
        let ranks = self.pgas.nranks();
        debug_assert!(before == 0 || before == QUIET, "one bit");
        loop {
            let seen = self.events()?;
            if seen & QUIET != before {
                return Ok(());
            }
            for sender in 0..ranks {
                let first = self.received.borrow().get(sender).copied().unwrap_or_default();
                debug_assert!(first <= self.end(sender)? & !FINISHED, "ends grow");
                if self.end(sender)? & !FINISHED != first {
                    self.in_flight.at(0).fetch_add(ACTIVE)?.wait()?;
                    return Ok(());
                }
            }
            self.await_event(seen)?;
        }
    }
}
