//! The queue of partial tours in shared memory.

use crate::tsp::distances::Distances;
use crate::tsp::partial_tour::{PartialTour, ShortestTour, TourRecord};
use clump::svm::{Home, SharedArray, SharedLocks, Svm};

/// Entry of the heap: a lower bound with a rank among equals, and the slot of its tour.
type QueueEntry = [u64; 2];

/// Numbers that the queue has: entries of the heap, slots that were given back, slots ever used.
const ENTRIES: usize = 0;
const FREE: usize = 1;
const USED: usize = 2;

/// A queue of partial tours for all ranks, the one with the smallest lower bound first, under one
/// lock.
#[derive(Debug)]
pub struct TourQueue {
    lock: SharedLocks,
    numbers: SharedArray<u64>,
    /// A binary heap: no entry is smaller than that at half its place.
    heap: SharedArray<QueueEntry>,
    tours: SharedArray<TourRecord>,
    /// Slots of tours that were taken.
    free: SharedArray<u32>,
    /// Cities that are left when a tour is completed instead of split.
    solve_below: usize,
}

/// Tours that a rank has taken from the queue, and what it did there.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueUse {
    /// Tours that it took to complete.
    pub taken: u64,
    /// Tours that it split.
    pub split: u64,
    /// Tours that it completed although more cities were left, because the queue was full.
    pub early: u64,
}

impl TourQueue {
    /// Allocates a queue of `capacity` tours that has the first alone; tours with fewer than
    /// `solve_below` cities left are not split. A collective, with a barrier.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, capacity: usize, solve_below: usize) -> clump::Result<Self> {
        let queue = Self {
            lock: svm.locks(1)?,
            numbers: svm.array(3, Home::Node(0))?,
            heap: svm.array(capacity, Home::Node(0))?,
            tours: svm.array(capacity, Home::Node(0))?,
            free: svm.array(capacity, Home::Node(0))?,
            solve_below,
        };
        if svm.rank() == 0 {
            queue.push(&PartialTour::first(), 0);
        }
        svm.barrier()?;
        Ok(queue)
    }

    fn number(&self, which: usize) -> usize {
        self.numbers.get(which) as usize
    }

    fn set_number(&self, which: usize, value: usize) {
        self.numbers.set(which, value as u64);
    }

    /// Returns the number of tours that have room yet. Under the lock.
    fn room(&self) -> usize {
        self.heap.len() - self.number(ENTRIES)
    }

    /// Puts a tour in. Under the lock, with room.
    fn push(&self, tour: &PartialTour, bound: u64) {
        let (entries, free) = (self.number(ENTRIES), self.number(FREE));
        debug_assert!(entries < self.heap.len(), "there is room");
        let slot = match free.checked_sub(1) {
            Some(last) => {
                self.set_number(FREE, last);
                self.free.get(last) as usize
            }
            None => {
                let fresh = self.number(USED);
                self.set_number(USED, fresh + 1);
                fresh
            }
        };
        self.tours.set(slot, tour.to_words());
        // Of equals, the one that is nearer to its end.
        let key = bound << 8 | (255 - tour.cities().len()) as u64;
        let (entry, mut at) = ([key, slot as u64], entries);
        while at > 0 && self.heap.get((at - 1) / 2) > entry {
            self.heap.set(at, self.heap.get((at - 1) / 2));
            at = (at - 1) / 2;
        }
        self.heap.set(at, entry);
        self.set_number(ENTRIES, entries + 1);
    }

    /// Takes the tour with the smallest lower bound out, with that bound. Under the lock.
    fn pop(&self) -> Option<(PartialTour, u64)> {
        let last = self.number(ENTRIES).checked_sub(1)?;
        let [key, slot] = self.heap.get(0);
        let (moved, mut at) = (self.heap.get(last), 0);
        self.set_number(ENTRIES, last);
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let smaller = if right < last && self.heap.get(right) < self.heap.get(left) {
                right
            } else {
                left
            };
            if smaller >= last || self.heap.get(smaller) >= moved {
                break;
            }
            self.heap.set(at, self.heap.get(smaller));
            at = smaller;
        }
        if last > 0 {
            self.heap.set(at, moved);
        }
        let free = self.number(FREE);
        self.free.set(free, slot as u32);
        self.set_number(FREE, free + 1);
        Some((PartialTour::from_words(self.tours.get(slot as usize)), key >> 8))
    }

    /// Takes the next tour to complete; none if no other tour can be shorter than the shortest.
    /// Tours that are too short to be completed are split until one is not.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn take(
        &self,
        distances: &Distances,
        shortest: &impl ShortestTour,
        uses: &mut QueueUse,
    ) -> clump::Result<Option<PartialTour>> {
        let held = self.lock.lock(0)?;
        let mut taken = None;
        while let Some((tour, bound)) = self.pop() {
            if bound >= shortest.limit() {
                // All others have no smaller bound.
                self.set_number(ENTRIES, 0);
                self.set_number(FREE, 0);
                self.set_number(USED, 0);
                break;
            }
            let left = distances.cities() - tour.cities().len();
            let full = self.room() < left;
            if left < self.solve_below || full {
                uses.taken += 1;
                uses.early += u64::from(left >= self.solve_below);
                taken = Some(tour);
                break;
            }
            uses.split += 1;
            for longer in tour.split(distances) {
                let bound = longer.lower_bound(distances);
                if bound < shortest.limit() {
                    self.push(&longer, bound);
                }
            }
        }
        held.release()?;
        Ok(taken)
    }
}
