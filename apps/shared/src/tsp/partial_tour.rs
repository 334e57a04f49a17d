//! The first cities of a tour: lower bounds, and the recursion that completes it.

use crate::tsp::distances::{Distances, MAX_CITIES};

/// The first cities of a tour, which begins at city 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialTour {
    cities: [u8; MAX_CITIES],
    count: usize,
    length: u64,
}

/// Words of a partial tour in shared memory.
pub type TourRecord = [u64; 2 + MAX_CITIES / 8];

/// The shortest tour so far, as a search sees it.
pub trait ShortestTour {
    /// Failure of the memory that it is kept in.
    type Failure;

    /// Returns the length of a tour that was found, or more: the largest number before the first.
    fn limit(&self) -> u64;

    /// Keeps a tour, if it is shorter than the shortest.
    ///
    /// # Errors
    /// Fails as the memory does.
    fn found(&self, length: u64, tour: &[u8]) -> Result<(), Self::Failure>;
}

impl PartialTour {
    /// Returns the tour that has visited city 0 alone.
    pub fn first() -> Self {
        Self { cities: [0; MAX_CITIES], count: 1, length: 0 }
    }

    /// Returns a tour through these cities and back, of this length.
    pub fn round(cities: &[u8], length: u64) -> Self {
        debug_assert!(cities.len() <= MAX_CITIES && cities.first() == Some(&0), "a tour");
        let mut tour = Self { count: cities.len(), length, ..Self::first() };
        tour.cities[..cities.len()].copy_from_slice(cities);
        tour
    }

    /// Returns the cities so far, in their order.
    pub fn cities(&self) -> &[u8] {
        &self.cities[..self.count]
    }

    /// Returns the length so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn last(&self) -> usize {
        self.cities[self.count - 1].into()
    }

    /// Returns a bit for each city that is left.
    fn left(&self, distances: &Distances) -> u32 {
        let all = (1_u64 << distances.cities()) - 1;
        self.cities().iter().fold(all as u32, |left, city| left & !(1 << city))
    }

    /// Returns the tour with one more city.
    pub fn through(&self, distances: &Distances, city: usize) -> Self {
        debug_assert!(self.count < distances.cities(), "a city is left");
        debug_assert!(!self.cities().contains(&(city as u8)), "this one");
        let mut longer = *self;
        longer.cities[self.count] = city as u8;
        longer.count += 1;
        longer.length += u64::from(distances.between(self.last(), city));
        longer
    }

    /// Returns the tours with one more city.
    pub fn split<'a>(&'a self, distances: &'a Distances) -> impl Iterator<Item = Self> + 'a {
        members(self.left(distances)).map(move |city| self.through(distances, city))
    }

    /// Returns a number that no completion of this tour is shorter than: a path from the last city
    /// through those that are left to the first contains a tree that spans them, and an edge from
    /// each of its ends to one of them.
    pub fn lower_bound(&self, distances: &Distances) -> u64 {
        let left = self.left(distances);
        if left == 0 {
            return self.length + u64::from(distances.between(self.last(), 0));
        }
        let nearest = |end: usize| {
            let ways = members(left).map(|city| u64::from(distances.between(end, city)));
            ways.min().unwrap_or(0)
        };
        self.length + nearest(self.last()) + nearest(0) + spanning_tree(distances, left)
    }

    /// Completes the tour in all ways that may be shorter than the limit; returns the number of
    /// partial tours that it has seen.
    ///
    /// # Errors
    /// Fails as `shortest` does.
    pub fn complete<S: ShortestTour>(
        &self,
        distances: &Distances,
        shortest: &S,
    ) -> Result<u64, S::Failure> {
        let left = self.left(distances);
        // Each city of the rest is left by one edge, which is no shorter than that to its nearest.
        let rest = members(left).chain([self.last()]);
        let rest = rest.map(|city| u64::from(distances.nearest(city))).sum();
        let mut search = Completion { distances, shortest, tour: *self, seen: 0 };
        search.visit(left, rest)?;
        debug_assert_eq!(search.tour.cities(), self.cities(), "each visit takes its city back");
        Ok(search.seen)
    }

    /// Returns the tour as words.
    pub fn to_words(self) -> TourRecord {
        let mut words = [0; 2 + MAX_CITIES / 8];
        (words[0], words[1]) = (self.length, self.count as u64);
        for (word, cities) in words[2..].iter_mut().zip(self.cities.as_chunks().0) {
            *word = u64::from_le_bytes(*cities);
        }
        words
    }

    /// Returns the tour of such words.
    pub fn from_words(words: TourRecord) -> Self {
        let mut tour = Self { length: words[0], count: words[1] as usize, ..Self::first() };
        debug_assert!((1..=MAX_CITIES).contains(&tour.count), "words of a tour");
        for (cities, word) in tour.cities.as_chunks_mut().0.iter_mut().zip(&words[2..]) {
            *cities = word.to_le_bytes();
        }
        tour
    }
}

/// Returns the cities of a set.
fn members(set: u32) -> impl Iterator<Item = usize> {
    let first = |&set: &u32| if set == 0 { None } else { Some(set & (set - 1)) };
    let sets = std::iter::successors(Some(set), first);
    sets.take_while(|&set| set > 0).map(|set| set.trailing_zeros() as usize)
}

/// Returns the length of the shortest tree that spans some cities (Prim).
fn spanning_tree(distances: &Distances, cities: u32) -> u64 {
    let mut left = cities & (cities - 1);
    let mut far = [u32::MAX; MAX_CITIES];
    let (mut newest, mut sum) = (cities.trailing_zeros() as usize, 0);
    while left > 0 {
        let mut nearest = (u32::MAX, newest);
        for city in members(left) {
            far[city] = far[city].min(distances.between(newest, city));
            nearest = nearest.min((far[city], city));
        }
        (sum, newest) = (sum + u64::from(nearest.0), nearest.1);
        left &= !(1 << newest);
    }
    sum
}

/// A search through all completions of a tour.
struct Completion<'a, S> {
    distances: &'a Distances,
    shortest: &'a S,
    tour: PartialTour,
    seen: u64,
}

impl<S: ShortestTour> Completion<'_, S> {
    /// Visits the cities that are left, in all orders, from the last one on; `rest` is a bound of
    /// the length of what is left.
    fn visit(&mut self, left: u32, rest: u64) -> Result<(), S::Failure> {
        self.seen += 1;
        let (last, length) = (self.tour.last(), self.tour.length);
        if left == 0 {
            let length = length + u64::from(self.distances.between(last, 0));
            let shorter = length < self.shortest.limit();
            return if shorter { self.shortest.found(length, self.tour.cities()) } else { Ok(()) };
        }
        let rest = rest - u64::from(self.distances.nearest(last));
        for city in members(left) {
            let longer = length + u64::from(self.distances.between(last, city));
            if longer + rest < self.shortest.limit() {
                self.tour.cities[self.tour.count] = city as u8;
                self.tour.count += 1;
                self.tour.length = longer;
                self.visit(left & !(1 << city), rest)?;
                self.tour.count -= 1;
                self.tour.length = length;
                self.tour.cities[self.tour.count] = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Distances, PartialTour, ShortestTour, members};
    use std::cell::Cell;
    use std::convert::Infallible;

    struct Least(Cell<u64>);

    impl ShortestTour for Least {
        type Failure = Infallible;

        fn limit(&self) -> u64 {
            self.0.get()
        }

        fn found(&self, length: u64, _: &[u8]) -> Result<(), Infallible> {
            self.0.set(length);
            Ok(())
        }
    }

    /// The shortest completion, by trying all orders.
    fn shortest(distances: &Distances, tour: &PartialTour) -> u64 {
        let last = tour.lower_bound(distances);
        tour.split(distances).map(|longer| shortest(distances, &longer)).min().unwrap_or(last)
    }

    #[test]
    fn bounds_hold_and_completions_are_shortest_for_every_partial_tour() {
        for seed in 0..6 {
            let distances = Distances::random(7, seed);
            let mut tours = vec![PartialTour::first()];
            while let Some(tour) = tours.pop() {
                let least = Least(Cell::new(u64::MAX));
                let Ok(_) = tour.complete(&distances, &least);
                let due = shortest(&distances, &tour);
                assert_eq!(least.0.get(), due, "{tour:?}");
                assert!(tour.lower_bound(&distances) <= due, "{tour:?}");
                tours.extend(tour.split(&distances));
            }
        }
    }

    #[test]
    fn tours_go_through_memory_unchanged() {
        let distances = Distances::random(32, 1);
        let mut tour = PartialTour::first();
        for city in (1..32).rev() {
            assert_eq!(PartialTour::from_words(tour.to_words()), tour);
            tour = tour.through(&distances, city);
        }
        assert_eq!(PartialTour::from_words(tour.to_words()), tour);
        assert_eq!(members(0b1001_0010).collect::<Vec<_>>(), [1, 4, 7]);
    }
}
