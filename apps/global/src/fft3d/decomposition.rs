//! The parts of ranks: lines of one direction, of a part of each other direction.

use std::ops::Range;

/// Ranks in two directions. One is in the first as long as there are not more ranks than the sides
/// have numbers: then ranks have slabs. Otherwise they have pencils.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    /// Numbers in each direction.
    pub sides: [usize; 3],
    /// Ranks in each direction of the grid.
    pub grid: [usize; 2],
    /// Place of this rank in it.
    pub at: [usize; 2],
}

/// Returns one of the parts that `side` is divided into, as even as possible.
pub fn part(side: usize, parts: usize, which: usize) -> Range<usize> {
    debug_assert!(which < parts, "a part of it");
    side * which / parts..side * (which + 1) / parts
}

impl Decomposition {
    /// Divides a cuboid among `ranks` ranks, for `rank`.
    pub fn new(sides: [usize; 3], rank: usize, ranks: usize) -> Self {
        let [x, y, z] = sides;
        let divisors = (1..=ranks).filter(|first| ranks.is_multiple_of(*first));
        let fits = |&first: &usize| first <= x.min(y) && ranks / first <= y.min(z);
        // With more ranks than that, some have nothing.
        let first = divisors
            .clone()
            .find(fits)
            .or_else(|| divisors.min_by_key(|&first| first.max(ranks / first)));
        let first = first.unwrap_or(1);
        Self { sides, grid: [first, ranks / first], at: [rank % first, rank / first] }
    }

    /// Returns the rank at a place of the grid.
    pub fn rank(&self, [first, second]: [usize; 2]) -> usize {
        first + second * self.grid[0]
    }

    /// Returns the same for the rank at another place.
    pub fn of(&self, at: [usize; 2]) -> Self {
        Self { at, ..*self }
    }

    /// Returns the part of x that a rank has of lines along y and z.
    pub fn x(&self) -> Range<usize> {
        part(self.sides[0], self.grid[0], self.at[0])
    }

    /// Returns the part of y that a rank has of lines along x.
    pub fn y_of_x_lines(&self) -> Range<usize> {
        part(self.sides[1], self.grid[0], self.at[0])
    }

    /// Returns the part of y that a rank has of lines along z.
    pub fn y_of_z_lines(&self) -> Range<usize> {
        part(self.sides[1], self.grid[1], self.at[1])
    }

    /// Returns the part of z that a rank has of lines along x and y.
    pub fn z(&self) -> Range<usize> {
        part(self.sides[2], self.grid[1], self.at[1])
    }
}

#[cfg(test)]
mod tests {
    use super::{Decomposition, part};

    #[test]
    fn few_ranks_have_slabs_and_many_have_pencils() {
        let grid = |sides, ranks| Decomposition::new(sides, 0, ranks).grid;
        assert_eq!(grid([64, 64, 64], 4), [1, 4]);
        assert_eq!(grid([4, 4, 4], 8), [2, 4]);
        assert_eq!(grid([4, 4, 4], 16), [4, 4]);
        assert_eq!(grid([1, 1, 1], 6), [2, 3]);
    }

    #[test]
    fn parts_are_a_whole() {
        for (side, parts) in [(10, 3), (2, 5), (7, 7), (0, 2)] {
            let all: Vec<usize> = (0..parts).flat_map(|which| part(side, parts, which)).collect();
            assert_eq!(all, Vec::from_iter(0..side));
        }
    }
}
