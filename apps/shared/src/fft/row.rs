//! Transforms of one row, in private memory.

/// Complex number: real and imaginary part.
pub type Complex = [f64; 2];

/// Returns the product of two numbers.
#[inline]
pub fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Returns `exp(-2 pi i k / n)`.
pub fn root(k: usize, n: usize) -> Complex {
    let angle = -std::f64::consts::TAU * (k % n) as f64 / n as f64;
    [angle.cos(), angle.sin()]
}

/// Returns the roots that a row of `n` numbers needs.
pub fn roots(n: usize) -> Vec<Complex> {
    (0..n / 2).map(|k| root(k, n)).collect()
}

/// Transforms a row, whose length is a power of two, in place.
///
/// # Panics
/// Panics if the length is no power of two, or the roots are not those of the length.
pub fn transform(row: &mut [Complex], roots: &[Complex]) {
    let n = row.len();
    assert!(n.is_power_of_two() && roots.len() == n / 2, "a row of {n} numbers");
    let shift = usize::BITS - n.trailing_zeros();
    for at in 0..n {
        let reversed = if n > 1 { at.reverse_bits() >> shift } else { at };
        if at < reversed {
            row.swap(at, reversed);
        }
    }
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for block in row.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = times(*b, roots[k * stride]);
                (*a, *b) =
                    ([a[0] + turned[0], a[1] + turned[1]], [a[0] - turned[0], a[1] - turned[1]]);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::{Complex, root, roots, times, transform};

    #[test]
    fn a_row_is_transformed_as_defined() {
        for n in [1, 2, 8, 32] {
            let given: Vec<Complex> =
                (0..n).map(|at| [(at * at % 7) as f64, (at % 3) as f64]).collect();
            let mut row = given.clone();
            transform(&mut row, &roots(n));
            for (k, found) in row.iter().enumerate() {
                let sum = given.iter().enumerate().fold([0.0; 2], |sum, (at, &value)| {
                    let term = times(value, root(at * k, n));
                    [sum[0] + term[0], sum[1] + term[1]]
                });
                assert!((found[0] - sum[0]).abs() + (found[1] - sum[1]).abs() < 1e-9, "{n}, {k}");
            }
        }
    }
}
