//! The numbers that are transformed: each is a function of its place.

use clump_app_frame::random::Random;
use rustfft::num_complex::Complex64;

/// Seed of the numbers.
const SEED: u64 = 0xff73;

/// Returns the number at a place, of all in order of z, y and x.
pub fn number(place: usize) -> Complex64 {
    let mut random = Random::from(SEED, place as u64 * 2);
    let mut part = || (random.number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    Complex64::new(part(), part())
}
