//! The cells of one rank, and the view that writes and reads them.
#![allow(clippy::disallowed_types, reason = "taken from clump_os::sync; the lint sees through it")]

use crate::counter::Counter;
use clump_os::sync::{AtomicU64, Ordering};

/// Cells of a block; more than there are counters, so that new counters need no new memory layout.
pub const CAPACITY: usize = 192;

const _: () = assert!(Counter::COUNT <= CAPACITY, "the counter table has outgrown the block");

/// A block that owns its cells: for a job of one rank, and for tests. In a job the cells are in the
/// node's shared memory and only [`Counters::over`] is used.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Block {
    cells: [AtomicU64; CAPACITY],
}

impl Block {
    /// Creates a block of zeroes.
    pub fn new() -> Self {
        Self { cells: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Returns the view that writes and reads it.
    #[inline(always)]
    pub fn counters(&self) -> Counters<'_> {
        Counters { cells: &self.cells }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

/// A view of one rank's cells. Copy it freely; one writer at a time (invariant 1).
#[derive(Debug, Clone, Copy)]
pub struct Counters<'a> {
    cells: &'a [AtomicU64; CAPACITY],
}

impl<'a> Counters<'a> {
    /// Creates a view over cells that another value owns.
    #[inline(always)]
    pub fn over(cells: &'a [AtomicU64; CAPACITY]) -> Self {
        Self { cells }
    }

    /// Creates a view over a slice; `None` if it is shorter than [`CAPACITY`]. Further cells are
    /// left alone.
    #[inline]
    pub fn over_slice(cells: &'a [AtomicU64]) -> Option<Self> {
        cells.first_chunk::<CAPACITY>().map(Self::over)
    }

    /// Adds `amount`, wrapping around. A load and a store: the caller is the only writer at that
    /// time.
    #[inline(always)]
    pub fn add(self, counter: Counter, amount: u64) {
        let cell = &self.cells[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Adds one.
    #[inline(always)]
    pub fn bump(self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Sets the number, for counters that hold a time.
    #[inline(always)]
    pub fn set(self, counter: Counter, value: u64) {
        self.cells[counter as usize].store(value, Ordering::Relaxed);
    }

    /// Returns the number as it is now; of another rank, as it was a moment ago.
    #[inline(always)]
    pub fn get(self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Ordering::Relaxed)
    }

    /// Sets all cells to zero, for memory that is used again.
    pub fn clear(self) {
        for cell in self.cells {
            cell.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_bumping_setting_and_clearing() {
        let block = Block::new();
        let counters = block.counters();
        counters.bump(Counter::Polls);
        counters.add(Counter::Polls, 41);
        counters.set(Counter::Joined, 7);
        assert_eq!(counters.get(Counter::Polls), 42);
        assert_eq!(counters.get(Counter::Joined), 7);
        assert_eq!(counters.get(Counter::Parks), 0);
        counters.add(Counter::Parks, u64::MAX);
        counters.bump(Counter::Parks);
        assert_eq!(counters.get(Counter::Parks), 0, "counters wrap, they do not panic");
        counters.clear();
        assert!(Counter::ALL.iter().all(|&c| counters.get(c) == 0));
    }

    #[test]
    fn a_view_of_foreign_cells_takes_exactly_the_capacity() {
        let cells: Vec<_> = (0..CAPACITY + 3).map(|_| AtomicU64::new(0)).collect();
        assert!(Counters::over_slice(&cells[..CAPACITY - 1]).is_none());
        let counters = Counters::over_slice(&cells).unwrap();
        counters.bump(Counter::RequestShortSent);
        assert_eq!(cells[Counter::RequestShortSent as usize].load(Ordering::Relaxed), 1);
    }
}
