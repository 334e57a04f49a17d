//! Distances of cities.

use clump_app_frame::random::Random;

/// Cities at most: a tour fits into one record of shared memory.
pub const MAX_CITIES: usize = 32;
/// Side of the square that cities are made in, in units of length.
const SIDE: usize = 1000;

/// Distances of all pairs of cities, the same in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    cities: usize,
    table: Vec<u32>,
    /// Distance of each city to its nearest.
    nearest: Vec<u32>,
}

/// Returns a rounded distance in the plane (`EUC_2D` of TSPLIB).
pub fn rounded([a, b]: [f64; 2], [c, d]: [f64; 2]) -> u32 {
    (a - c).hypot(b - d).round() as u32
}

impl Distances {
    /// Creates the distances that `between` returns, which are the same in both directions.
    pub fn of(cities: usize, between: impl Fn(usize, usize) -> u32) -> Self {
        debug_assert!((3..=MAX_CITIES).contains(&cities), "as many as tours have");
        let distance = |at: usize| between(at / cities, at % cities);
        let table: Vec<_> = (0..cities * cities).map(distance).collect();
        let nearest = |city: usize| {
            let others = (0..cities).filter(|&other| other != city);
            others.map(|other| table[city * cities + other]).min().unwrap_or(0)
        };
        let nearest = (0..cities).map(nearest).collect();
        let distances = Self { cities, table, nearest };
        debug_assert!(
            (0..cities * cities)
                .all(|at| distances.table[at] == distances.between(at % cities, at / cities)),
            "the same in both directions"
        );
        distances
    }

    /// Creates the distances of random cities in a square of side 1000.
    pub fn random(cities: usize, seed: u64) -> Self {
        let place = |city: usize| {
            let mut random = Random::from(seed, 2 * city as u64);
            [random.below(SIDE) as f64, random.below(SIDE) as f64]
        };
        Self::of(cities, |a, b| rounded(place(a), place(b)))
    }

    /// Returns the number of cities.
    pub fn cities(&self) -> usize {
        self.cities
    }

    /// Returns the distance of two cities.
    #[inline]
    pub fn between(&self, a: usize, b: usize) -> u32 {
        self.table[a * self.cities + b]
    }

    /// Returns the distance of a city to its nearest.
    #[inline]
    pub fn nearest(&self, city: usize) -> u32 {
        self.nearest[city]
    }

    /// Returns the length of a tour through all cities and back to the first; none if it leaves a
    /// city out, or visits one twice.
    pub fn length(&self, tour: &[u8]) -> Option<u64> {
        let mut sorted = tour.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq((0..self.cities).map(|city| city as u8)) {
            return None;
        }
        let pairs = tour.iter().zip(tour.iter().cycle().skip(1));
        let lengths = pairs.map(|(&a, &b)| u64::from(self.between(a.into(), b.into())));
        Some(lengths.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::Distances;

    #[test]
    fn a_tour_has_a_length_if_it_visits_each_city_once() {
        let ring = Distances::of(4, |a, b| 10 + u32::from(a.abs_diff(b) % 2 == 0));
        assert_eq!(ring.length(&[0, 1, 2, 3]), Some(40));
        assert_eq!(ring.length(&[0, 2, 1, 3]), Some(42));
        assert_eq!(ring.length(&[0, 1, 2]), None);
        assert_eq!(ring.length(&[0, 1, 2, 2]), None);
        assert_eq!(ring.length(&[0, 1, 2, 4]), None);
    }
}
