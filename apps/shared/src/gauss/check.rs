//! The serial version, and the residual.

use crate::gauss::elimination::{eliminate, first_row, pivot, substitute};

/// Returns the solution of `n` equations.
pub fn run(seed: u64, n: usize) -> Vec<f64> {
    let mut rows: Vec<_> = (0..n).map(|row| first_row(seed, n, row)).collect();
    let (mut pivots, mut is_pivot) = (Vec::new(), vec![false; n]);
    for at in 0..n {
        let column = pivot(&rows[at], &is_pivot);
        pivots.push(column);
        is_pivot[column] = true;
        let (above, below) = rows.split_at_mut(at + 1);
        below.iter_mut().for_each(|row| eliminate(row, &above[at], column));
    }
    substitute(&rows, &pivots)
}

/// Returns the scaled residual of a solution: |A x - b| / (n eps (|A| |x| + |b|)) in the largest
/// norm. Below 16 where nothing is wrong.
pub fn residual(seed: u64, n: usize, solution: &[f64]) -> f64 {
    let size = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let (mut worst, mut norm, mut right) = (0.0_f64, 0.0_f64, 0.0_f64);
    for at in 0..n {
        let row = first_row(seed, n, at);
        let product: f64 = row[..n].iter().zip(solution).map(|(a, x)| a * x).sum();
        // A residual that is no number is the worst.
        let error = (product - row[n]).abs();
        worst = if error > worst || error.is_nan() { error } else { worst };
        norm = norm.max(row[..n].iter().map(|a| a.abs()).sum());
        right = right.max(row[n].abs());
    }
    worst / (n as f64 * f64::EPSILON * (norm * size(solution) + right))
}

#[cfg(test)]
mod tests {
    use super::{residual, run};

    #[test]
    fn solutions_solve_the_equations() {
        for n in [1, 2, 17, 60] {
            let mut solution = run(3, n);
            assert!(residual(3, n, &solution) < 16.0, "{n}");
            solution[n / 2] += 1e-6;
            assert!(residual(3, n, &solution) > 1e4, "{n}");
        }
    }
}
