//! Layout of the segment that every rank exports.

use clump_am::{RankContext, Region, Settings};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use clump_shm::queue_lock::{QueueLock, lock_words};
use std::sync::Arc;

/// Words that all ranks add to.
pub(crate) const TICKETS: u64 = 6;
/// Offset of the signals of all ranks.
const SIGNALS: u64 = 64;
/// Offset of the mailbox slots of all ranks.
const MAILBOXES: u64 = 1 << 10;
/// Slots of each rank, from [`MAILBOXES`] on.
pub(crate) const SLOTS: u64 = 16;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 64;
/// Offset of the ranks' parts.
const PARTS: u64 = 1 << 14;
/// Bytes of a part.
pub(crate) const PART: u64 = 12 << 10;
/// Distance from the lock to the flag.
const FLAG: u64 = 1 << 12;

/// The segments of all ranks: one each.
#[derive(Debug)]
pub(crate) struct Layout {
    ranks: u32,
    pub(crate) node_of: Vec<u32>,
    names: Vec<SegmentName>,
    cells: Vec<Cells>,
    guards: u64,
    /// Kept, so that they stay exported.
    _regions: Vec<Region>,
}

impl Layout {
    /// Exports a segment for every rank.
    pub(crate) fn export(node_of: &[u32], memories: &[NodeMemory]) -> clump_am::Result<Self> {
        let ranks = node_of.len() as u32;
        let guards = PARTS + u64::from(ranks) * PART;
        let bytes = (guards + 2 * FLAG).next_multiple_of(4096);
        let (mut names, mut cells, mut regions) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, &node) in (0..).zip(node_of) {
            let memory = &memories[node as usize];
            let context = Arc::new(RankContext::new(memory, rank, Settings::default())?);
            let region = Region::register(&context, bytes, bytes)?;
            let gone = || clump_am::ErrorKind::Network("it is not exported".into());
            let (mapped, _) = memory.exported(region.name())?.ok_or_else(gone)?;
            names.push(region.name());
            cells.push(mapped);
            regions.push(region);
        }
        let node_of = node_of.to_vec();
        Ok(Self { ranks, node_of, names, cells, guards, _regions: regions })
    }

    pub(crate) fn node(&self, rank: u32) -> u32 {
        self.node_of[rank as usize]
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.node_of.last().map_or(0, |last| last + 1)
    }

    /// Returns the lowest rank of a rank's node.
    pub(crate) fn first_of_node(&self, rank: u32) -> u32 {
        let node = self.node(rank);
        self.node_of.iter().take_while(|&&other| other != node).count() as u32
    }

    /// Returns the name of a rank's segment, as bits.
    pub(crate) fn bits(&self, rank: u32) -> u64 {
        self.name(rank).to_bits()
    }

    pub(crate) fn name(&self, rank: u32) -> SegmentName {
        self.names[rank as usize]
    }

    /// Returns a rank's segment, for ranks of its node and for the model.
    pub(crate) fn cells(&self, rank: u32) -> &Cells {
        &self.cells[rank as usize]
    }

    /// Returns the offset of the signal from a rank.
    pub(crate) fn signal(from: u32) -> u64 {
        SIGNALS + u64::from(from) * 8
    }

    /// Returns the offset of message number `n` from a rank.
    pub(crate) fn slot(from: u32, n: u64) -> u64 {
        MAILBOXES + (u64::from(from) * SLOTS + n % SLOTS) * SLOT
    }

    /// Returns the offset of a rank's part.
    pub(crate) fn part(of: u32) -> u64 {
        PARTS + u64::from(of) * PART
    }

    /// Returns the offset of the lock.
    pub(crate) fn lock_at(&self) -> u64 {
        self.guards
    }

    /// Returns the offset of the flag.
    pub(crate) fn flag_at(&self) -> u64 {
        self.guards + FLAG
    }

    /// Returns the lock of a rank's segment.
    pub(crate) fn lock(&self, home: u32) -> Option<QueueLock<'_>> {
        let words = self.cells(home).words(self.guards, lock_words(self.ranks as usize))?;
        QueueLock::over(words)
    }

    /// Returns a word of a rank's segment.
    pub(crate) fn word(&self, rank: u32, offset: u64) -> u64 {
        let word = self.cells(rank).word(offset);
        word.map_or(0, |word| word.load(clump_os::sync::Ordering::SeqCst))
    }
}
