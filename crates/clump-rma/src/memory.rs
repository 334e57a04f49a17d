//! The memory that operations work on: the interface that the engine needs, and the segments of a
//! node.

use crate::error::Refusal;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use std::collections::{HashMap, HashSet};

/// Access to segments, as the engine needs it.
pub trait Memory {
    /// Returns the segment of that name, if `[offset, offset + bytes)` of it may be accessed now.
    ///
    /// # Errors
    /// Fails with the reason if it may not be accessed.
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal>;

    /// Wakes `rank`, in whose segment a signal was given, if it waits.
    fn wake(&mut self, rank: u32);

    /// Wakes all ranks of this node.
    fn wake_all(&mut self);

    /// Returns the ranks of the job that have died.
    fn dead(&self) -> Vec<u32>;

    /// Returns the name of the endpoint at a port of this node, as bits; 0 when there is none.
    fn port(&self, port: u64) -> u64;

    /// Returns the node of a rank of the job, and whether it is this one.
    fn home(&self, rank: u32) -> (u32, bool);

    /// Announces to ranks of this node that words of that bit are watched, or no longer.
    fn watch(&mut self, bit: u32, watched: bool);
}

/// A segment that was accessed before.
#[derive(Debug, Clone)]
struct Known {
    block: Shared<RankBlock>,
    cells: Cells,
    bytes: u64,
}

/// The segments that the ranks of a node export, mapped when they are first accessed.
#[derive(Debug)]
pub struct NodeSegments {
    node: NodeMemory,
    known: HashMap<SegmentName, Known>,
    /// Segment accessed last: the next is likely to be the same.
    last: Option<(SegmentName, Known)>,
}

impl NodeSegments {
    /// Creates the table of the segments of `node`.
    pub fn new(node: NodeMemory) -> Self {
        Self { node, known: HashMap::new(), last: None }
    }

    /// Returns the segment at a place of a rank's table, if the lower 12 bits of its generation are
    /// these.
    pub fn at_place(&self, rank: u32, index: u8, generation: u32) -> Option<SegmentName> {
        let block = self.node.rank(rank).filter(|_| self.node.is_local(rank))?;
        let (current, _) = block.exports().look_up(index)?;
        (current & 0xfff == generation).then(|| SegmentName::new(rank, index, current))
    }

    /// Checks that each place of a table is known by one segment, and the last segment as the table
    /// has it.
    fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Self { known, last, .. } = self;
        let places: HashSet<_> = known.keys().map(|name| (name.rank(), name.index())).collect();
        debug_assert_eq!(places.len(), known.len(), "a place has one segment at a time");
        let mapped = |known: &Known| known.bytes <= known.cells.bytes();
        debug_assert!(known.values().all(mapped), "what may be accessed is mapped");
        debug_assert!(known.keys().all(|name| self.node.is_local(name.rank())), "of this node");
        if let Some((name, last)) = last {
            let same = |known: &Known| known.bytes == last.bytes;
            debug_assert!(known.get(name).is_some_and(same), "the last one is known");
        }
    }

    /// Maps a segment, or reads its current length again.
    #[cold]
    fn learn(&mut self, name: SegmentName) -> Result<(), Refusal> {
        debug_assert!(self.last.is_none(), "the segment accessed last is not kept meanwhile");
        // Earlier segments of that place are gone.
        self.known.retain(|old, _| (old.rank(), old.index()) != (name.rank(), name.index()));
        // Without address space it cannot be accessed, whether it exists or not.
        let found = self.node.exported(name).map_err(|_| Refusal::NoSuchSegment)?;
        let (cells, extent) = found.ok_or(Refusal::NoSuchSegment)?;
        let block = self.node.rank(name.rank()).ok_or(Refusal::NoSuchSegment)?;
        debug_assert!(extent.bytes <= cells.bytes(), "what may be accessed is mapped");
        self.known.insert(name, Known { block, cells, bytes: extent.bytes });
        self.check_invariants();
        Ok(())
    }
}

impl Memory for NodeSegments {
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal> {
        let end = offset.checked_add(bytes).ok_or(Refusal::OutOfBounds)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != name) {
            self.last = self.known.get(&name).map(|known| (name, known.clone()));
        }
        let fits = |known: &Known| {
            end <= known.bytes && known.block.exports().is_open(name.index(), name.generation())
        };
        if !self.last.as_ref().is_some_and(|(_, known)| fits(known)) {
            self.last = None;
            self.learn(name)?;
            self.last = self.known.get(&name).map(|known| (name, known.clone()));
        }
        if self.node.death_of(name.rank()).is_some() {
            return Err(Refusal::OwnerDead);
        }
        let (last, known) = self.last.as_ref().ok_or(Refusal::NoSuchSegment)?;
        debug_assert_eq!(*last, name, "the segment that was asked for");
        debug_assert!(end > known.bytes || known.cells.holds(offset, bytes), "it is mapped");
        if end <= known.bytes { Ok(&known.cells) } else { Err(Refusal::OutOfBounds) }
    }

    fn wake(&mut self, rank: u32) {
        if let Some(block) = self.node.rank(rank).filter(|_| self.node.is_local(rank)) {
            debug_assert!(rank < self.node.interface_id(0), "interfaces export nothing");
            let alarm = self.node.alarm(rank).map(|alarm| &**alarm);
            block.park().wake_if_asleep(self.node.fence(), alarm);
        }
    }

    fn wake_all(&mut self) {
        self.node.wake_all();
    }

    fn dead(&self) -> Vec<u32> {
        if self.node.job().deaths() == 0 {
            return Vec::new();
        }
        let all = 0..self.node.interface_id(0);
        all.filter(|&rank| self.node.death_of(rank).is_some()).collect()
    }

    fn port(&self, port: u64) -> u64 {
        let holder = u16::try_from(port).ok().and_then(|port| self.node.port_holder(port));
        holder.map_or(0, |name| name.to_bits())
    }

    fn home(&self, rank: u32) -> (u32, bool) {
        (self.node.node_of(rank), self.node.is_local(rank))
    }

    fn watch(&mut self, bit: u32, watched: bool) {
        if let Some(block) = self.node.rank(self.node.interface_id(self.node.node())) {
            block.watch(bit, watched);
        }
    }
}
