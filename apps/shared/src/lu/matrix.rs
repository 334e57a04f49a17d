//! The input: a random matrix whose diagonal is so large that no pivot is needed.

use clump_app_frame::random::Random;

/// Returns an element of the matrix of order `n`: in [-1, 1), and `n` more on the diagonal.
pub fn element(seed: u64, n: usize, row: usize, column: usize) -> f64 {
    let bits = Random::from(seed, (row * n + column) as u64).number();
    let small = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    if row == column { small + n as f64 } else { small }
}

#[cfg(test)]
mod tests {
    use super::element;

    #[test]
    fn elements_are_small_but_on_the_diagonal() {
        for row in 0..20 {
            for column in 0..20 {
                let value = element(3, 20, row, column);
                let middle = if row == column { 20.0 } else { 0.0 };
                assert!((value - middle).abs() <= 1.0, "{value}");
            }
        }
        assert_ne!(element(3, 20, 1, 2).to_bits(), element(3, 20, 2, 1).to_bits());
    }
}
