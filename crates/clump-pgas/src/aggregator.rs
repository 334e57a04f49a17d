//! Aggregation: updates of words on other nodes are collected, and sent many at a time.
//!
//! A batch has updates of one operation on words of one segment, or, where nodes are many, of all
//! segments that are reached by way of one node. Its interface executes it in one loop, or forwards
//! it. It is sent when it is full, when it is old, when there are too many, and when the rank is
//! about to wait for anything.

use crate::collector::{
    BatchKind, ClosedBatch, Collector, CollectorBounds, CollectorCounts, Destination, OpenSlots,
    SendCause,
};
use crate::error::Result;
use crate::grid::NodeGrid;
use clump_am::RankContext;
use clump_os::clock;
use clump_rma::{Rma, SegmentName, SpreadUpdate, Target, Update};
use clump_trace::{Counter, EventKind};
use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

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
    /// Number of nodes from which on updates are forwarded by another node, over a grid; 0: never.
    pub grid_nodes: usize,
    /// True if proxies, where they run, combine the batches of their node's ranks.
    pub combines: bool,
}

impl Default for PgasOptions {
    fn default() -> Self {
        Self {
            aggregates: true,
            batch_updates: Update::MOST,
            memory_bytes: 16 << 20,
            delay: Duration::from_millis(1),
            grid_nodes: 64,
            combines: true,
        }
    }
}

/// Counters of aggregation, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aggregation {
    /// Updates that were sent in batches.
    pub updates: u64,
    /// Number of updates that were sent by way of another node.
    pub forwarded: u64,
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

/// Returns the counter of batches that were sent for a reason.
pub(crate) fn counter_of(cause: SendCause) -> Counter {
    match cause {
        SendCause::Full => Counter::PgasBatchesFull,
        SendCause::Old => Counter::PgasBatchesOld,
        SendCause::Displaced => Counter::PgasBatchesDisplaced,
        SendCause::Flushed => Counter::PgasBatchesFlushed,
    }
}

/// A node whose interface forwards updates, with their open batches.
#[derive(Debug)]
pub(crate) struct Forwarder {
    node: u32,
    open: OpenSlots,
    me: Weak<Self>,
}

impl Destination for Forwarder {
    #[inline(always)]
    fn slots(&self) -> &OpenSlots {
        &self.open
    }

    fn kept(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }
}

/// A segment of any rank, with its open batches, by operation.
#[derive(Debug)]
pub(crate) struct PeerSegment {
    pub(crate) target: Target,
    /// Interface that forwards updates of it; `None`: they are sent directly to its node.
    via: Option<Rc<Forwarder>>,
    open: OpenSlots,
    me: Weak<Self>,
}

impl Destination for PeerSegment {
    #[inline(always)]
    fn slots(&self) -> &OpenSlots {
        &self.open
    }

    fn kept(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }
}

impl PeerSegment {
    fn new(target: Target, via: Option<Rc<Forwarder>>) -> Rc<Self> {
        let open = OpenSlots::default();
        Rc::new_cyclic(|me| Self { target, via, open, me: me.clone() })
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

    /// Returns the interface that forwards updates of a word; `None` if they are sent directly.
    #[inline(always)]
    pub(crate) fn forwarder(&self, kind: BatchKind, offset: u64) -> Option<&Forwarder> {
        // Offsets beyond the reach of an index are sent directly.
        self.via.as_deref().filter(|_| offset >> kind.shift() >> REACH == 0)
    }
}

/// Updates by segment.
type StraightBatches = RefCell<Collector<PeerSegment, Update>>;
/// Updates by the node that forwards them.
type ForwardedBatches = RefCell<Collector<Forwarder, SpreadUpdate>>;

/// The open batches of a thread.
#[derive(Debug)]
pub(crate) struct Aggregator {
    straight: StraightBatches,
    forwarded: ForwardedBatches,
    /// `None`: no updates are forwarded by another node.
    grid: Option<NodeGrid>,
    /// True if other updates are forwarded by the proxy of this node.
    combines: bool,
    /// Forwarders by node, once they are used.
    forwarders: Vec<OnceCell<Rc<Forwarder>>>,
    rma: Rma,
    context: Arc<RankContext>,
}

impl Aggregator {
    pub(crate) fn new(options: &PgasOptions, rma: Rma, context: Arc<RankContext>) -> Self {
        let nodes = context.nnodes();
        // Executors of virtual nodes forward nothing.
        let forwards = context.actor().is_none();
        let uses_grid = forwards && options.grid_nodes > 0 && nodes as usize >= options.grid_nodes;
        let grid = uses_grid.then(|| NodeGrid::new(nodes));
        let node = context.node();
        // A rank that is alone on its node has nothing to combine with.
        let combines = options.combines && node.proxies() != 0 && node.local_ranks().len() > 1;
        let forwarders = (0..nodes).map(|_| OnceCell::new()).collect();
        // Both kinds of batches share the memory.
        let memory = options.memory_bytes / if uses_grid || combines { 2 } else { 1 };
        let delay_ns = u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX);
        let bounds = |most: usize, bytes: usize| {
            let capacity = options.batch_updates.clamp(1, most);
            let max_open = (memory / (capacity * bytes)).max(1);
            CollectorBounds { capacity, max_open, delay_ns }
        };
        let straight = Collector::new(bounds(Update::MOST, size_of::<Update>()));
        let forwarded = Collector::new(bounds(SpreadUpdate::MOST, size_of::<SpreadUpdate>()));
        let (straight, forwarded) = (RefCell::new(straight), RefCell::new(forwarded));
        Self { straight, forwarded, grid, combines, forwarders, rma, context }
    }

    /// Returns a segment, with batches of its own.
    pub(crate) fn peer(&self, target: Target) -> Rc<PeerSegment> {
        let (home, here) = (self.context.home_of(target.name()), self.context.node_number());
        let middle = self.grid.and_then(|grid| grid.middle(here, home));
        let combiner = (self.combines && home != here).then_some(here);
        let via = middle.or(combiner).and_then(|node| {
            let new = || {
                let open = OpenSlots::default();
                Rc::new_cyclic(|me| Forwarder { node, open, me: me.clone() })
            };
            Some(self.forwarders.get(node as usize)?.get_or_init(new).clone())
        });
        debug_assert!(via.is_none() || !target.is_near(), "this node is not reached by another");
        PeerSegment::new(target, via)
    }

    /// Returns the rank's context.
    pub(crate) fn context(&self) -> &Arc<RankContext> {
        &self.context
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> Aggregation {
        let (straight, forwarded) =
            (self.straight.borrow().counts(), self.forwarded.borrow().counts());
        let sum = |of: fn(&CollectorCounts) -> u64| of(&straight) + of(&forwarded);
        Aggregation {
            updates: sum(|counts| counts.updates),
            forwarded: forwarded.updates,
            full: sum(|counts| counts.full),
            old: sum(|counts| counts.old),
            displaced: sum(|counts| counts.displaced),
            flushed: sum(|counts| counts.flushed),
            most_open: straight.most_open + forwarded.most_open,
        }
    }

    /// Adds the update of a word of another node to its batch.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        peer: &PeerSegment,
        kind: BatchKind,
        offset: u64,
        value: u64,
    ) -> Result<()> {
        debug_assert!(offset.is_multiple_of(1 << kind.shift()), "updates are of whole words");
        let word = offset >> kind.shift();
        if let Some(via) = peer.forwarder(kind, offset) {
            let update = SpreadUpdate::new(peer.name(), word as u32, value);
            if self.forwarded.borrow_mut().push_quickly(via, kind, 0, update) {
                return Ok(());
            }
            return self.push_forwarded(via, kind, update);
        }
        let update = Update::new(word as u32, value);
        if self.straight.borrow_mut().push_quickly(peer, kind, word >> REACH, update) {
            return Ok(());
        }
        self.push_straight(peer, (kind, word >> REACH), update)
    }

    #[cold]
    #[inline(never)]
    fn push_straight(
        &self,
        peer: &PeerSegment,
        place: (BatchKind, u64),
        update: Update,
    ) -> Result<()> {
        self.push_slowly(&self.straight, peer, place, update, |batch| self.send_straight(batch))
    }

    #[cold]
    #[inline(never)]
    fn push_forwarded(&self, via: &Forwarder, kind: BatchKind, update: SpreadUpdate) -> Result<()> {
        let send = |batch: &ClosedBatch<_, _>| self.send_forwarded(batch);
        self.push_slowly(&self.forwarded, via, (kind, 0), update, send)
    }

    fn push_slowly<D: Destination, U>(
        &self,
        batches: &RefCell<Collector<D, U>>,
        dest: &D,
        (kind, base): (BatchKind, u64),
        update: U,
        send: impl Fn(&ClosedBatch<D, U>) -> Result<()>,
    ) -> Result<()> {
        // A send here may run a handler that adds updates, too.
        loop {
            let obstacle = batches.borrow_mut().obstacle(dest, kind, base);
            let Some(slot) = obstacle else { break };
            self.send(batches, (slot, SendCause::Displaced), &send)?;
        }
        let now = clock::now_ns();
        let full = batches.borrow_mut().push(dest, (kind, base), now, update);
        if let Some(slot) = full {
            self.send(batches, (slot, SendCause::Full), &send)?;
        }
        self.send_old(now)
    }

    /// Sends the batches that were opened too long ago.
    pub(crate) fn send_old(&self, now: u64) -> Result<()> {
        let expired = |slot| (slot, SendCause::Old);
        loop {
            let old = self.straight.borrow_mut().expired(now).map(expired);
            let Some(old) = old else { break };
            self.send(&self.straight, old, |batch| self.send_straight(batch))?;
        }
        loop {
            let old = self.forwarded.borrow_mut().expired(now).map(expired);
            let Some(old) = old else { return Ok(()) };
            self.send(&self.forwarded, old, |batch| self.send_forwarded(batch))?;
        }
    }

    /// Sends all open batches.
    ///
    /// # Errors
    /// Fails with the first error; all have been tried.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut result = Ok(());
        let flushed = |slot| (slot, SendCause::Flushed);
        loop {
            let first = self.straight.borrow_mut().oldest().map(flushed);
            if let Some(first) = first {
                let sent = self.send(&self.straight, first, |batch| self.send_straight(batch));
                result = result.and(sent);
                continue;
            }
            let first = self.forwarded.borrow_mut().oldest().map(flushed);
            let Some(first) = first else { return result };
            let sent = self.send(&self.forwarded, first, |batch| self.send_forwarded(batch));
            result = result.and(sent);
        }
    }

    /// Closes a batch and sends it, unless that has happened.
    fn send<D: Destination, U>(
        &self,
        batches: &RefCell<Collector<D, U>>,
        (slot, cause): (u32, SendCause),
        send: impl Fn(&ClosedBatch<D, U>) -> Result<()>,
    ) -> Result<()> {
        // Nothing is borrowed while it is sent: that may run handlers.
        let Some(closed) = batches.borrow_mut().close(slot, cause) else { return Ok(()) };
        let counters = self.context.counters();
        counters.add(Counter::PgasCollected, closed.updates.len() as u64);
        counters.bump(counter_of(cause));
        let updates = u32::try_from(closed.updates.len()).unwrap_or(u32::MAX);
        self.context.note(EventKind::Batch, (slot, 0, updates));
        let collected = self.context.actor().map(|actor| actor.send_collected());
        let sent = send(&closed);
        drop(collected);
        batches.borrow_mut().keep(slot, closed.updates);
        sent
    }

    fn send_straight(&self, batch: &ClosedBatch<PeerSegment, Update>) -> Result<()> {
        let ClosedBatch { dest, kind, base, updates } = batch;
        let offset = base << REACH << kind.shift();
        let sent = match kind.halves {
            true => dest.target.update_halves(offset, kind.op, updates),
            false => dest.target.update_many(offset, kind.op, updates),
        };
        sent.map_err(Into::into)
    }

    fn send_forwarded(&self, batch: &ClosedBatch<Forwarder, SpreadUpdate>) -> Result<()> {
        let ClosedBatch { dest, kind, updates, .. } = batch;
        self.context.counters().add(Counter::PgasForwarded, updates.len() as u64);
        Ok(self.rma.begin_spread(dest.node, (kind.op, kind.halves), updates)?)
    }

    /// Begins to add to a word of another node, behind everything that was sent to the interface
    /// that forwards updates of it.
    pub(crate) fn add_behind(
        &self,
        via: &Forwarder,
        (name, index): (SegmentName, u32),
        value: u64,
    ) -> Result<()> {
        let update = [SpreadUpdate::new(name, index, value)];
        Ok(self.rma.begin_spread(via.node, (clump_rma::AtomicOp::Add, false), &update)?)
    }
}
