//! Aggregation: updates of words on other nodes are collected, and sent many at a time.
//!
//! A batch has updates of one operation on words of one segment. Its interface executes it in one
//! loop. It is sent when it is full, when it is old, when there are too many, and when the rank is
//! about to wait for anything.

use crate::error::Result;
use clump_os::clock;
use clump_rma::{AtomicOp, SegmentName, Target, Update};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Updates between two looks at the clock.
const CLOCK_EVERY: u32 = 16;
/// Number of no batch.
const NONE: u32 = u32::MAX;
/// Words that the index of an update reaches, as a power of two.
const REACH: u32 = 32;

/// Bounds of aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgasOptions {
    /// True if updates of other nodes are collected; else each is sent by itself.
    pub aggregates: bool,
    /// Updates after which a batch is sent.
    pub batch_updates: usize,
    /// Bytes of all open batches together.
    pub memory_bytes: usize,
    /// Age at which a batch is sent, at the next update or poll.
    pub delay: Duration,
}

impl Default for PgasOptions {
    fn default() -> Self {
        Self {
            aggregates: true,
            batch_updates: Update::MOST,
            memory_bytes: 16 << 20,
            delay: Duration::from_millis(1),
        }
    }
}

/// Counters of aggregation, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aggregation {
    /// Updates that were sent in batches.
    pub updates: u64,
    /// Batches that were sent because they were full.
    pub full: u64,
    /// Batches that were sent because they were old.
    pub old: u64,
    /// Batches that were sent to make room for others.
    pub displaced: u64,
    /// Batches that were sent because the rank was about to wait.
    pub flushed: u64,
    /// Largest number of batches that were open at one time.
    pub most_open: usize,
}

impl Aggregation {
    /// Returns the number of batches that were sent.
    pub fn batches(&self) -> u64 {
        self.full + self.old + self.displaced + self.flushed
    }
}

/// Reason for sending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendCause {
    Full,
    Old,
    Displaced,
    Flushed,
}

/// A segment of any rank, with its open batches, by operation.
#[derive(Debug)]
pub(crate) struct PeerSegment {
    pub(crate) target: Target,
    open: [Cell<u32>; AtomicOp::ALL.len()],
    me: Weak<Self>,
}

impl PeerSegment {
    pub(crate) fn new(target: Target) -> Rc<Self> {
        let open = std::array::from_fn(|_| Cell::new(NONE));
        Rc::new_cyclic(|me| Self { target, open, me: me.clone() })
    }

    /// Returns the rank that exports it.
    #[inline(always)]
    pub(crate) fn rank(&self) -> usize {
        self.name().rank() as usize
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> SegmentName {
        self.target.name()
    }

    /// Returns it, to be kept.
    pub(crate) fn kept(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }

    #[inline(always)]
    fn open(&self, op: AtomicOp) -> &Cell<u32> {
        &self.open[op as usize]
    }
}

/// Updates of one operation on words of one segment.
#[derive(Debug)]
struct OpenBatch {
    /// `None`: it is not open.
    peer: Option<Rc<PeerSegment>>,
    op: AtomicOp,
    /// Upper part of the indexes of its words, which updates do not hold.
    base: u64,
    since_ns: u64,
    /// Number that no other batch has had.
    serial: u64,
    updates: Vec<Update>,
}

#[derive(Debug, Default)]
struct Batches {
    slots: Vec<OpenBatch>,
    /// Slots of batches that are not open.
    free: Vec<u32>,
    /// Slots and serial numbers in the order in which they were opened; some are gone.
    order: VecDeque<(u32, u64)>,
    serial: u64,
    countdown: u32,
    counts: Aggregation,
}

/// The open batches of a thread.
#[derive(Debug)]
pub(crate) struct Aggregator {
    capacity: usize,
    max_open: usize,
    delay_ns: u64,
    batches: RefCell<Batches>,
}

impl Aggregator {
    pub(crate) fn new(options: &PgasOptions) -> Self {
        let capacity = options.batch_updates.clamp(1, Update::MOST);
        let max_open = (options.memory_bytes / (capacity * size_of::<Update>())).max(1);
        let delay_ns = u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX);
        Self { capacity, max_open, delay_ns, batches: RefCell::default() }
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Aggregation {
        self.batches.borrow().counts
    }

    /// Adds the update of a word of another node to its batch.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        peer: &PeerSegment,
        op: AtomicOp,
        offset: u64,
        value: u64,
    ) -> Result<()> {
        debug_assert!(offset.is_multiple_of(8), "updates are of whole words");
        let word = offset / 8;
        if self.push_quickly(peer, op, word, value) {
            return Ok(());
        }
        self.push_slowly(peer, op, word, value)
    }

    /// Adds an update to an open batch that does not get full by it, unless the clock is due.
    #[inline(always)]
    fn push_quickly(&self, peer: &PeerSegment, op: AtomicOp, word: u64, value: u64) -> bool {
        let mut batches = self.batches.borrow_mut();
        let Batches { slots, countdown, .. } = &mut *batches;
        let Some(batch) = slots.get_mut(peer.open(op).get() as usize) else { return false };
        let fits = batch.base == word >> REACH && batch.updates.len() + 1 < self.capacity;
        if !fits || *countdown == 0 {
            return false;
        }
        *countdown -= 1;
        batch.updates.push(Update::new(word as u32, value));
        true
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, peer: &PeerSegment, op: AtomicOp, word: u64, value: u64) -> Result<()> {
        // Whatever is sent here may run a handler that adds updates, too.
        while let Some((slot, cause)) = self.obstacle(peer, op, word >> REACH) {
            self.send(slot, cause)?;
        }
        let now = clock::now_ns();
        let full = {
            let mut batches = self.batches.borrow_mut();
            let slot = match peer.open(op).get() {
                NONE => batches.open(peer, (op, word >> REACH), now, self.capacity),
                slot => slot,
            };
            batches.countdown = CLOCK_EVERY;
            let Some(batch) = batches.slots.get_mut(slot as usize) else {
                debug_assert!(false, "an open batch has a slot");
                return Ok(());
            };
            batch.updates.push(Update::new(word as u32, value));
            (batch.updates.len() >= self.capacity).then_some(slot)
        };
        if let Some(slot) = full {
            self.send(slot, SendCause::Full)?;
        }
        self.send_old(now)
    }

    /// Returns a batch that must be sent before this update can be added, if there is one.
    fn obstacle(&self, peer: &PeerSegment, op: AtomicOp, base: u64) -> Option<(u32, SendCause)> {
        let mut batches = self.batches.borrow_mut();
        let slot = peer.open(op).get();
        match batches.slots.get(slot as usize) {
            Some(batch) => (batch.base != base).then_some((slot, SendCause::Displaced)),
            None if batches.count() < self.max_open => None,
            None => batches.oldest().map(|(slot, _)| (slot, SendCause::Displaced)),
        }
    }

    /// Sends the batches that were opened too long ago.
    pub(crate) fn send_old(&self, now: u64) -> Result<()> {
        loop {
            let oldest = self.batches.borrow_mut().oldest();
            match oldest {
                Some((slot, since)) if now.saturating_sub(since) >= self.delay_ns => {
                    self.send(slot, SendCause::Old)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Sends all open batches.
    ///
    /// # Errors
    /// Fails with the first error; all have been tried.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut result = Ok(());
        loop {
            let oldest = self.batches.borrow_mut().oldest();
            let Some((slot, _)) = oldest else { return result };
            result = result.and(self.send(slot, SendCause::Flushed));
        }
    }

    fn send(&self, slot: u32, cause: SendCause) -> Result<()> {
        // Nothing is borrowed while it is sent: that may run handlers.
        let Some(closed) = self.batches.borrow_mut().close(slot, cause) else { return Ok(()) };
        let ClosedBatch { peer, op, base, mut updates } = closed;
        debug_assert!((1..=self.capacity).contains(&updates.len()), "invariant 3");
        let sent = peer.target.update_many(base << REACH << 3, op, &updates);
        updates.clear();
        self.batches.borrow_mut().keep(slot, updates);
        Ok(sent?)
    }
}

/// A batch that is to be sent.
#[derive(Debug)]
struct ClosedBatch {
    peer: Rc<PeerSegment>,
    op: AtomicOp,
    base: u64,
    updates: Vec<Update>,
}

impl Batches {
    /// Returns the number of batches that are open, or being sent.
    fn count(&self) -> usize {
        debug_assert!(self.free.len() <= self.slots.len(), "a free slot is listed once");
        self.slots.len() - self.free.len()
    }

    /// Opens a batch. Returns its slot.
    fn open(
        &mut self,
        peer: &PeerSegment,
        (op, base): (AtomicOp, u64),
        since_ns: u64,
        capacity: usize,
    ) -> u32 {
        debug_assert_eq!(peer.open(op).get(), NONE, "invariant 2: one batch for each operation");
        self.serial += 1;
        let (serial, peer_kept) = (self.serial, peer.kept());
        debug_assert!(peer_kept.is_some(), "a segment that is used is kept");
        let slot = self.free.pop().unwrap_or_else(|| {
            let updates = Vec::with_capacity(capacity);
            let none = OpenBatch { peer: None, op, base, since_ns, serial, updates };
            self.slots.push(none);
            self.slots.len() as u32 - 1
        });
        if let Some(batch) = self.slots.get_mut(slot as usize) {
            debug_assert!(batch.updates.is_empty(), "a batch begins empty");
            batch.peer = peer_kept;
            (batch.op, batch.base, batch.since_ns, batch.serial) = (op, base, since_ns, serial);
        }
        peer.open(op).set(slot);
        self.order.push_back((slot, serial));
        self.counts.most_open = self.counts.most_open.max(self.count());
        slot
    }

    /// Returns the batch that was opened first, and when.
    fn oldest(&mut self) -> Option<(u32, u64)> {
        while let Some(&(slot, serial)) = self.order.front() {
            let batch = self.slots.get(slot as usize);
            if let Some(batch) = batch.filter(|batch| batch.serial == serial)
                && batch.peer.is_some()
            {
                return Some((slot, batch.since_ns));
            }
            self.order.pop_front();
        }
        None
    }

    /// Takes a batch out to be sent. Its slot is not free before [`Batches::keep`].
    fn close(&mut self, slot: u32, cause: SendCause) -> Option<ClosedBatch> {
        let batch = self.slots.get_mut(slot as usize)?;
        let peer = batch.peer.take()?;
        let (op, base) = (batch.op, batch.base);
        let updates = std::mem::take(&mut batch.updates);
        debug_assert_eq!(peer.open(op).get(), slot, "invariant 2: a batch is open in one place");
        peer.open(op).set(NONE);
        self.counts.updates += updates.len() as u64;
        let count = match cause {
            SendCause::Full => &mut self.counts.full,
            SendCause::Old => &mut self.counts.old,
            SendCause::Displaced => &mut self.counts.displaced,
            SendCause::Flushed => &mut self.counts.flushed,
        };
        *count += 1;
        Some(ClosedBatch { peer, op, base, updates })
    }

    /// Keeps the memory of a batch that was sent for the next.
    fn keep(&mut self, slot: u32, updates: Vec<Update>) {
        if let Some(batch) = self.slots.get_mut(slot as usize) {
            debug_assert!(batch.peer.is_none() && updates.is_empty(), "it was sent");
            batch.updates = updates;
            self.free.push(slot);
        }
        // Entries of batches that are gone are removed from the front; a young crowd behind one
        // that stays open is removed here.
        if self.order.len() > 64 + 4 * self.slots.len() {
            let slots = &self.slots;
            let is_open = |&(slot, serial): &(u32, u64)| {
                slots.get(slot as usize).is_some_and(|b| b.serial == serial && b.peer.is_some())
            };
            self.order.retain(is_open);
        }
    }
}
