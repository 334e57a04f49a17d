//! Elements of a spread array that a rank holds: its own, and copies of others that were read last.
//! An element is found by one look at a table.

use crate::recent_copies;
use clump::pgas::Element;
use std::cell::{Cell, RefCell};

/// The place of an element that is not held.
const ABSENT: u32 = u32::MAX;

/// An element that is held.
#[derive(Debug, Clone, Copy)]
struct HeldElement<T> {
    value: T,
    /// Its number.
    number: u32,
    /// True if it is in memory of another node.
    is_far: bool,
}

/// Elements that do not change.
#[derive(Debug)]
pub struct HeldElements<T> {
    /// Place of each element of the array among those that are held.
    places: Vec<Cell<u32>>,
    /// Own elements, and behind them as many copies as there is room for.
    held: RefCell<Vec<HeldElement<T>>>,
    own: usize,
    /// Lookups of elements of other nodes that were found.
    far_hits: Cell<u64>,
}

impl<T: Element> HeldElements<T> {
    /// Creates a holder of the elements that a rank has of an array of `count` elements, dealt to
    /// `ranks` in turn, and of up to `most` copies of others, one at least.
    pub fn new(own: &[T], (rank, ranks, count): (usize, usize, usize), most: usize) -> Self {
        debug_assert!(count < ABSENT as usize && rank < ranks, "numbers fit into a word");
        let places = vec![Cell::new(ABSENT); count];
        let mut held = Vec::with_capacity(own.len() + most.max(1));
        for (place, (number, value)) in (rank..count).step_by(ranks).zip(own).enumerate() {
            places[number].set(place as u32);
            held.push(HeldElement { value: *value, number: number as u32, is_far: false });
        }
        let own = held.len();
        let empty = HeldElement { value: T::new_zeroed(), number: ABSENT, is_far: false };
        held.resize(own + most.max(1), empty);
        Self { places, held: RefCell::new(held), own, far_hits: Cell::new(0) }
    }

    /// Runs `run` on an element, if it is held, and returns true with the result if it is another
    /// rank's.
    ///
    /// # Errors
    /// Returns `run` if it is not held.
    #[inline]
    pub fn with<R, F: FnOnce(&T) -> R>(&self, number: usize, run: F) -> Result<(R, bool), F> {
        let place = self.places.get(number).map_or(ABSENT, Cell::get) as usize;
        match self.held.borrow().get(place) {
            Some(held) => {
                self.far_hits.set(self.far_hits.get() + u64::from(held.is_far));
                Ok((run(&held.value), place >= self.own))
            }
            None => Err(run),
        }
    }

    /// Keeps a copy of another rank's element, in the place of another copy.
    pub fn keep(&self, number: usize, is_far: bool, value: T) {
        let mut held = self.held.borrow_mut();
        let place = self.own + recent_copies::place(number, held.len() - self.own);
        let Some(copy) = held.get_mut(place) else {
            return clump_bug::bug!("there is room for {number} at {place}");
        };
        if let Some(before) = self.places.get(copy.number as usize) {
            before.set(ABSENT);
        }
        *copy = HeldElement { value, number: number as u32, is_far };
        if let Some(own) = self.places.get(number) {
            debug_assert_eq!(own.get(), ABSENT, "it was not held");
            own.set(place as u32);
        }
    }

    /// Returns the lookups of elements of other nodes that were found.
    pub fn far_hits(&self) -> u64 {
        self.far_hits.get()
    }
}

#[cfg(test)]
mod tests {
    use super::HeldElements;

    #[test]
    fn own_elements_stay_and_copies_give_way() {
        for ranks in [1, 2, 3, 7] {
            for rank in 0..ranks {
                let own: Vec<u64> = (rank as u64..40).step_by(ranks).collect();
                let held = HeldElements::new(&own, (rank, ranks, 40), 3);
                let find = |number: usize| held.with(number, |value| *value).ok();
                for number in (0..40).filter(|number| number % ranks != rank) {
                    assert_eq!(find(number), None);
                    held.keep(number, number % 5 == 1, 100 + number as u64);
                    assert_eq!(find(number), Some((100 + number as u64, true)));
                }
                let is_own = |number: usize| number % ranks == rank;
                for number in (0..40).filter(|number| is_own(*number)) {
                    assert_eq!(find(number), Some((number as u64, false)));
                }
                let copies = (0..40).filter(|&number| !is_own(number) && find(number).is_some());
                assert!(copies.count() <= 3, "there is room for three");
                assert_eq!(held.far_hits() > 0, ranks > 1);
                assert_eq!(find(40), None, "no element of the array");
            }
        }
    }
}
