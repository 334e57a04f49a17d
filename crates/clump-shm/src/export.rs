//! Segments that a rank exports, for deposits of messages and for one-sided access: their names,
//! and the table of their locations in the rank's block. The rank writes its table; ranks of its
//! node and its network interface read it.

use crate::geometry::{MAX_INTERFACES, MAX_NODES, MAX_RANKS};
use crate::name::Name;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

/// Segments that a rank may export at one time.
pub const EXPORTS: usize = 64;
// A segment's name holds its index in 8 bits.
const _: () = assert!(EXPORTS <= 1 << u8::BITS);
/// Bit of the number of an owner that makes it a node; ranks and interfaces have smaller numbers.
const NODE_BIT: u32 = 1 << 23;
const _: () = assert!(MAX_RANKS + MAX_INTERFACES <= NODE_BIT as usize);
const _: () = assert!(MAX_NODES <= NODE_BIT as usize);

/// Process or node that a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentOwner {
    /// The rank that exports it.
    Rank(u32),
    /// The node that keeps it until the job ends.
    Node(u32),
}

/// The global name of a segment: rank, index in its table, and generation of that index; laid out
/// as the name of an endpoint.
///
/// Plain data of 8 bytes, so that ranks can exchange it; zero names nothing.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(transparent)]
pub struct SegmentName(Name);

impl SegmentName {
    /// Creates the name of the segment that `rank` exported at `index`, for the `generation`-th
    /// time (from 1).
    pub fn new(rank: u32, index: u8, generation: u32) -> Self {
        Self(Name::new(rank, index, generation))
    }

    /// Creates the name of region `number` of `node`. Regions of a node last until the job ends, so
    /// each number has one generation.
    pub fn of_node(node: u32, number: u8) -> Self {
        debug_assert!(node < NODE_BIT, "a name holds nodes of 23 bits");
        Self(Name::new(NODE_BIT | node & (NODE_BIT - 1), number, 1))
    }

    /// Returns the rank or node that it belongs to.
    #[inline]
    pub fn owner(self) -> SegmentOwner {
        match self.0.rank() {
            number if number & NODE_BIT != 0 => SegmentOwner::Node(number & (NODE_BIT - 1)),
            rank => SegmentOwner::Rank(rank),
        }
    }

    /// Returns the name as one word, for messages.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// Reads a name from a message; any bits are a name, though perhaps of no segment.
    pub fn from_bits(bits: u64) -> Self {
        Self(Name::from_bits(bits))
    }

    /// Returns the rank that exports it; for a region of a node, a number that no rank has.
    pub fn rank(self) -> u32 {
        self.0.rank()
    }

    /// Returns its index in the table of that rank.
    pub fn index(self) -> u8 {
        self.0.index()
    }

    /// Returns its generation: which use of that index it is.
    pub fn generation(self) -> u32 {
        self.0.generation()
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.owner() {
            SegmentOwner::Rank(rank) => write!(f, "segment {} of rank {rank}", self.index()),
            SegmentOwner::Node(node) => write!(f, "region {} of node {node}", self.index()),
        }
    }
}

/// Returns the number of the bit, 0 to 63, of a watched word.
#[inline]
pub fn watch_bit(name: SegmentName, offset: u64) -> u32 {
    let mixed = (name.to_bits() ^ (offset / 8).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as u32
}

/// The extent of a segment as recorded in its table: to be checked against its owner's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the node's memory.
    pub offset: u64,
    /// Bytes of address space that it may grow to.
    pub reserved: u64,
    /// Bytes that may be accessed now.
    pub bytes: u64,
}

#[derive(Debug)]
#[repr(C)]
struct ExportEntry {
    /// The generation, above an open bit; zero while the entry was never used.
    state: AtomicU64,
    offset: AtomicU64,
    reserved: AtomicU64,
    bytes: AtomicU64,
}

/// The table in a rank's block.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ExportTable {
    entries: [ExportEntry; EXPORTS],
}

// SAFETY: atomics only.
unsafe impl SharedLayout for ExportTable {}

impl ExportTable {
    /// For the owner: announces a segment at a free index; returns index and generation, or `None`
    /// when the table is full.
    pub fn open(&self, extent: Extent) -> Option<(u8, u32)> {
        debug_assert!(extent.bytes <= extent.reserved, "what may be accessed is reserved");
        debug_assert!(extent.offset.checked_add(extent.reserved).is_some(), "it ends in the file");
        let is_free = |entry: &&ExportEntry| entry.state.load(Ordering::Relaxed) & 1 == 0;
        let (index, entry) = (0..).zip(&self.entries).find(|(_, entry)| is_free(entry))?;
        debug_assert!(usize::from(index) < EXPORTS, "an index of the table");
        let generation = (entry.state.load(Ordering::Relaxed) >> 1) as u32 + 1;
        debug_assert!(generation != 0, "generation 0 is that of an index that was never used");
        entry.offset.store(extent.offset, Ordering::Relaxed);
        entry.reserved.store(extent.reserved, Ordering::Relaxed);
        entry.bytes.store(extent.bytes, Ordering::Relaxed);
        // SYNC 12: pairs with look_up
        entry.state.store(u64::from(generation) << 1 | 1, Ordering::Release);
        Some((index, generation))
    }

    /// For the owner: makes more bytes accessible from now on.
    pub fn grow(&self, index: u8, bytes: u64) {
        let Some(entry) = self.entries.get(usize::from(index)) else {
            clump_bug::bug!("the owner has an index of the table");
            return;
        };
        entry.bytes.store(bytes, Ordering::Release);
    }

    /// For the owner: withdraws the segment.
    pub fn close(&self, index: u8) {
        let Some(entry) = self.entries.get(usize::from(index)) else {
            clump_bug::bug!("the owner has an index of the table");
            return;
        };
        let state = entry.state.load(Ordering::Relaxed);
        entry.state.store(state & !1, Ordering::Release);
    }

    /// Returns true if the segment of that generation is exported now.
    #[inline]
    pub fn is_open(&self, index: u8, generation: u32) -> bool {
        let open = u64::from(generation) << 1 | 1;
        let entry = self.entries.get(usize::from(index));
        entry.is_some_and(|entry| entry.state.load(Ordering::Acquire) == open)
    }

    /// Returns the bytes that may be accessed of the segment of that generation; `None` if it is
    /// not exported now.
    #[inline]
    pub fn bytes_of(&self, index: u8, generation: u32) -> Option<u64> {
        let entry = self.entries.get(usize::from(index))?;
        let bytes = entry.bytes.load(Ordering::Acquire);
        self.is_open(index, generation).then_some(bytes)
    }

    /// Returns the generation that is exported at an index, and its extent.
    pub fn look_up(&self, index: u8) -> Option<(u32, Extent)> {
        let entry = self.entries.get(usize::from(index))?;
        // SYNC 12: pairs with open
        let state = entry.state.load(Ordering::Acquire);
        let extent = Extent {
            offset: entry.offset.load(Ordering::Relaxed),
            reserved: entry.reserved.load(Ordering::Relaxed),
            bytes: entry.bytes.load(Ordering::Acquire),
        };
        let same = entry.state.load(Ordering::Relaxed) == state;
        (state & 1 == 1 && same).then_some(((state >> 1) as u32, extent))
    }
}
