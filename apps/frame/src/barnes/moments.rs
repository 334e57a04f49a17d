//! Cells summed up: mass, centre, spread; and the force of such a sum.

use crate::barnes::body::{BodyMotion, COST, POTENTIAL, PlacedMass};

/// Centre and mass of a cell; the sums of mass times the products of distances from the centre
/// (xx, yy, zz, xy, xz, yz); the cost and the number of its bodies.
pub type CellMoments = [f64; 12];

/// Position of the cost of a cell's bodies.
pub const CELL_COST: usize = 10;
/// Position of the number of a cell's bodies.
pub const CELL_BODIES: usize = 11;

/// Square of the distance within which a body's attraction is softened.
pub const SOFTENING: f64 = 0.05 * 0.05;

/// Returns the moments of one body.
pub fn of_body(placed: &PlacedMass, cost: f64) -> CellMoments {
    let mut moments = [0.0; 12];
    moments[..4].copy_from_slice(placed);
    (moments[CELL_COST], moments[CELL_BODIES]) = (cost, 1.0);
    moments
}

/// Returns the products of two parts of a vector, in the order of [`CellMoments`].
fn products(way: [f64; 3]) -> [f64; 6] {
    let [x, y, z] = way;
    [x * x, y * y, z * z, x * y, x * z, y * z]
}

/// Returns the moments of a cell from those of its parts, octant by octant.
pub fn of_parts(parts: &[CellMoments]) -> CellMoments {
    let mut sum = [0.0; 12];
    for part in parts {
        for at in 0..3 {
            sum[at] += part[3] * part[at];
        }
        sum[3] += part[3];
        sum[CELL_COST] += part[CELL_COST];
        sum[CELL_BODIES] += part[CELL_BODIES];
    }
    let mass = sum[3];
    debug_assert!(mass > 0.0, "a cell has bodies");
    sum[..3].iter_mut().for_each(|at| *at /= mass);
    for part in parts {
        let way = std::array::from_fn(|at| part[at] - sum[at]);
        for (at, product) in products(way).into_iter().enumerate() {
            sum[4 + at] += part[4 + at] + part[3] * product;
        }
    }
    sum
}

/// Acceleration and potential.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Attraction {
    /// Acceleration.
    pub pull: [f64; 3],
    /// Potential.
    pub potential: f64,
    /// Bodies and cells that it is made of.
    pub interactions: u64,
}

impl Attraction {
    /// Records it in the motion of its body.
    pub fn record(&self, motion: &mut BodyMotion) {
        motion[3..6].copy_from_slice(&self.pull);
        motion[POTENTIAL] = self.potential;
        motion[COST] = self.interactions.max(1) as f64;
    }

    /// Adds the attraction of a body.
    #[inline]
    pub fn add_body(&mut self, from: &[f64; 3], placed: &PlacedMass) {
        let way: [f64; 3] = std::array::from_fn(|at| placed[at] - from[at]);
        let square = way.iter().map(|part| part * part).sum::<f64>() + SOFTENING;
        let near = placed[3] / square.sqrt();
        self.potential -= near;
        for (pull, way) in self.pull.iter_mut().zip(way) {
            *pull += near / square * way;
        }
        self.interactions += 1;
    }

    /// Adds the attraction of a cell: of its mass, and of its second moments.
    #[inline]
    pub fn add_cell(&mut self, from: &[f64; 3], cell: &CellMoments) {
        let way: [f64; 3] = std::array::from_fn(|at| cell[at] - from[at]);
        let square = way.iter().map(|part| part * part).sum::<f64>() + SOFTENING;
        let inverse = 1.0 / square;
        let near = inverse.sqrt();
        let [xx, yy, zz, xy, xz, yz] = [cell[4], cell[5], cell[6], cell[7], cell[8], cell[9]];
        let spread = [
            xx * way[0] + xy * way[1] + xz * way[2],
            xy * way[0] + yy * way[1] + yz * way[2],
            xz * way[0] + yz * way[1] + zz * way[2],
        ];
        let along: f64 = spread.iter().zip(way).map(|(a, b)| a * b).sum();
        let trace = xx + yy + zz;
        let (third, fifth) = (near * inverse, near * inverse * inverse);
        self.potential += -cell[3] * near + (trace * third - 3.0 * along * fifth) / 2.0;
        let radial = cell[3] * third - 1.5 * trace * fifth + 7.5 * along * fifth * inverse;
        for ((pull, way), spread) in self.pull.iter_mut().zip(way).zip(spread) {
            *pull += radial * way - 3.0 * fifth * spread;
        }
        self.interactions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Attraction, CELL_BODIES, of_body, of_parts};

    #[test]
    fn a_cell_far_away_pulls_as_its_bodies_do() {
        let bodies: [[f64; 4]; 3] =
            [[10.1, 0.2, -0.1, 0.5], [9.8, -0.3, 0.2, 0.25], [10.0, 0.1, 0.3, 1.5]];
        let parts: Vec<_> = bodies.iter().map(|body| of_body(body, 1.0)).collect();
        let cell = of_parts(&[of_parts(&parts[..2]), parts[2]]);
        assert_eq!(cell[CELL_BODIES], 3.0);
        let (mut one_by_one, mut at_once) = (Attraction::default(), Attraction::default());
        bodies.iter().for_each(|body| one_by_one.add_body(&[0.1, 0.2, 0.3], body));
        at_once.add_cell(&[0.1, 0.2, 0.3], &cell);
        // Third moments are left out: errors of the third power of size over distance.
        for (a, b) in one_by_one.pull.iter().zip(at_once.pull) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        assert!((one_by_one.potential - at_once.potential).abs() < 2e-6);
        let mut mass_alone = cell;
        mass_alone[4..10].fill(0.0);
        let mut rough = Attraction::default();
        rough.add_cell(&[0.1, 0.2, 0.3], &mass_alone);
        assert!((one_by_one.potential - rough.potential).abs() > 1e-5, "moments matter");
    }
}
