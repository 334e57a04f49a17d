//! The part of the heap that single ranks allocate from, and give back to.
//!
//! Pages are handed out under a lock of all ranks; what is free, and how long allocations are, lies
//! in the heap itself. Small objects come from pages that a rank has taken for them.

use crate::settings::Home;

/// Largest small object, in bytes.
pub(crate) const MAX_SMALL: u64 = 1024;
/// Smallest, as a power of two.
const MIN_SHIFT: u32 = 4;
/// Sizes of small objects: powers of two.
const CLASSES: usize = (MAX_SMALL.ilog2() - MIN_SHIFT) as usize + 1;
/// Pages that a rank takes for small objects at once.
pub(crate) const CHUNK_PAGES: u64 = 16;
/// Runs of free pages that are remembered; what is given back beyond that is not used again.
pub(crate) const MAX_RUNS: usize = 1000;
/// Mark of pages of small objects, in place of a length.
const SMALL: u64 = 1 << 32;

/// Words of the list of free runs: the first page never handed out, the number of runs, and three
/// words a run.
pub(crate) const STATE_WORDS: usize = 2 + 3 * MAX_RUNS;

/// Memory of `u64` words that all ranks share, used under the lock alone.
pub(crate) trait SharedWords {
    /// Returns a word.
    fn get(&self, at: usize) -> u64;
    /// Sets a word.
    fn set(&self, at: usize, value: u64);
}

/// Returns a number for a rule, below 2^31.
pub(crate) fn rule_number(home: Home) -> u64 {
    let [rule, node] = home.pack();
    rule | node << 2
}

/// List of free pages, as words in shared memory; used under the lock.
#[derive(Debug)]
pub(crate) struct FreePages<'a, W> {
    pub(crate) state: &'a W,
    /// Pages of this part of the heap.
    pub(crate) pages: u64,
}

impl<W: SharedWords> FreePages<'_, W> {
    fn run(&self, at: usize) -> (u64, u64, u64) {
        let word = |n| self.state.get(2 + at * 3 + n);
        (word(0), word(1), word(2))
    }

    fn set_run(&self, at: usize, (first, pages, rule): (u64, u64, u64)) {
        for (n, value) in (0..).zip([first, pages, rule]) {
            self.state.set(2 + at * 3 + n, value);
        }
    }

    fn remove(&self, at: usize) {
        let last = self.state.get(1) as usize - 1;
        self.set_run(at, self.run(last));
        self.state.set(1, last as u64);
    }

    /// Takes pages that were never used, or free ones of the same rule. Returns the first, and true
    /// if they are new.
    pub(crate) fn take(&self, pages: u64, rule: u64) -> Option<(u64, bool)> {
        for at in 0..self.state.get(1) as usize {
            let (first, free, its) = self.run(at);
            if its != rule || free < pages {
                continue;
            }
            if free == pages {
                self.remove(at);
            } else {
                self.set_run(at, (first + pages, free - pages, rule));
            }
            return Some((first, false));
        }
        let first = self.state.get(0);
        if pages > self.pages - first {
            return None;
        }
        self.state.set(0, first + pages);
        Some((first, true))
    }

    /// Gives pages back.
    pub(crate) fn give(&self, first: u64, pages: u64, rule: u64) {
        let (mut first, mut pages) = (first, pages);
        let mut at = 0;
        while at < self.state.get(1) as usize {
            let (other, free, its) = self.run(at);
            let beside = its == rule && (other + free == first || first + pages == other);
            if beside {
                (first, pages) = (first.min(other), pages + free);
                self.remove(at);
                at = 0;
            } else {
                at += 1;
            }
        }
        let runs = self.state.get(1) as usize;
        if runs < MAX_RUNS {
            self.set_run(runs, (first, pages, rule));
            self.state.set(1, runs as u64 + 1);
        }
    }
}

/// Record of an allocation, in the word of its first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// No allocation begins here.
    Free,
    /// So many pages, of this rule.
    Pages(u64, u64),
    /// Small objects of this class.
    Small(usize),
}

impl PageUse {
    pub(crate) fn pack(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Pages(pages, rule) => {
                debug_assert!(pages > 0 && pages < SMALL && rule < 1 << 31, "they fit");
                pages | rule << 33
            }
            Self::Small(class) => SMALL | class as u64,
        }
    }

    pub(crate) fn unpack(word: u64) -> Self {
        match (word & SMALL != 0, word & (SMALL - 1)) {
            (true, class) => Self::Small((class as usize).min(CLASSES - 1)),
            (false, 0) => Self::Free,
            (false, pages) => Self::Pages(pages, word >> 33),
        }
    }
}

/// Returns the class of small objects of so many bytes.
pub(crate) fn class_of(bytes: u64) -> usize {
    debug_assert!(bytes <= MAX_SMALL, "it is small");
    let shift = bytes.max(1 << MIN_SHIFT).next_power_of_two().ilog2();
    (shift - MIN_SHIFT) as usize
}

/// Returns the bytes of an object of a class.
pub(crate) fn class_bytes(class: usize) -> u64 {
    1 << (class as u32 + MIN_SHIFT)
}

/// Small objects that a rank has for itself, as offsets in the heap.
#[derive(Debug, Default)]
pub(crate) struct OwnObjects {
    free: [Vec<u64>; CLASSES],
}

impl OwnObjects {
    /// Takes an object.
    pub(crate) fn take(&mut self, class: usize) -> Option<u64> {
        self.free[class].pop()
    }

    /// Gives an object.
    pub(crate) fn give(&mut self, class: usize, offset: u64) {
        self.free[class].push(offset);
    }

    /// Adds the objects of new pages, the first to be taken first.
    pub(crate) fn add_pages(&mut self, class: usize, offset: u64, bytes: u64) {
        let size = class_bytes(class);
        debug_assert!(bytes.is_multiple_of(size), "objects fill their pages");
        self.free[class].extend((0..bytes / size).rev().map(|at| offset + at * size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Words(RefCell<Vec<u64>>);

    impl SharedWords for Words {
        fn get(&self, at: usize) -> u64 {
            self.0.borrow()[at]
        }

        fn set(&self, at: usize, value: u64) {
            self.0.borrow_mut()[at] = value;
        }
    }

    #[test]
    fn pages_are_taken_once_and_again_when_they_are_free() {
        let state = Words(RefCell::new(vec![0; STATE_WORDS]));
        let free = FreePages { state: &state, pages: 100 };
        assert_eq!(free.take(60, 0), Some((0, true)));
        assert_eq!(free.take(41, 0), None, "full");
        assert_eq!(free.take(20, 1), Some((60, true)));
        free.give(0, 60, 0);
        assert_eq!(free.take(10, 1), Some((80, true)), "free pages of another rule stay");
        assert_eq!(free.take(10, 0), Some((0, false)));
        assert_eq!(free.take(10, 0), Some((10, false)));
        free.give(0, 10, 0);
        assert_eq!(free.take(41, 0), None);
        free.give(10, 10, 0);
        assert_eq!(free.take(60, 0), Some((0, false)), "neighbours are one run again");
    }

    #[test]
    fn the_list_of_free_runs_is_bounded() {
        let state = Words(RefCell::new(vec![0; STATE_WORDS]));
        let free = FreePages { state: &state, pages: 1 << 20 };
        let taken: Vec<u64> = (0..3000).map(|_| free.take(1, 3).unwrap().0).collect();
        taken.iter().step_by(2).for_each(|&page| free.give(page, 1, 3));
        assert_eq!(state.get(1), MAX_RUNS as u64);
    }

    #[test]
    fn uses_of_pages_are_read_as_written() {
        for one in [
            PageUse::Free,
            PageUse::Pages(1, 0),
            PageUse::Pages(u64::from(u32::MAX), rule_number(Home::Node(1000))),
            PageUse::Small(0),
            PageUse::Small(CLASSES - 1),
        ] {
            assert_eq!(PageUse::unpack(one.pack()), one);
        }
        assert_eq!((class_of(1), class_of(17), class_of(MAX_SMALL)), (0, 1, CLASSES - 1));
        assert!((0..CLASSES).all(|class| class_of(class_bytes(class)) == class));
    }

    #[test]
    fn small_objects_do_not_overlap() {
        let mut own = OwnObjects::default();
        own.add_pages(2, 4096, 8192);
        let taken: Vec<u64> = std::iter::from_fn(|| own.take(2)).collect();
        assert_eq!(taken.len(), 128);
        assert!(taken.windows(2).all(|pair| pair[0] + 64 == pair[1]));
        own.give(2, 5000);
        assert_eq!(own.take(2), Some(5000));
    }
}
