//! The serial version, and what relaxation must do to a wave.

use std::f64::consts::PI;

/// Returns a cell of a wave that is 0 on the border.
pub fn wave(side: usize, row: usize, column: usize) -> f64 {
    let at = |index: usize| (PI * index as f64 / (side + 1) as f64).sin();
    at(row) * at(column)
}

/// Returns the share of the wave that is left behind so many iterations: each multiplies it by the
/// cosine of a cell's width.
pub fn left(side: usize, iterations: usize) -> f64 {
    (PI / (side + 1) as f64).cos().powf(iterations as f64)
}

/// Returns the grid behind so many iterations, row by row with its border.
pub fn run(side: usize, iterations: usize) -> Vec<f64> {
    let width = side + 2;
    let mut grid = vec![0.0; width * width];
    for row in 1..=side {
        (1..=side).for_each(|column| grid[row * width + column] = wave(side, row, column));
    }
    let mut next = grid.clone();
    for _ in 0..iterations {
        for at in (1..=side).flat_map(|row| row * width + 1..row * width + 1 + side) {
            next[at] = (grid[at - width] + grid[at + width] + grid[at - 1] + grid[at + 1]) / 4.0;
        }
        std::mem::swap(&mut grid, &mut next);
    }
    grid
}

/// Returns the largest difference of a grid to what must be left of the wave.
pub fn wave_error(side: usize, iterations: usize, grid: &[f64]) -> f64 {
    let (width, left) = (side + 2, left(side, iterations));
    let inner = (1..=side).flat_map(|row| (1..=side).map(move |column| (row, column)));
    inner.fold(0.0, |worst: f64, (row, column)| {
        worst.max((grid[row * width + column] - left * wave(side, row, column)).abs())
    })
}

#[cfg(test)]
mod tests {
    use super::{run, wave_error};

    #[test]
    fn waves_fade_as_they_must() {
        let mut grid = run(20, 30);
        assert!(wave_error(20, 30, &grid) < 1e-13);
        assert!(wave_error(20, 29, &grid) > 1e-3);
        grid[5 * 22 + 7] += 1e-9;
        assert!(wave_error(20, 30, &grid) > 1e-10);
    }
}
