//! The shortest tour so far, in shared memory.

use crate::tsp::partial_tour::{PartialTour, ShortestTour};
use clump::svm::{Home, SharedArray, SharedMutex, Svm};
use std::cell::Cell;

/// Lengths that are published to ranks without the lock: a page.
const PUBLISHED: usize = 512;

/// Tours that ranks have found, as one rank sees them. The shortest changes under a lock; its
/// length is read without it, as in the program of TreadMarks.
///
/// Such a read may return an old length, until the rank takes a lock that others have held since.
/// An old length is longer, so that a rank looks at tours in vain, but leaves none out. Nor does it
/// matter that memory may bring a word in parts: each shorter length is stored in a word of its
/// own, which is zero before and never changes again, and has the complement of the length. Parts
/// that have not come are zero, so that the length is read as longer than it is.
#[derive(Debug)]
pub struct FoundTours {
    /// The shortest tour, with its length, and the number of published lengths.
    shortest: SharedMutex<[u64; 7]>,
    /// Complements of lengths, each shorter than the one before.
    told: SharedArray<u64>,
    /// The last of them that this rank has seen.
    seen: Cell<usize>,
}

impl FoundTours {
    /// Allocates it, without a tour. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm) -> clump::Result<Self> {
        let (shortest, told) = (svm.mutex()?, svm.array(PUBLISHED, Home::Node(0))?);
        Ok(Self { shortest, told, seen: Cell::new(0) })
    }

    /// Returns the shortest tour and the number of times that a shorter one was found; no tour
    /// before the first.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn shortest(&self) -> clump::Result<(Option<PartialTour>, u64)> {
        let held = self.shortest.lock()?;
        let [times, tour @ ..] = held.get();
        held.release()?;
        Ok(((times > 0).then(|| PartialTour::from_words(tour)), times))
    }

    /// Returns the length that a complement has: the largest number for a word that has not come.
    fn length(&self, at: usize) -> u64 {
        !self.told.get(at)
    }
}

impl ShortestTour for FoundTours {
    type Failure = clump::Error;

    #[inline]
    fn limit(&self) -> u64 {
        let mut seen = self.seen.get();
        while seen + 1 < PUBLISHED && self.told.get(seen + 1) > 0 {
            seen += 1;
            self.seen.set(seen);
        }
        self.length(seen)
    }

    fn found(&self, length: u64, tour: &[u8]) -> clump::Result<()> {
        let held = self.shortest.lock()?;
        let [times, before @ ..] = held.get();
        // Another rank may have found a shorter one since the limit was read.
        if times == 0 || length < before[0] {
            debug_assert!(length > 0, "a complement of 0 is no length");
            let mut value = [times + 1; 7];
            value[1..].copy_from_slice(&PartialTour::round(tour, length).to_words());
            held.set(value);
            if (times as usize) < PUBLISHED {
                self.told.set(times as usize, !length);
            }
        }
        Ok(held.release()?)
    }
}
