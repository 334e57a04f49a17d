//! Habits of a rank with locks: which of them it enters again before another node does, and how
//! often it releases any. They say when a release is put off.

use clump_os::clock;
use clump_os::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Longest mean time between releases at which a rank puts off what it has to publish. Others that
/// want it wait for about so long; a release that publishes takes some 60 us (ADR 64). On any path.
const SOON_NS: u64 = 100_000;
/// Time that counts for a longer one, so that a phase without locks is forgotten soon.
const LONGEST_NS: u64 = 16 * SOON_NS;
/// Part of a mean that one time, or one entry, has.
const SHARE: u64 = 8;
/// An entry of a lock that lay here, in the mean of all.
const ALL_HERE: u32 = 256;
/// Entries of a lock in a row, each of which found it here, behind which its releases are put off
/// however rare they are: the rank that wants it in the end waits for a millisecond, which is what
/// so many releases have saved.
const OFTEN: u8 = 16;
/// Locks that are told from each other.
const LOCKS: usize = 4096;

/// Habits of a rank. Threads that change one at once lose at most a count.
#[derive(Debug)]
pub(crate) struct LockHabit {
    last_ns: AtomicU64,
    mean_ns: AtomicU64,
    /// Mean of entries that found a lock here.
    here: AtomicU32,
    /// By lock: the last entries in a row that did.
    in_a_row: Box<[AtomicU8]>,
}

impl Default for LockHabit {
    fn default() -> Self {
        let (last_ns, mean_ns) = (AtomicU64::new(0), AtomicU64::new(LONGEST_NS));
        let in_a_row = (0..LOCKS).map(|_| AtomicU8::new(0)).collect();
        Self { last_ns, mean_ns, here: AtomicU32::new(0), in_a_row }
    }
}

impl LockHabit {
    fn in_a_row(&self, lock: u64) -> &AtomicU8 {
        &self.in_a_row[lock as usize % LOCKS]
    }

    /// Notes that the rank enters a lock, which its node had last or not.
    pub(crate) fn enter(&self, lock: u64, was_here: bool) {
        let here = self.here.load(Ordering::Relaxed);
        let now = if was_here { ALL_HERE } else { 0 };
        let mean = here - here / SHARE as u32 + now / SHARE as u32;
        debug_assert!(mean <= 2 * ALL_HERE, "a mean");
        self.here.store(mean, Ordering::Relaxed);
        debug_assert!(self.in_a_row.len() == LOCKS, "a count for each");
        let row = self.in_a_row(lock);
        let entries = if was_here { row.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        row.store(entries, Ordering::Relaxed);
    }

    /// Notes a release now. Returns true if it is to be put off.
    pub(crate) fn release(&self, lock: u64) -> bool {
        self.release_at(lock, clock::ticked_ns())
    }

    fn release_at(&self, lock: u64, now_ns: u64) -> bool {
        let before = self.last_ns.swap(now_ns, Ordering::Relaxed);
        let passed = now_ns.saturating_sub(before).min(LONGEST_NS);
        let mean = self.mean_ns.load(Ordering::Relaxed);
        let mean = mean - mean / SHARE + passed / SHARE;
        debug_assert!(mean <= LONGEST_NS, "a mean of times that are not longer");
        self.mean_ns.store(mean, Ordering::Relaxed);
        let soon = mean <= SOON_NS && self.here.load(Ordering::Relaxed) >= ALL_HERE / 2;
        soon || self.in_a_row(lock).load(Ordering::Relaxed) >= OFTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters and releases a lock so often, so long after each other. Returns true if the last
    /// release is to be put off.
    fn turns(
        (habit, now): (&LockHabit, &mut u64),
        (lock, was_here): (u64, bool),
        (step, times): (u64, u32),
    ) -> bool {
        (0..times).fold(false, |_, _| {
            *now += step;
            habit.enter(lock, was_here);
            habit.release_at(lock, *now)
        })
    }

    #[test]
    fn a_rank_that_releases_often_what_its_node_had_puts_off() {
        let (habit, mut now) = (LockHabit::default(), 5);
        let at = &mut (&habit, &mut now);
        let mut after = |was_here, step, times| {
            (0..times).fold(false, |_, turn| {
                // Each lock once.
                turns((at.0, at.1), (turn, was_here), (step, 1))
            })
        };
        assert!(!after(true, 10_000, 5), "it is not known yet");
        assert!(after(true, 10_000, 50));
        assert!(!after(true, 1 << 40, 1), "a long phase without");
        assert!(after(true, 10_000, 50));
        assert!(!after(false, 10_000, 50), "locks that others have had");
        assert!(!after(true, SOON_NS * 2, 50), "too seldom");
    }

    #[test]
    fn a_lock_that_stays_is_put_off_however_seldom_it_is_entered() {
        let (habit, mut now) = (LockHabit::default(), 5);
        let seldom = 1 << 30;
        assert!(!turns((&habit, &mut now), (3, true), (seldom, u32::from(OFTEN) - 1)));
        assert!(turns((&habit, &mut now), (3, true), (seldom, 300)));
        assert!(!turns((&habit, &mut now), (4, true), (seldom, 1)), "another lock");
        assert!(!turns((&habit, &mut now), (3, false), (seldom, 1)), "others have had it");
    }
}
