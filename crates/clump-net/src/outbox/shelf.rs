//! Rows of one kind: the one that is being filled, those before it that something still needs, and those kept for reuse.

use super::HEADROOM;
use super::row::{Place, Row};
use std::collections::VecDeque;

/// Bytes of rows kept for reuse of those that were under way at one time.
const SPARE: usize = 1 << 20;
/// Most bytes that rows which are shown may grow to.
const MOST_SPARE: usize = 4 << 20;
/// Every so many rows that are begun one is new until there are so many, so that only long streams have them all.
const GROWING: u64 = 4;

/// See the module. Rows are numbered one by one.
#[derive(Debug)]
pub(super) struct Shelf {
    /// The row that is being filled, those before it that something still needs, and the number of the first.
    row: Row,
    rows: VecDeque<Row>,
    first: u64,
    spare: VecDeque<Row>,
    spare_bytes: usize,
    /// Rows that are shown become more than are needed until there are so many bytes: then one that comes back has left the
    /// caches of the core that received it when it is filled again. Taking every line of it away from there costs five
    /// times as much (ADR 22).
    grows_to: usize,
    capacity: usize,
    tail: usize,
    /// Others read what lies here.
    shown: bool,
}

impl Shelf {
    /// For units of at most `capacity` bytes with `tail` bytes behind each. `shown`: the kernel may read them there.
    pub(super) fn new(capacity: usize, tail: usize, shown: bool) -> Self {
        Self {
            shown,
            row: Row::default(),
            rows: VecDeque::new(),
            first: 0,
            spare: VecDeque::new(),
            spare_bytes: 0,
            grows_to: 0,
            capacity,
            tail,
        }
    }

    /// Rows that are shown become more until they are so many bytes.
    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.grows_to = bytes.min(MOST_SPARE);
        while self.spare_bytes > self.grows_to.max(SPARE)
            && let Some(row) = self.spare.pop_back()
        {
            self.spare_bytes -= row.capacity();
        }
    }

    /// Most bytes of a unit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes behind a unit.
    #[inline]
    pub(super) fn tail(&self) -> usize {
        self.tail
    }

    /// Units may be longer, or shorter, from now on.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.spare.clear();
        self.spare_bytes = 0;
    }

    /// The row that is being filled.
    #[inline]
    pub(super) fn filling(&self) -> &Row {
        &self.row
    }

    /// The same, to be filled.
    #[inline]
    pub(super) fn filling_mut(&mut self) -> &mut Row {
        &mut self.row
    }

    /// The row that is called `row`.
    #[inline]
    pub(super) fn get(&self, row: u64) -> Option<&Row> {
        let at = usize::try_from(row.checked_sub(self.first)?).ok()?;
        if at == self.rows.len() { Some(&self.row) } else { self.rows.get(at) }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, row: u64) -> Option<&mut Row> {
        let at = usize::try_from(row.checked_sub(self.first)?).ok()?;
        if at == self.rows.len() { Some(&mut self.row) } else { self.rows.get_mut(at) }
    }

    /// Whether the row that is being filled takes another unit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.row.has_room(self.capacity, self.tail)
    }

    /// Begins a packet: behind the last one, or in a row of its own; gives where.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        if !self.has_room() {
            self.next_row();
        }
        self.row.begin()
    }

    /// Number of the row that is being filled.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    /// Ends the packet that begins at `at`.
    #[inline]
    pub(super) fn finish(&mut self, at: usize) -> Place {
        let number = self.number();
        self.row.finish(number, at, self.tail)
    }

    fn next_row(&mut self) {
        let there = self.spare_bytes + (self.rows.len() + 1) * self.row.capacity();
        let spare = if !self.shown {
            // The one that came back last, which the cache is likely to hold.
            self.spare.pop_back()
        } else if there < self.grows_to && self.number().is_multiple_of(GROWING) {
            None
        } else {
            self.spare.pop_front()
        };
        let fresh = match spare {
            Some(row) => {
                self.spare_bytes -= row.capacity();
                row
            }
            None => Row::new(self.capacity, self.tail),
        };
        let full = std::mem::replace(&mut self.row, fresh);
        if full.units > 0 {
            self.rows.push_back(full);
        } else {
            self.keep(full);
        }
    }

    /// Keeps a row that nothing needs any more.
    #[inline]
    fn keep(&mut self, mut row: Row) {
        let room = row.capacity();
        let least = HEADROOM + self.capacity + self.tail;
        if room >= least && self.spare_bytes + room <= self.grows_to.max(SPARE) {
            row.clear();
            self.spare_bytes += room;
            self.spare.push_back(row);
        }
    }

    /// A unit of this row is not needed any more.
    #[inline]
    pub(super) fn release(&mut self, row: u64) {
        let Some(row) = self.get_mut(row) else { return };
        row.units = row.units.saturating_sub(1);
        if row.units > 0 {
            return;
        }
        while self.rows.front().is_some_and(|row| row.units == 0) {
            let Some(row) = self.rows.pop_front() else { break };
            self.first += 1;
            self.keep(row);
        }
        if self.row.units == 0 {
            self.row.clear();
        }
    }

    /// Gives up all rows but those kept for reuse.
    pub(super) fn clear(&mut self) {
        (self.row, self.rows) = (Row::default(), VecDeque::new());
    }
}
