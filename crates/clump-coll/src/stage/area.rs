//! The layout of a stage's memory: a front at the first rank of the group, with a cell for each
//! rank and slot, and behind it a rank's own long slots.
//!
//! Short contributions lie in the cells, so that a rank that reads all of them touches few pages:
//! after a process switch each costs a page walk (ADR 7).

use super::numbering::{SLOTS, slot_of};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Bytes of a long slot.
pub(crate) const CHUNK: usize = 128 << 10;
/// Ranks of a group.
pub(crate) const MAX_MEMBERS: usize = 64;
/// Bytes that a cell holds.
pub(crate) const INLINE: usize = CELL - HEADER;

const CELL: usize = 256;
const HEADER: usize = 24;
const LINE: usize = 64;
/// The number of the team that uses the area.
const OWNER: u64 = 0;
/// The number of ranks that sleep.
const ASLEEP: u64 = 64;
const TAKEN: u64 = 4096;
const CELLS: u64 = TAKEN + (MAX_MEMBERS * LINE) as u64;
const FRONT: u64 = CELLS + (SLOTS * MAX_MEMBERS * CELL) as u64;
/// Bytes of an area.
pub(crate) const AREA: u64 = FRONT + (SLOTS * CHUNK) as u64;
/// Within a member's line: what it waits for while it sleeps; of which members (a bit each), and
/// a contribution, 0 if it does not sleep.
const AWAITED_KIND: u64 = 8;
const AWAITED_OF: u64 = 16;
const AWAITED: u64 = 24;
/// Marks a contribution that lies in a long slot.
const LONG: u64 = 1 << 63;
/// Bits of the bytes of a whole; the operation stands above.
const TOTAL_BITS: u32 = 56;

/// Returns where a long slot begins.
pub(crate) fn long_slot(slot: usize) -> u64 {
    debug_assert!(slot < SLOTS, "a slot of an area");
    FRONT + (slot * CHUNK) as u64
}

/// Description of a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellHeader {
    /// Place of the operation in the table of all.
    pub(crate) operation: u8,
    /// Bytes of the whole, of which this is a chunk.
    pub(crate) total: u64,
    /// Bytes of the chunk.
    pub(crate) len: usize,
    /// True if it lies in a long slot.
    pub(crate) long: bool,
}

/// An event that a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Members' contributions of this number.
    Posted(u64),
    /// Members to have read everything up to a contribution.
    Taken(u64),
}

/// The front of a group, as mapped here.
#[derive(Debug)]
pub(crate) struct Front {
    cells: Cells,
    /// Offset of the area.
    at: u64,
}

impl Front {
    /// Creates the front at `at` of a region; `None` if the area is not all inside.
    pub(crate) fn new(cells: Cells, at: u64) -> Option<Self> {
        (at.is_multiple_of(4096) && cells.holds(at, AREA)).then_some(Self { cells, at })
    }

    /// Clears it for the team `owner`. Nobody else uses it meanwhile.
    pub(crate) fn clear(&self, owner: u64) {
        let words = self.cells.words(self.at, (FRONT / 8) as usize);
        words.unwrap_or_default().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.set_owner(owner);
    }

    /// Sets the number of the team that uses it.
    pub(crate) fn set_owner(&self, owner: u64) {
        self.with(OWNER, |word| word.store(owner, Ordering::Relaxed));
    }

    /// Returns the number of the team that uses it.
    pub(crate) fn owner(&self) -> u64 {
        self.with(OWNER, |word| word.load(Ordering::Relaxed))
    }

    /// Counts ranks that go to sleep, or that are awake again.
    pub(crate) fn count_asleep(&self, more: bool) {
        self.with(ASLEEP, |word| match more {
            true => word.fetch_add(1, Ordering::SeqCst),
            false => word.fetch_sub(1, Ordering::SeqCst),
        });
    }

    /// Returns true if a rank sleeps or is about to. Called after a light fence.
    pub(crate) fn anyone_asleep(&self) -> bool {
        self.with(ASLEEP, |word| word.load(Ordering::Relaxed)) != 0
    }

    /// For the member, before it counts itself asleep: `of`, a bit for each, are missing.
    pub(crate) fn set_awaited(&self, member: usize, awaited: Awaited, of: u64) {
        debug_assert!(of >> member & 1 == 0, "nobody waits for itself");
        let at = Self::taken_at(member);
        let (kind, number) = match awaited {
            Awaited::Posted(number) => (0, number),
            Awaited::Taken(number) => (1, number),
        };
        self.with(at + AWAITED_KIND, |word| word.store(kind, Ordering::Relaxed));
        self.with(at + AWAITED_OF, |word| word.store(of, Ordering::Relaxed));
        // SYNC 40: pairs with awaited
        self.with(at + AWAITED, |word| word.store(number, Ordering::Release));
    }

    /// For the member: it is awake.
    pub(crate) fn clear_awaited(&self, member: usize) {
        self.with(Self::taken_at(member) + AWAITED, |word| word.store(0, Ordering::Relaxed));
    }

    /// Returns what a member that sleeps waits for, and of which members.
    pub(crate) fn awaited(&self, member: usize) -> Option<(Awaited, u64)> {
        let at = Self::taken_at(member);
        // SYNC 40: pairs with set_awaited
        let number = self.with(at + AWAITED, |word| word.load(Ordering::Acquire));
        (number != 0).then(|| {
            let kind = self.with(at + AWAITED_KIND, |word| word.load(Ordering::Relaxed));
            let of = self.with(at + AWAITED_OF, |word| word.load(Ordering::Relaxed));
            (if kind == 0 { Awaited::Posted(number) } else { Awaited::Taken(number) }, of)
        })
    }

    /// Returns true if a member has done what is awaited of it.
    pub(crate) fn is_done(&self, member: usize, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Posted(number) => self.header(member, number).is_some(),
            Awaited::Taken(number) => self.taken(member) >= number,
        }
    }

    /// Returns up to which contribution a member has read those of all others.
    pub(crate) fn taken(&self, member: usize) -> u64 {
        // SYNC 38: pairs with set_taken
        self.with(Self::taken_at(member), |word| word.load(Ordering::Acquire))
    }

    /// For the member: it has read everything up to a contribution.
    pub(crate) fn set_taken(&self, member: usize, number: u64) {
        // SYNC 38: pairs with taken
        self.with(Self::taken_at(member), |word| word.store(number, Ordering::Release));
    }

    /// Returns the header of a contribution, if it is there.
    pub(crate) fn header(&self, member: usize, number: u64) -> Option<CellHeader> {
        let at = Self::cell_at(member, slot_of(number));
        // SYNC 39: pairs with publish
        let there = self.with(at, |word| word.load(Ordering::Acquire)) == number;
        there.then(|| {
            let total = self.with(at + 8, |word| word.load(Ordering::Relaxed));
            let len = self.with(at + 16, |word| word.load(Ordering::Relaxed));
            let (operation, total) = ((total >> TOTAL_BITS) as u8, total & ((1 << TOTAL_BITS) - 1));
            CellHeader { operation, total, len: (len & !LONG) as usize, long: len & LONG != 0 }
        })
    }

    /// Makes a contribution known, whose bytes were written.
    pub(crate) fn publish(&self, member: usize, number: u64, header: CellHeader) {
        debug_assert!(header.long || header.len <= INLINE, "a cell holds it");
        let at = Self::cell_at(member, slot_of(number));
        debug_assert!(header.total < 1 << TOTAL_BITS, "collectives refuse as many");
        let len = header.len as u64 | if header.long { LONG } else { 0 };
        let total = header.total | (u64::from(header.operation) << TOTAL_BITS);
        self.with(at + 8, |word| word.store(total, Ordering::Relaxed));
        self.with(at + 16, |word| word.store(len, Ordering::Relaxed));
        // SYNC 39: pairs with header
        self.with(at, |word| word.store(number, Ordering::Release));
    }

    /// Writes bytes into a cell.
    pub(crate) fn write(&self, (member, slot): (usize, usize), offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= INLINE, "a cell holds it");
        let at = self.at + Self::cell_at(member, slot) + (HEADER + offset) as u64;
        let written = self.cells.write(at, bytes);
        debug_assert!(written, "cells lie in the area");
    }

    /// Reads bytes of a cell; false if it does not hold as many.
    pub(crate) fn read(
        &self,
        (member, slot): (usize, usize),
        offset: usize,
        to: &mut [u8],
    ) -> bool {
        let at = self.at + Self::cell_at(member, slot) + (HEADER + offset) as u64;
        offset + to.len() <= INLINE && self.cells.read(at, to)
    }

    fn taken_at(member: usize) -> u64 {
        debug_assert!(member < MAX_MEMBERS, "a member of a group");
        TAKEN + (member * LINE) as u64
    }

    fn cell_at(member: usize, slot: usize) -> u64 {
        debug_assert!(member < MAX_MEMBERS && slot < SLOTS, "a cell of the front");
        CELLS + ((slot * MAX_MEMBERS + member) * CELL) as u64
    }

    fn with<R: Default>(&self, at: u64, use_word: impl FnOnce(&AtomicU64) -> R) -> R {
        let word = self.cells.word(self.at + at);
        debug_assert!(word.is_some(), "the front lies in the area, and words are aligned");
        word.map(use_word).unwrap_or_default()
    }
}
