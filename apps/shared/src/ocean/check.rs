//! The serial oracle: the same method on plain arrays with a border of cells, and the exact
//! solution.

use crate::ocean::cycle::{COARSE_SWEEPS, COARSEST, SWEEPS};

/// Returns the exact flow in the middle of a cell.
pub fn exact_flow(side: usize, row: usize, column: usize) -> f64 {
    let at = |index: usize| (index as f64 + 0.5) / side as f64;
    let wave = |x: f64, times: f64| (std::f64::consts::PI * times * x).sin();
    wave(at(column), 1.0) * wave(at(row), 1.0) + wave(at(column), 3.0) * wave(at(row), 2.0) / 2.0
}

/// Returns the source that drives the exact flow: minus its Laplacian.
pub fn source(side: usize, row: usize, column: usize) -> f64 {
    let at = |index: usize| (index as f64 + 0.5) / side as f64;
    let wave = |x: f64, times: f64| (std::f64::consts::PI * times * x).sin();
    let square = std::f64::consts::PI * std::f64::consts::PI;
    square
        * (2.0 * wave(at(column), 1.0) * wave(at(row), 1.0)
            + 6.5 * wave(at(column), 3.0) * wave(at(row), 2.0))
}

/// Grid with a border of one cell on each side.
#[derive(Clone)]
struct Bordered {
    side: usize,
    cells: Vec<f64>,
}

impl Bordered {
    fn of(side: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let mut grid = Self { side, cells: vec![0.0; (side + 2) * (side + 2)] };
        for at in 0..side * side {
            let place = grid.place(at / side, at % side);
            grid.cells[place] = value(at / side, at % side);
        }
        grid
    }

    fn place(&self, row: usize, column: usize) -> usize {
        (row + 1) * (self.side + 2) + column + 1
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.cells[self.place(row, column)]
    }

    /// Fills the border of a flow: 0 on the coast.
    fn mirror(&mut self) {
        let (side, width) = (self.side, self.side + 2);
        for at in 1..=side {
            self.cells[at] = -self.cells[width + at];
            self.cells[(side + 1) * width + at] = -self.cells[side * width + at];
            self.cells[at * width] = -self.cells[at * width + 1];
            self.cells[at * width + side + 1] = -self.cells[at * width + side];
        }
    }

    fn around(&self, row: usize, column: usize) -> f64 {
        let (at, width) = (self.place(row, column), self.side + 2);
        let cells = &self.cells;
        cells[at - width] + cells[at + width] + cells[at - 1] + cells[at + 1]
    }

    fn relax(&mut self, source: &Self) {
        let area = 1.0 / (self.side * self.side) as f64;
        for colour in 0..2 {
            self.mirror();
            for row in 0..self.side {
                for column in ((row + colour) % 2..self.side).step_by(2) {
                    let value = (self.around(row, column) + area * source.at(row, column)) / 4.0;
                    let at = self.place(row, column);
                    self.cells[at] = value;
                }
            }
        }
    }

    fn left(&mut self, source: &Self) -> Self {
        self.mirror();
        let area = 1.0 / (self.side * self.side) as f64;
        Self::of(self.side, |row, column| {
            let flow = 4.0 * self.at(row, column) - self.around(row, column);
            source.at(row, column) - flow / area
        })
    }
}

fn cycle(flow: &mut Bordered, source: &Bordered) {
    if flow.side == COARSEST {
        (0..COARSE_SWEEPS).for_each(|_| flow.relax(source));
        return;
    }
    (0..SWEEPS).for_each(|_| flow.relax(source));
    let left = flow.left(source);
    let half = flow.side / 2;
    let coarse_source = Bordered::of(half, |row, column| {
        let cell = |down: usize, right: usize| left.at(2 * row + down, 2 * column + right);
        (cell(0, 0) + cell(0, 1) + cell(1, 0) + cell(1, 1)) / 4.0
    });
    let mut coarse = Bordered::of(half, |_, _| 0.0);
    cycle(&mut coarse, &coarse_source);
    let finer = |row: usize, column: usize| flow.at(row, column) + coarse.at(row / 2, column / 2);
    *flow = Bordered::of(flow.side, finer);
    (0..SWEEPS).for_each(|_| flow.relax(source));
}

/// Result of the serial solver.
#[derive(Debug)]
pub struct Solved {
    /// The largest residual behind each cycle.
    pub residuals: Vec<f64>,
    /// The flow, row by row.
    pub flow: Vec<f64>,
}

/// Makes cycles on a basin of `side` times `side` cells.
pub fn solve(side: usize, cycles: usize) -> Solved {
    let source = Bordered::of(side, |row, column| source(side, row, column));
    let mut flow = Bordered::of(side, |_, _| 0.0);
    let mut residual = |_| {
        cycle(&mut flow, &source);
        flow.left(&source).cells.iter().fold(0.0_f64, |most, value| most.max(value.abs()))
    };
    let residuals = (0..cycles).map(&mut residual).collect();
    let flow = (0..side * side).map(|at| flow.at(at / side, at % side)).collect();
    Solved { residuals, flow }
}

/// Returns the largest error of a flow.
pub fn largest_error(side: usize, flow: &[f64]) -> f64 {
    let error = |(at, value): (usize, &f64)| (value - exact_flow(side, at / side, at % side)).abs();
    flow.iter().enumerate().map(error).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{largest_error, solve};

    #[test]
    fn the_error_falls_with_the_square_of_the_cells() {
        let error = |side: usize| largest_error(side, &solve(side, 20).flow);
        let ratio = error(32) / error(64);
        assert!((3.5..4.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn every_cycle_shrinks_the_residual() {
        let solved = solve(32, 8);
        assert!(solved.residuals.windows(2).all(|pair| pair[1] < pair[0] * 0.7), "{solved:?}");
    }
}
