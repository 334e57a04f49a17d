//! The serial search, and the method of Held and Karp.

use crate::tsp::distances::Distances;
use crate::tsp::partial_tour::{PartialTour, ShortestTour};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;

/// Cities up to which [`held_karp`] is used: its memory doubles with each.
pub const MAX_EXACT: usize = 16;

/// The shortest tour so far, in private memory.
#[derive(Debug)]
struct PrivateTour {
    length: Cell<u64>,
    tour: RefCell<Vec<u8>>,
}

impl ShortestTour for PrivateTour {
    type Failure = Infallible;

    #[inline]
    fn limit(&self) -> u64 {
        self.length.get()
    }

    fn found(&self, length: u64, tour: &[u8]) -> Result<(), Infallible> {
        self.length.set(length);
        self.tour.replace(tour.to_vec());
        Ok(())
    }
}

/// Returns a shortest tour, by the same search on one processor; tours with fewer than
/// `solve_below` cities left are not split.
pub fn search(distances: &Distances, solve_below: usize) -> Vec<u8> {
    let shortest = PrivateTour { length: Cell::new(u64::MAX), tour: RefCell::default() };
    let mut tours = vec![PartialTour::first()];
    let mut queue = BinaryHeap::from([Reverse((0, 0))]);
    while let Some(Reverse((bound, slot))) = queue.pop() {
        let tour: PartialTour = tours[slot];
        if bound >= shortest.limit() {
            break;
        }
        if distances.cities() - tour.cities().len() < solve_below {
            let Ok(_) = tour.complete(distances, &shortest);
            continue;
        }
        for longer in tour.split(distances) {
            let bound = longer.lower_bound(distances);
            if bound < shortest.limit() {
                queue.push(Reverse((bound, tours.len())));
                tours.push(longer);
            }
        }
    }
    shortest.tour.into_inner()
}

/// Returns the length of the shortest tour, by dynamic programming over sets of cities (Held and
/// Karp, 1962), which shares no bound and no search with the application.
pub fn held_karp(distances: &Distances) -> u64 {
    // City 0 is the end; the others have a bit each. A path begins there, goes through the cities
    // of a set, and ends at one of them.
    let others = distances.cities() - 1;
    let between = |a: usize, b: usize| u64::from(distances.between(a, b));
    let mut shortest = vec![u64::MAX; others << others];
    for city in 0..others {
        shortest[(1 << city) * others + city] = between(0, city + 1);
    }
    for set in 1..1_usize << others {
        for last in (0..others).filter(|last| set >> last & 1 == 1) {
            let so_far = shortest[set * others + last];
            for city in (0..others).filter(|city| set >> city & 1 == 0) {
                let longer = &mut shortest[(set | 1 << city) * others + city];
                *longer = (*longer).min(so_far.saturating_add(between(last + 1, city + 1)));
            }
        }
    }
    let all = (1 << others) - 1;
    let back = |last: usize| shortest[all * others + last] + between(last + 1, 0);
    (0..others).map(back).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{held_karp, search};
    use crate::tsp::distances::Distances;
    use crate::tsp::instances::Instance;

    #[test]
    fn searches_find_tours_as_short_as_held_and_karp() {
        for (cities, seed) in (3..11).zip(1..) {
            let distances = Distances::random(cities, seed);
            for solve_below in [1, 2, 4, 32] {
                let tour = search(&distances, solve_below);
                assert_eq!(distances.length(&tour), Some(held_karp(&distances)), "{cities}");
            }
        }
    }

    #[test]
    fn optima_are_those_of_tsplib() {
        for instance in [Instance::Burma14, Instance::Gr17, Instance::Gr21] {
            let distances = instance.distances().unwrap();
            let tour = search(&distances, 3);
            assert_eq!(distances.length(&tour), Some(instance.optimum()), "{instance:?}");
        }
        let burma = Instance::Burma14.distances().unwrap();
        assert_eq!(held_karp(&burma), 3323);
    }
}
