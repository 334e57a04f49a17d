//! Copies of elements that were read last, in front of a cache: one place for each of many numbers.
//! A copy is found without a search, where a lookup in the cache or a read of the node's memory
//! takes ten times as long.

use clump::pgas::Element;
use std::cell::{Cell, RefCell};

/// A copy: its number plus one, and true if it is in memory of another node.
#[derive(Debug, Clone, Copy)]
struct RecentCopy<T> {
    name: u32,
    is_far: bool,
    value: T,
}

/// Copies of elements that do not change for a while.
#[derive(Debug)]
pub struct RecentCopies<T> {
    places: RefCell<Vec<RecentCopy<T>>>,
    /// Elements of other nodes that were found.
    far_hits: Cell<u64>,
}

/// Returns the place of an element among so many: numbers are mixed, and scaled down. Where there
/// are as many as a power of two, neighbours have neighbouring places.
#[inline]
pub fn place(number: usize, count: usize) -> usize {
    debug_assert!(count > 0, "there are places");
    if count.is_power_of_two() {
        return number & (count - 1);
    }
    let mixed = (number as u32).wrapping_mul(0x9e37_79b1);
    ((u64::from(mixed) * count as u64) >> 32) as usize
}

impl<T: Element> RecentCopies<T> {
    /// Creates places for up to `most` copies, one at least.
    pub fn new(most: usize) -> Self {
        let none = RecentCopy { name: 0, is_far: false, value: T::new_zeroed() };
        Self { places: RefCell::new(vec![none; most.max(1)]), far_hits: Cell::new(0) }
    }

    /// Returns the elements of other nodes that were found.
    pub fn far_hits(&self) -> u64 {
        self.far_hits.get()
    }

    /// Runs `run` on the copy of an element, if there is one; else returns it.
    ///
    /// # Errors
    /// Returns `run` if there is none.
    #[inline]
    pub fn with<R, F: FnOnce(&T) -> R>(&self, number: usize, run: F) -> Result<R, F> {
        let places = self.places.borrow();
        match places.get(place(number, places.len())) {
            Some(copy) if copy.name as usize == number + 1 => {
                self.far_hits.set(self.far_hits.get() + u64::from(copy.is_far));
                Ok(run(&copy.value))
            }
            _ => Err(run),
        }
    }

    /// Forgets all copies: elements may have changed.
    pub fn clear(&self) {
        self.places.borrow_mut().iter_mut().for_each(|place| place.name = 0);
    }

    /// Keeps a copy of an element, in the place of another.
    pub fn keep(&self, number: usize, is_far: bool, value: T) {
        let mut places = self.places.borrow_mut();
        let at = place(number, places.len());
        debug_assert!(number < u32::MAX as usize, "a number fits into a word");
        if let Some(place) = places.get_mut(at) {
            *place = RecentCopy { name: number as u32 + 1, is_far, value };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RecentCopies;

    #[test]
    fn a_copy_is_found_until_another_takes_its_place() {
        for most in [0, 1, 2, 3, 7, 1000] {
            let copies = RecentCopies::new(most);
            let find = |number: usize| copies.with(number, |value| *value).ok();
            assert_eq!(find(0), None);
            copies.keep(0, true, 7_u64);
            assert_eq!((find(0), find(1)), (Some(7), None));
            let count = most.max(1);
            let place = |number: usize| super::place(number, count);
            let other = (1..).find(|&number| place(number) == place(0)).unwrap();
            copies.keep(other, false, 8);
            assert_eq!((find(0), find(other)), (None, Some(8)));
            assert_eq!(copies.far_hits(), 1);
            copies.clear();
            assert_eq!((find(0), find(other)), (None, None));
            let used: std::collections::HashSet<_> = (0..20 * count).map(place).collect();
            assert_eq!(used.len(), count, "each place is that of some number");
        }
    }
}
