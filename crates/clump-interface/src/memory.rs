//! The memory that operations work on: the interface that the engine needs, and the segments of a
//! node.

mod committed;
mod lost_deposits;
#[cfg(test)]
mod tests;

use clump_shm::supply::MemorySupply;

use clump_onesided::Refusal;
use clump_onesided::protocol::{DepositPlace, GENERATION_MASK};
use clump_shm::cells::Cells;
use clump_shm::export::{SegmentName, SegmentOwner};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_shm::supply::MachineSupply;
use committed::Committed;
use lost_deposits::LostDeposits;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Access to segments, as the engine needs it.
pub trait Memory {
    /// Returns the segment of that name, if `[offset, offset + bytes)` of it may be accessed now.
    ///
    /// # Errors
    /// Fails with the reason if it may not be accessed.
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal>;

    /// Returns whether `bytes` bytes that were to be deposited at `offset` of a segment are there.
    ///
    /// # Errors
    /// Fails with the reason if they are not, or not all.
    fn deposited(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.segment(name, offset, bytes).map(drop)
    }

    /// Wakes `rank`, in whose segment a signal was given, if it waits; all ranks of this node for a
    /// number that no rank has, that of the owner of its regions.
    fn wake(&mut self, rank: u32);

    /// Wakes all ranks of this node.
    fn wake_all(&mut self);

    /// Returns the ranks of the job that have died.
    fn dead(&self) -> Vec<u32>;

    /// Returns the name of the endpoint at a port of this node, as bits; 0 when there is none.
    fn port(&self, port: u64) -> u64;

    /// Returns the node of a segment, and whether it is this one.
    fn home(&self, name: SegmentName) -> (u32, bool);

    /// Announces to ranks of this node that words of that bit are watched, or no longer.
    fn watch(&mut self, bit: u32, watched: bool);
}

/// A segment that was accessed before.
#[derive(Debug, Clone)]
struct Known {
    /// The rank that exports it; `None` for a region of the node.
    owner: Option<Shared<RankBlock>>,
    cells: Cells,
    bytes: u64,
}

/// The registered memory of a node, mapped when it is first accessed.
///
/// A rank commits what it exports. Regions of the node are sparse: their memory is committed here
/// before it is accessed, and an access to memory that cannot be had is refused.
#[derive(Debug)]
pub struct NodeSegments {
    node: NodeMemory,
    known: HashMap<SegmentName, Known>,
    /// Segment accessed last: the next is likely to be the same.
    last: Option<(SegmentName, Known)>,
    committed: Committed,
    /// Deposits that found no memory, shared with the engine that executes the requests behind
    /// them.
    lost: Arc<Mutex<LostDeposits>>,
    /// Ranks that have died, and the number of deaths when they were looked up.
    dead: RefCell<(u64, Vec<u32>)>,
}

impl NodeSegments {
    /// Creates the table of the registered memory of `node`, with all the memory that the machine
    /// can give.
    pub fn new(node: NodeMemory) -> Self {
        let supply = Box::new(MachineSupply::new(node.ranks()));
        Self::with_supply(node, supply)
    }

    /// Creates the table of the registered memory of `node`; `supply` decides which memory can be
    /// had for the regions that the node owns.
    pub fn with_supply(node: NodeMemory, supply: Box<dyn MemorySupply>) -> Self {
        let (committed, lost, dead) = (Committed::new(supply), Arc::default(), RefCell::default());
        Self { node, known: HashMap::new(), last: None, committed, lost, dead }
    }

    /// Creates a table for the deposits whose requests are executed on this one: the two share the
    /// record of deposits that found no memory.
    pub fn for_deposits(&self) -> Self {
        Self { lost: self.lost.clone(), ..Self::new(self.node.clone()) }
    }

    /// Writes `data`, deposited for a request that is executed later. Bytes for memory that is not
    /// registered are dropped, since that request is refused.
    pub fn deposit(&mut self, place: DepositPlace, data: &[u8]) {
        let Some(name) = self.at_place(place) else { return };
        match self.segment(name, place.offset, data.len() as u64) {
            Ok(cells) => {
                let written = cells.write(place.offset, data);
                debug_assert!(written, "what may be accessed is mapped");
            }
            Err(Refusal::NoMemory) => {
                let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.note(name, place.offset, data.len() as u64);
            }
            Err(_) => {}
        }
    }

    /// Returns the segment at a place of a rank's table, if its generation has these lower bits, or
    /// the region of that number.
    fn at_place(&self, place: DepositPlace) -> Option<SegmentName> {
        let DepositPlace { owner, index, generation, .. } = place;
        let SegmentOwner::Rank(rank) = owner else {
            return Some(SegmentName::of_node(self.node.node(), index));
        };
        let block = self.node.rank(rank).filter(|_| self.node.is_local(rank))?;
        let (current, _) = block.exports().look_up(index)?;
        let same = current & GENERATION_MASK == generation;
        same.then(|| SegmentName::new(rank, index, current))
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
        debug_assert!(known.keys().all(|&name| self.home(name).1), "of this node");
        if let Some((name, last)) = last {
            let same = |known: &Known| known.bytes == last.bytes;
            debug_assert!(known.get(name).is_some_and(same), "the last one is known");
        }
    }

    /// Maps a segment, or reads its current length again.
    #[cold]
    fn learn(&mut self, name: SegmentName) -> Result<(), Refusal> {
        debug_assert!(self.last.is_none(), "the segment accessed last is not kept meanwhile");
        // Earlier segments of that place are closed.
        let place = |name: SegmentName| (name.rank(), name.index());
        let before = self.known.remove(&name);
        self.known.retain(|old, _| place(*old) != place(name));
        let owner = self.node.rank(name.rank());
        let of_rank = matches!(name.owner(), SegmentOwner::Rank(_));
        let known = match (before, self.node.extent_of(name)) {
            // It has grown in place.
            (Some(before), Some(extent)) if extent.reserved == before.cells.bytes() => {
                Known { bytes: extent.bytes, ..before }
            }
            _ => {
                // Without address space it cannot be accessed, whether it exists or not.
                let found = self.node.exported(name).map_err(|_| Refusal::NoSuchSegment)?;
                let (cells, extent) = found.ok_or(Refusal::NoSuchSegment)?;
                Known { owner, cells, bytes: extent.bytes }
            }
        };
        debug_assert_eq!(known.owner.is_some(), of_rank, "it belongs to a rank or the node");
        debug_assert!(known.bytes <= known.cells.bytes(), "what may be accessed is mapped");
        self.known.insert(name, known);
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
        let is_open =
            |owner: &Shared<RankBlock>| owner.exports().is_open(name.index(), name.generation());
        let fits = |known: &Known| end <= known.bytes && known.owner.as_ref().is_none_or(is_open);
        if !self.last.as_ref().is_some_and(|(_, known)| fits(known)) {
            self.last = None;
            self.learn(name)?;
            self.last = self.known.get(&name).map(|known| (name, known.clone()));
        }
        if self.node.death_of(name.rank()).is_some() {
            return Err(Refusal::OwnerDead);
        }
        let (last, known) = self.last.as_ref().ok_or(Refusal::NoSuchSegment)?;
        debug_assert_eq!(*last, name, "the requested segment");
        debug_assert!(end > known.bytes || known.cells.holds(offset, bytes), "it is mapped");
        if end > known.bytes {
            return Err(Refusal::OutOfBounds);
        }
        if known.owner.is_none() {
            self.committed.ensure(&self.node, name, (offset, end), known.cells.bytes())?;
        }
        Ok(&known.cells)
    }

    fn deposited(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.segment(name, offset, bytes)?;
        if matches!(name.owner(), SegmentOwner::Rank(_)) {
            return Ok(());
        }
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.take(name, offset, bytes) { Err(Refusal::NoMemory) } else { Ok(()) }
    }

    fn wake(&mut self, rank: u32) {
        if let Some(block) = self.node.rank(rank).filter(|_| self.node.is_local(rank)) {
            debug_assert!(rank < self.node.interface_id(0), "interfaces export nothing");
            let alarm = self.node.alarm(rank).map(|alarm| &**alarm);
            block.park().wake_if_asleep(self.node.fence(), alarm);
        } else if matches!(SegmentName::new(rank, 0, 1).owner(), SegmentOwner::Node(_)) {
            self.node.wake_sleepers();
        }
    }

    fn wake_all(&mut self) {
        self.node.wake_all();
    }

    fn dead(&self) -> Vec<u32> {
        let deaths = self.node.job().deaths();
        let (seen, dead) = &mut *self.dead.borrow_mut();
        if *seen != deaths {
            let all = 0..self.node.interface_id(0);
            *dead = all.filter(|&rank| self.node.death_of(rank).is_some()).collect();
            *seen = deaths;
        }
        debug_assert!(dead.len() as u64 >= deaths, "a rank is marked before it is counted");
        dead.clone()
    }

    fn port(&self, port: u64) -> u64 {
        let holder = u16::try_from(port).ok().and_then(|port| self.node.port_holder(port));
        holder.map_or(0, |name| name.to_bits())
    }

    fn home(&self, name: SegmentName) -> (u32, bool) {
        let (node, own) = (self.node.home_of(name), self.node.node());
        let owners = self.node.geometry().region_owners() as u32;
        debug_assert!(owners == 1 || own == 0, "one machine has all virtual nodes");
        debug_assert!(owners >= 1, "a node has regions");
        (node, (own..own + owners).contains(&node))
    }

    fn watch(&mut self, bit: u32, watched: bool) {
        if let Some(block) = self.node.rank(self.node.interface_id(self.node.node())) {
            block.watch(bit, watched);
        }
    }
}
