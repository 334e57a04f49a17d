//! Cells that contain a body, from the cube of all bodies down.

use crate::barnes::body::PlacedMass;
use std::cmp::Ordering;

/// Most levels below the root.
pub const MAX_LEVELS: usize = 48;

/// Place of a body in a cube, as shares of its side in units of 2^-[`MAX_LEVELS`].
pub type CubeKey = [u64; 3];

/// Returns the side of a cube around the origin that holds all bodies no further than `far` from
/// it in any direction: a power of two.
pub fn cube_side(far: f64) -> f64 {
    debug_assert!(far.is_finite() && far >= 0.0, "bodies are somewhere");
    let mut side = 1.0;
    while side / 2.0 <= far {
        side *= 2.0;
    }
    side
}

/// Returns the key of a place in a cube of `side`.
pub fn key_of(placed: &PlacedMass, side: f64) -> CubeKey {
    let most = (1_u64 << MAX_LEVELS) - 1;
    std::array::from_fn(|part| {
        let share = placed[part] / side + 0.5;
        ((share * (most + 1) as f64) as u64).min(most)
    })
}

/// Returns which of the eight parts of its cell at `level` contains a body; the root is level 0.
#[inline]
pub fn octant(key: &CubeKey, level: usize) -> usize {
    debug_assert!(level < MAX_LEVELS, "cells of level {level} have no parts");
    let shift = MAX_LEVELS - 1 - level;
    key.iter().fold(0, |all, part| all << 1 | (part >> shift & 1) as usize)
}

/// Orders keys as the tree does.
pub fn in_tree_order(a: &CubeKey, b: &CubeKey) -> Ordering {
    // The highest bit in which they differ decides; of equal ones, the first number's.
    let part = (0..3).fold(0, |best: usize, part| {
        let (bits, other) = (a[part] ^ b[part], a[best] ^ b[best]);
        if bits > other && bits.leading_zeros() < other.leading_zeros() { part } else { best }
    });
    a[part].cmp(&b[part])
}

#[cfg(test)]
mod tests {
    use super::{cube_side, key_of, octant};

    #[test]
    fn octants_halve_the_cube() {
        assert!(cube_side(0.5) == 2.0 && cube_side(3.0) == 8.0);
        let key = key_of(&[0.3, -0.3, 0.1, 1.0], 2.0);
        assert_eq!((octant(&key, 0), octant(&key, 1)), (0b101, 0b010));
    }
}
