//! Elements, the serial product, and Freivalds' check of a product.

use clump_app_frame::random::Random;

/// Returns element `at` of factor `factor`: an integer from -8 to 8.
pub fn element(seed: u64, factor: u64, at: usize) -> f64 {
    let mut random = Random::from(seed.wrapping_add(factor << 32), at as u64);
    random.below(17) as f64 - 8.0
}

/// Returns the product of two matrices of order `n`, in blocks of order `block`.
pub fn product((n, block): (usize, usize), left: &[f64], right: &[f64]) -> Vec<f64> {
    debug_assert!(block > 0, "blocks have rows");
    let mut product = vec![0.0; n * n];
    let blocks = || (0..n).step_by(block).map(|first| first..n.min(first + block));
    for (inner, columns) in blocks().flat_map(|inner| blocks().map(move |own| (inner.clone(), own)))
    {
        for (row, sums) in left.chunks_exact(n).zip(product.chunks_exact_mut(n)) {
            let others = right.chunks_exact(n).skip(inner.start);
            let sums = &mut sums[columns.clone()];
            for (factor, other) in row[inner.clone()].iter().zip(others) {
                let other = &other[columns.clone()];
                sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += factor * other);
            }
        }
    }
    product
}

/// Returns in how many rows a product times a vector is not the left factor times the right one
/// times that vector (Freivalds 1977), for a vector of small random integers.
pub fn rows_wrong(seed: u64, n: usize, [left, right, product]: [&[f64]; 3]) -> u64 {
    let vector: Vec<f64> = (0..n).map(|at| element(seed, 3, at)).collect();
    let times = |matrix: &[f64], vector: &[f64]| -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(vector).map(|(a, b)| a * b).sum();
        matrix.chunks_exact(n).map(dot).collect()
    };
    let (due, found) = (times(left, &times(right, &vector)), times(product, &vector));
    due.iter().zip(&found).filter(|(due, found)| due != found).count() as u64
}

#[cfg(test)]
mod tests {
    use super::{element, product, rows_wrong};

    #[test]
    fn a_wrong_element_is_found() {
        for block in [1, 2, 3] {
            let (left, right) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
            assert_eq!(product((2, block), &left, &right), [19., 22., 43., 50.]);
        }
        let n = 20;
        let [left, right] =
            [1, 2].map(|factor| (0..n * n).map(|at| element(7, factor, at)).collect::<Vec<_>>());
        let mut found = product((n, 7), &left, &right);
        assert_eq!(rows_wrong(7, n, [&left, &right, &found]), 0);
        // Where the vector is 0, an element does not matter.
        let column = (0..n).find(|&at| element(7, 3, at) != 0.0).unwrap();
        found[4 * n + column] += 1.0;
        assert_eq!(rows_wrong(7, n, [&left, &right, &found]), 1);
    }
}
