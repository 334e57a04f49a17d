//! The serial oracle: elimination row by row, without blocks, and the residual of a factorisation.

/// Factorises a matrix of order `n`, row by row, in place.
pub fn factorise_serially(matrix: &mut [f64], n: usize) {
    for k in 0..n {
        let (above, below) = matrix.split_at_mut((k + 1) * n);
        let pivot = &above[k * n..];
        for row in below.chunks_exact_mut(n) {
            row[k] /= pivot[k];
            let factor = row[k];
            row[k + 1..].iter_mut().zip(&pivot[k + 1..]).for_each(|(a, b)| *a -= factor * b);
        }
    }
}

/// Returns the scaled residual of a factorisation: |A x - L (U x)| / (n eps |A| |x|) in the largest
/// norm, for a vector x of ones and minus ones. A few tens at most, where nothing is wrong.
pub fn residual(original: impl Fn(usize, usize) -> f64, factors: &[f64], n: usize) -> f64 {
    let x = |at: usize| if at.is_multiple_of(3) { -1.0 } else { 1.0 };
    let row = |at: usize| &factors[at * n..(at + 1) * n];
    let upper = |at: usize| -> f64 { (at..n).map(|j| row(at)[j] * x(j)).sum() };
    let above: Vec<f64> = (0..n).map(upper).collect();
    let (mut worst, mut norm) = (0_f64, 0_f64);
    for at in 0..n {
        let product = above[at] + (0..at).map(|j| row(at)[j] * above[j]).sum::<f64>();
        let exact: f64 = (0..n).map(|j| original(at, j) * x(j)).sum();
        worst = worst.max((exact - product).abs());
        norm = norm.max((0..n).map(|j| original(at, j).abs()).sum());
    }
    worst / (n as f64 * f64::EPSILON * norm)
}

#[cfg(test)]
mod tests {
    use super::{factorise_serially, residual};
    use crate::lu::kernels::{Block, SIDE, divide, factorise, solve, update};
    use crate::lu::matrix::element;

    #[test]
    fn a_small_matrix_is_factorised_by_hand() {
        let mut matrix = [2.0, 1.0, 4.0, 5.0];
        factorise_serially(&mut matrix, 2);
        assert_eq!(matrix, [2.0, 1.0, 2.0, 3.0]);
        assert_eq!(residual(|row, column| [2.0, 1.0, 4.0, 5.0][row * 2 + column], &matrix, 2), 0.0);
        matrix[3] = 3.001;
        assert!(residual(|r, c| [2.0, 1.0, 4.0, 5.0][r * 2 + c], &matrix, 2) > 1e9);
    }

    #[test]
    fn blocks_give_the_bits_of_rows() {
        let n = 2 * SIDE;
        let mut rows: Vec<f64> = (0..n * n).map(|at| element(1, n, at / n, at % n)).collect();
        let cut = |row: usize, column: usize| -> Block {
            std::array::from_fn(|at| {
                element(1, n, row * SIDE + at / SIDE, column * SIDE + at % SIDE)
            })
        };
        let [mut a, mut b, mut c, mut d] = [cut(0, 0), cut(0, 1), cut(1, 0), cut(1, 1)];
        factorise(&mut a);
        solve(&mut b, &a);
        divide(&mut c, &a);
        update(&mut d, &c, &b);
        factorise(&mut d);
        factorise_serially(&mut rows, n);
        for (at, value) in rows.iter().enumerate() {
            let (row, column) = (at / n, at % n);
            let block = [[&a, &b], [&c, &d]][row / SIDE][column / SIDE];
            let other = block[row % SIDE * SIDE + column % SIDE];
            assert_eq!(value.to_bits(), other.to_bits(), "row {row}, column {column}");
        }
        assert!(residual(|row, column| element(1, n, row, column), &rows, n) < 20.0);
    }
}
