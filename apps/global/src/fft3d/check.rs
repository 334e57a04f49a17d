//! The oracle: sums by definition, which share no code with any fast transform; and Parseval's
//! theorem.

use crate::fft3d::input::number;
use rustfft::num_complex::Complex64;
use std::f64::consts::TAU;

/// Numbers up to which all of a result are summed up.
const ALL: usize = 1 << 19;
/// Numbers of a larger result that are summed up.
const SOME: usize = 16;

/// Differences from what is right, relative to the size of that.
#[derive(Debug, Clone, Copy)]
pub struct TransformErrors {
    /// Root of the sum of squares of differences, of the numbers that were summed up.
    pub difference: f64,
    /// Difference of the sums of squares before and after.
    pub parseval: f64,
}

/// Returns `e^(-2 pi i n / side)` for each n below the side.
fn roots(side: usize) -> Vec<Complex64> {
    (0..side).map(|n| Complex64::from_polar(1.0, -TAU * n as f64 / side as f64)).collect()
}

/// Checks a result: numbers in order of z, y and x.
pub fn errors(result: &[Complex64], sides: [usize; 3]) -> TransformErrors {
    let [x, y, z] = sides;
    debug_assert_eq!(result.len(), x * y * z, "the whole result");
    let squares = |numbers: &mut dyn Iterator<Item = Complex64>| -> f64 {
        numbers.map(|number| number.norm_sqr()).sum()
    };
    let before = squares(&mut (0..result.len()).map(number)) * result.len() as f64;
    let parseval = (squares(&mut result.iter().copied()) - before).abs() / before;
    let roots = [roots(x), roots(y), roots(z)];
    let expected: Vec<(usize, Complex64)> = if result.len() <= ALL {
        all(sides, &roots).into_iter().enumerate().collect()
    } else {
        // Places all over the result, in every part of it.
        let places = (0..SOME).map(|n| (result.len() / SOME + 1) * n + n * n * 7 % x);
        places.map(|place| (place, one(place, sides, &roots))).collect()
    };
    let differences = &mut expected.iter().map(|&(place, right)| result[place] - right);
    let right = squares(&mut expected.iter().map(|&(_, right)| right));
    TransformErrors { difference: (squares(differences) / right).sqrt(), parseval }
}

/// Sums up all numbers, one direction after the other.
fn all([x, y, z]: [usize; 3], roots: &[Vec<Complex64>; 3]) -> Vec<Complex64> {
    let mut numbers: Vec<_> = (0..x * y * z).map(number).collect();
    for (roots, step) in roots.iter().zip([1, x, x * y]) {
        let side = roots.len();
        let mut summed = vec![Complex64::default(); numbers.len()];
        for (place, sum) in summed.iter_mut().enumerate() {
            let k = place / step % side;
            let first = place - k * step;
            *sum = (0..side).map(|n| numbers[first + n * step] * roots[n * k % side]).sum();
        }
        numbers = summed;
    }
    numbers
}

/// Sums up one number.
fn one(place: usize, [x, y, z]: [usize; 3], roots: &[Vec<Complex64>; 3]) -> Complex64 {
    let at = [place % x, place / x % y, place / x / y];
    let root = |direction: usize, n: usize| {
        let roots: &Vec<Complex64> = &roots[direction];
        roots[n * at[direction] % roots.len()]
    };
    let line = |first: usize| -> Complex64 { (0..x).map(|n| number(first + n) * root(0, n)).sum() };
    let plane =
        |first: usize| -> Complex64 { (0..y).map(|n| line(first + n * x) * root(1, n)).sum() };
    (0..z).map(|n| plane(n * x * y) * root(2, n)).sum()
}

#[cfg(test)]
mod tests {
    use super::{errors, one, roots};
    use crate::fft3d::input::number;
    use crate::fft3d::serial::transform;

    #[test]
    fn the_serial_version_is_right_and_a_wrong_number_is_found() {
        for sides in [[8, 8, 8], [5, 3, 7], [1, 1, 1], [16, 1, 2]] {
            let mut numbers: Vec<_> = (0..sides.iter().product()).map(number).collect();
            transform(&mut numbers, sides);
            let right = errors(&numbers, sides);
            assert!(right.difference < 1e-14 && right.parseval < 1e-14, "{sides:?}: {right:?}");
            let roots = sides.map(roots);
            for (place, found) in numbers.iter().enumerate() {
                assert!((one(place, sides, &roots) - found).norm() < 1e-12);
            }
            numbers[0] *= 1.001;
            assert!(errors(&numbers, sides).difference > 1e-6, "{sides:?}");
        }
    }
}
