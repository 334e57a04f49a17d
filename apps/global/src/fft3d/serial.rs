//! The serial version: the same transform in one process.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

/// Transforms a cuboid in place: numbers in order of z, y and x.
pub fn transform(numbers: &mut [Complex64], [x, y, z]: [usize; 3]) {
    let mut planner = FftPlanner::new();
    // Along x, lines are contiguous.
    let fft = planner.plan_fft_forward(x);
    fft.process(numbers);
    for (side, step, lines) in [(y, x, x), (z, x * y, x * y)] {
        let fft = planner.plan_fft_forward(side);
        let mut line = vec![Complex64::default(); side];
        for block in numbers.chunks_mut(step * side) {
            for first in 0..lines {
                (0..side).for_each(|n| line[n] = block[first + n * step]);
                fft.process(&mut line);
                (0..side).for_each(|n| block[first + n * step] = line[n]);
            }
        }
    }
}
