//! Steps on one row. A row has the coefficients of an equation, and behind them its right side.

use clump_app_frame::random::Random;

/// Returns row `row` of `n` equations: numbers from -1 to 1.
pub fn first_row(seed: u64, n: usize, row: usize) -> Vec<f64> {
    let mut random = Random::from(seed, (row * (n + 1)) as u64);
    let mut number = || (random.number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    (0..=n).map(|_| number()).collect()
}

/// Returns the column of the largest coefficient of a row, among those that are no pivot yet: a row
/// chooses alone, which takes no word of other ranks.
pub fn pivot(row: &[f64], is_pivot: &[bool]) -> usize {
    debug_assert_eq!(row.len(), is_pivot.len() + 1, "a right side behind the coefficients");
    let free = (0..is_pivot.len()).filter(|&column| !is_pivot[column]);
    free.fold(None, |best: Option<usize>, column| match best {
        Some(best) if row[best].abs() >= row[column].abs() => Some(best),
        _ => Some(column),
    })
    .unwrap_or(0)
}

/// Subtracts so much of an earlier row that the coefficient in its pivot's column becomes 0.
pub fn eliminate(row: &mut [f64], earlier: &[f64], pivot: usize) {
    debug_assert_eq!(row.len(), earlier.len(), "rows of the same equations");
    let factor = row[pivot] / earlier[pivot];
    row.iter_mut().zip(earlier).for_each(|(value, earlier)| *value -= factor * earlier);
    row[pivot] = 0.0;
}

/// Returns the solution, from eliminated rows and their pivots.
pub fn substitute(rows: &[Vec<f64>], pivots: &[usize]) -> Vec<f64> {
    let n = rows.len();
    debug_assert_eq!(pivots.len(), n, "a pivot a row");
    let mut solution = vec![0.0; n];
    for (row, &pivot) in rows.iter().zip(pivots).rev() {
        // Unknowns that are not known yet are still 0.
        let known: f64 = row[..n].iter().zip(&solution).map(|(a, x)| a * x).sum();
        solution[pivot] = (row[n] - known) / row[pivot];
    }
    solution
}
