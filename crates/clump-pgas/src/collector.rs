//! Open batches of updates, collected and closed: pure, without a clock or a network. A thread's
//! [`crate::Pgas`] drives it over an endpoint, simulations over their own transports.

use clump_rma::AtomicOp;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Updates between two readings of the clock.
const CLOCK_EVERY: u32 = 16;
/// Number of no batch.
const NONE: u32 = u32::MAX;
/// Kinds of batches.
const KINDS: usize = AtomicOp::ALL.len() * 2;

/// The updates that a batch has: one operation, on words of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchKind {
    /// The operation.
    pub op: AtomicOp,
    /// True if its words have four bytes, else eight.
    pub halves: bool,
}

impl BatchKind {
    #[inline(always)]
    fn index(self) -> usize {
        self.op as usize * 2 + usize::from(self.halves)
    }

    /// Returns the bytes of its words, as a power of two.
    #[inline(always)]
    pub fn shift(self) -> u32 {
        if self.halves { 2 } else { 3 }
    }
}

/// Reason for sending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendCause {
    /// As many updates as a request holds.
    Full,
    /// Age.
    Old,
    /// Room for another.
    Displaced,
    /// The rank is about to wait.
    Flushed,
}

/// The open batches of one destination, by kind.
#[derive(Debug)]
pub struct OpenSlots([Cell<u32>; KINDS]);

impl Default for OpenSlots {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Cell::new(NONE)))
    }
}

/// Destination of batches, which holds the open ones.
pub trait Destination: Sized {
    /// Returns its open batches.
    fn slots(&self) -> &OpenSlots;
    /// Returns it, to be kept while a batch is open; `None` once it is unused.
    fn kept(&self) -> Option<Rc<Self>>;

    /// Returns the batch of that kind that is open.
    #[inline(always)]
    fn slot(&self, kind: BatchKind) -> &Cell<u32> {
        &self.slots().0[kind.index()]
    }
}

/// Bounds of open batches.
#[derive(Debug, Clone, Copy)]
pub struct CollectorBounds {
    /// Updates after which a batch is full.
    pub capacity: usize,
    /// Batches that may be open.
    pub max_open: usize,
    /// Age at which a batch is sent, in ns.
    pub delay_ns: u64,
}

/// Updates of one kind for one destination.
#[derive(Debug)]
struct OpenBatch<D, U> {
    /// `None`: it is not open.
    dest: Option<Rc<D>>,
    kind: BatchKind,
    /// Upper part of the indexes of its words, which updates do not hold.
    base: u64,
    since_ns: u64,
    /// Number that no other batch has had.
    serial: u64,
    updates: Vec<U>,
}

/// A batch that is to be sent. Give its memory back by [`Collector::keep`].
#[derive(Debug)]
pub struct ClosedBatch<D, U> {
    /// Destination of the batch.
    pub dest: Rc<D>,
    /// Operation and size of words.
    pub kind: BatchKind,
    /// Upper part of the indexes of its words.
    pub base: u64,
    /// Updates, in the order in which they were added.
    pub updates: Vec<U>,
}

/// Batches that were closed, by reason, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectorCounts {
    /// Updates in them.
    pub updates: u64,
    /// Batches that were full.
    pub full: u64,
    /// Batches that were old.
    pub old: u64,
    /// Batches that made room for others.
    pub displaced: u64,
    /// Batches that were sent because the rank was about to wait.
    pub flushed: u64,
    /// Largest number of batches that were open at one time.
    pub most_open: usize,
}

/// The open batches of a thread.
///
/// To add an update: [`Collector::push_quickly`]; if that returns false, close and send what
/// [`Collector::obstacle`] names until it names nothing, then [`Collector::push`], and send the
/// batch that this names; then those that [`Collector::expired`] names. Before the thread waits,
/// send all that [`Collector::oldest`] names.
#[derive(Debug)]
pub struct Collector<D, U> {
    bounds: CollectorBounds,
    slots: Vec<OpenBatch<D, U>>,
    /// Slots of batches that are not open.
    free: Vec<u32>,
    /// Slots and serial numbers in the order in which they were opened; some are closed.
    order: VecDeque<(u32, u64)>,
    serial: u64,
    countdown: u32,
    counts: CollectorCounts,
}

impl<D: Destination, U> Collector<D, U> {
    /// Creates a collector of no batches.
    pub fn new(bounds: CollectorBounds) -> Self {
        debug_assert!(bounds.capacity > 0 && bounds.max_open > 0, "an update has room");
        let (slots, free, order) = (Vec::new(), Vec::new(), VecDeque::new());
        let counts = CollectorCounts::default();
        Self { bounds, slots, free, order, serial: 0, countdown: 0, counts }
    }

    /// Returns the counters.
    pub fn counts(&self) -> CollectorCounts {
        self.counts
    }

    /// Adds an update to an open batch that does not get full by it, unless the clock is due.
    #[inline(always)]
    pub fn push_quickly(&mut self, dest: &D, kind: BatchKind, base: u64, update: U) -> bool {
        let Self { slots, countdown, bounds, .. } = self;
        let Some(batch) = slots.get_mut(dest.slot(kind).get() as usize) else { return false };
        let fits = batch.base == base && batch.updates.len() + 1 < bounds.capacity;
        if !fits || *countdown == 0 {
            return false;
        }
        *countdown -= 1;
        batch.updates.push(update);
        true
    }

    /// Returns a batch that must be sent before an update can be added, if there is one.
    pub fn obstacle(&mut self, dest: &D, kind: BatchKind, base: u64) -> Option<u32> {
        let slot = dest.slot(kind).get();
        match self.slots.get(slot as usize) {
            Some(batch) => (batch.base != base).then_some(slot),
            None if self.count() < self.bounds.max_open => None,
            None => self.oldest(),
        }
    }

    /// Adds an update where there is no obstacle. Returns its batch if that is full now.
    pub fn push(
        &mut self,
        dest: &D,
        (kind, base): (BatchKind, u64),
        now: u64,
        update: U,
    ) -> Option<u32> {
        let slot = match dest.slot(kind).get() {
            NONE => self.open(dest, (kind, base), now),
            slot => slot,
        };
        self.countdown = CLOCK_EVERY;
        let Some(batch) = self.slots.get_mut(slot as usize) else {
            clump_bug::bug!("an open batch has a slot");
            return None;
        };
        debug_assert_eq!(batch.base, base, "another base is an obstacle");
        batch.updates.push(update);
        (batch.updates.len() >= self.bounds.capacity).then_some(slot)
    }

    /// Returns the number of batches that are open, or being sent.
    pub fn count(&self) -> usize {
        debug_assert!(self.free.len() <= self.slots.len(), "a free slot is listed once");
        self.slots.len() - self.free.len()
    }

    /// Opens a batch. Returns its slot.
    fn open(&mut self, dest: &D, (kind, base): (BatchKind, u64), since_ns: u64) -> u32 {
        debug_assert_eq!(dest.slot(kind).get(), NONE, "invariant 2: one batch for each operation");
        self.serial += 1;
        let (serial, kept) = (self.serial, dest.kept());
        debug_assert!(kept.is_some(), "a destination that is used is kept");
        let slot = self.free.pop().unwrap_or_else(|| {
            let updates = Vec::with_capacity(self.bounds.capacity);
            let none = OpenBatch { dest: None, kind, base, since_ns, serial, updates };
            self.slots.push(none);
            self.slots.len() as u32 - 1
        });
        if let Some(batch) = self.slots.get_mut(slot as usize) {
            debug_assert!(batch.updates.is_empty(), "a batch begins empty");
            batch.dest = kept;
            (batch.kind, batch.base, batch.since_ns, batch.serial) = (kind, base, since_ns, serial);
        }
        dest.slot(kind).set(slot);
        self.order.push_back((slot, serial));
        self.counts.most_open = self.counts.most_open.max(self.count());
        slot
    }

    /// Returns the batch that was opened first, and when.
    fn first(&mut self) -> Option<(u32, u64)> {
        while let Some(&(slot, serial)) = self.order.front() {
            let batch = self.slots.get(slot as usize);
            if let Some(batch) = batch.filter(|batch| batch.serial == serial)
                && batch.dest.is_some()
            {
                return Some((slot, batch.since_ns));
            }
            self.order.pop_front();
        }
        None
    }

    /// Returns the batch that was opened first.
    pub fn oldest(&mut self) -> Option<u32> {
        self.first().map(|(slot, _)| slot)
    }

    /// Returns a batch that was opened too long ago.
    pub fn expired(&mut self, now: u64) -> Option<u32> {
        let (slot, since) = self.first()?;
        (now.saturating_sub(since) >= self.bounds.delay_ns).then_some(slot)
    }

    /// Takes a batch out to be sent. Its slot is not free before [`Collector::keep`].
    pub fn close(&mut self, slot: u32, cause: SendCause) -> Option<ClosedBatch<D, U>> {
        let batch = self.slots.get_mut(slot as usize)?;
        let dest = batch.dest.take()?;
        let (kind, base) = (batch.kind, batch.base);
        let updates = std::mem::take(&mut batch.updates);
        debug_assert_eq!(dest.slot(kind).get(), slot, "invariant 2: a batch is open in one place");
        debug_assert!((1..=self.bounds.capacity).contains(&updates.len()), "invariant 3");
        dest.slot(kind).set(NONE);
        self.counts.updates += updates.len() as u64;
        let count = match cause {
            SendCause::Full => &mut self.counts.full,
            SendCause::Old => &mut self.counts.old,
            SendCause::Displaced => &mut self.counts.displaced,
            SendCause::Flushed => &mut self.counts.flushed,
        };
        *count += 1;
        Some(ClosedBatch { dest, kind, base, updates })
    }

    /// Keeps the memory of a batch that was sent for the next.
    pub fn keep(&mut self, slot: u32, mut updates: Vec<U>) {
        updates.clear();
        if let Some(batch) = self.slots.get_mut(slot as usize) {
            debug_assert!(batch.dest.is_none(), "it was sent");
            batch.updates = updates;
            self.free.push(slot);
        }
        // Entries of closed batches are removed from the front; those behind a batch that stays
        // open are removed here.
        if self.order.len() > 64 + 4 * self.slots.len() {
            let slots = &self.slots;
            let is_open = |&(slot, serial): &(u32, u64)| {
                slots.get(slot as usize).is_some_and(|b| b.serial == serial && b.dest.is_some())
            };
            self.order.retain(is_open);
        }
    }
}
