//! Division of the box into cubes no narrower than the cut-off, so that molecules see only those of
//! their own cube and of the ones around it.

use crate::water::molecule::{Atoms, Cell, SPACING};

/// Cubes of a box, numbered row by row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CubeGrid {
    side: f64,
    per_side: usize,
}

impl CubeGrid {
    /// Divides a box.
    pub fn of(cell: &Cell) -> Self {
        let per_side = ((cell.side / cell.fade.1) as usize).max(1);
        debug_assert!(cell.side / per_side as f64 >= cell.fade.1, "no narrower than the cut-off");
        Self { side: cell.side, per_side }
    }

    /// Returns the number of cubes.
    pub fn cubes(&self) -> usize {
        self.per_side.pow(3)
    }

    /// Returns the cube that a molecule's oxygen lies in. The first bounds go through molecules at
    /// their first places, so that some change cubes at once.
    pub fn cube_of(&self, places: &Atoms) -> usize {
        let along = |part: usize| {
            let share = (places[part] - SPACING / 2.0) / self.side;
            (((share - share.floor()) * self.per_side as f64) as usize).min(self.per_side - 1)
        };
        (along(2) * self.per_side + along(1)) * self.per_side + along(0)
    }

    /// Returns the cubes around a cube, in order, each once.
    fn around(&self, cube: usize) -> Vec<usize> {
        let n = self.per_side;
        let at = [cube % n, cube / n % n, cube / n / n];
        let mut all: Vec<_> = (0..27)
            .map(|way: usize| {
                let to = [way % 3, way / 3 % 3, way / 9];
                let [x, y, z]: [usize; 3] =
                    std::array::from_fn(|part| (at[part] + to[part] + n - 1) % n);
                (z * n + y) * n + x
            })
            .filter(|other| *other != cube)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the cubes around `cube` whose pairs with it are made at `cube`: about half of them.
    pub fn partners(&self, cube: usize) -> Vec<usize> {
        let mut all = self.around(cube);
        all.retain(|&other| (cube < other) == (cube + other).is_multiple_of(2));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::CubeGrid;
    use crate::water::molecule::Cell;
    use std::collections::BTreeSet;

    #[test]
    fn neighbours_are_partners_once() {
        for per_side in 1..6 {
            let grid = CubeGrid { side: 1.0, per_side };
            let mut made = BTreeSet::new();
            for cube in 0..grid.cubes() {
                for other in grid.partners(cube) {
                    assert!(made.insert((cube.min(other), cube.max(other))), "made twice");
                }
            }
            let around = if per_side < 3 { grid.cubes() - 1 } else { 26 };
            assert_eq!(made.len(), grid.cubes() * around / 2, "{per_side} cubes a side");
        }
    }

    #[test]
    fn molecules_within_the_cut_off_are_in_neighbouring_cubes() {
        let cell = Cell::of(4096);
        let grid = CubeGrid::of(&cell);
        assert_eq!(grid.per_side, 5);
        let places = |x: f64| [x, 0.4, 5.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for step in -300..300 {
            let (here, there) = (f64::from(step) * 0.03, f64::from(step) * 0.03 + cell.fade.1);
            let (one, other) = (grid.cube_of(&places(here)), grid.cube_of(&places(there)));
            assert!(one == other || grid.around(one).contains(&other), "{here} {there}");
        }
    }
}
