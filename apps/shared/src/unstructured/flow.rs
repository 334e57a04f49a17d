//! Quantities that flow along edges, in whole numbers: any order of a sum gives the same bits.

use crate::unstructured::predicates::{COORDINATE_BITS, GridPoint};
use clump_app_frame::random::Random;

/// Quantities of a node.
pub const FIELDS: usize = 4;
/// One, of a quantity.
pub const ONE: i64 = 1 << 32;
/// One, of a weight.
const WEIGHT_ONE: i64 = 1 << 24;

/// Quantities of a node, from 0 to [`ONE`].
pub type Quantities = [i64; FIELDS];

/// Returns points at different places of a cube; the first are the same for any number.
pub fn random_points(count: usize, seed: u64) -> Vec<GridPoint> {
    let mut random = Random::from(seed, 0);
    let mut taken = std::collections::HashSet::with_capacity(count);
    let mut points = Vec::with_capacity(count);
    while points.len() < count {
        let point = std::array::from_fn(|_| random.below(1 << COORDINATE_BITS) as i32);
        if taken.insert(point) {
            points.push(point);
        }
    }
    points
}

/// Returns the first quantities of a node: nearly 1 in a half of space, nearly 0 in the other, for
/// each quantity another half.
pub fn first_quantities(seed: u64, number: usize, point: GridPoint) -> Quantities {
    let mut random = Random::from(!seed, (number * FIELDS) as u64);
    let middle = 1 << (COORDINATE_BITS - 1);
    std::array::from_fn(|field| {
        let along = if field < 3 { point[field] } else { (point[0] + point[1]) / 2 };
        let noise = (random.number() >> 36) as i64;
        if along < middle { noise } else { ONE - noise }
    })
}

/// Returns the weight of an edge: less for a longer one. Half a node's quantities flow along all
/// its edges together, at most; so none ever leaves the range that quantities have at first.
pub fn weight(ends: [GridPoint; 2], edges_of_ends: [u32; 2]) -> i64 {
    let square = (0..3).map(|part| i64::from(ends[0][part] - ends[1][part]).pow(2)).sum::<i64>();
    let far = square.isqrt() >> (COORDINATE_BITS - 10);
    let most = i64::from(edges_of_ends[0].max(edges_of_ends[1]).max(1));
    debug_assert!(far < 2048, "edges are in the cube");
    WEIGHT_ONE / (2 * most) * 256 / (256 + far)
}

/// Returns how steep the quantities are along an edge.
pub fn slope(weight: i64, one: &Quantities, other: &Quantities) -> i64 {
    let differences = one.iter().zip(other).map(|(one, other)| (one - other).abs());
    differences.map(|difference| weight * difference / WEIGHT_ONE).sum()
}

/// Returns what flows from the second end of an edge to the first: less where nodes are steeper, by
/// all of their edges, which keeps jumps.
pub fn flux(weight: i64, slopes: [i64; 2], one: &Quantities, other: &Quantities) -> Quantities {
    debug_assert!(slopes.iter().all(|slope| (0..4 * ONE).contains(slope)), "sums of sizes");
    let damped = weight * (1 << 16) / ((1 << 16) + ((slopes[0] + slopes[1]) >> 14));
    // Division rounds to 0, so that what flows is no more than its share.
    std::array::from_fn(|field| damped * (other[field] - one[field]) / WEIGHT_ONE)
}

/// Returns the roughness of an edge.
pub fn roughness(weight: i64, one: &Quantities, other: &Quantities) -> u128 {
    let squares = one.iter().zip(other).map(|(one, other)| u128::from(one.abs_diff(*other)).pow(2));
    weight as u128 * squares.sum::<u128>()
}

/// Returns the sum of squares of a node's quantities. Over all nodes it never grows.
pub fn squares(of: &Quantities) -> u128 {
    of.iter().map(|quantity| u128::from(quantity.unsigned_abs()).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::{ONE, flux, random_points, weight};

    #[test]
    fn what_an_end_gains_the_other_loses_and_never_more_than_its_share() {
        let points = random_points(40, 3);
        for pair in points.windows(2) {
            let weight = weight([pair[0], pair[1]], [5, 9]);
            assert!(weight * 2 * 9 <= 1 << 24 && weight > 0);
            for (one, other) in [(0, ONE), (7, 3), (ONE - 1, 1), (5, 5)] {
                let slopes = [ONE / 3, ONE / 5];
                let [gain, ..] = flux(weight, slopes, &[one; 4], &[other; 4]);
                let [loss, ..] = flux(weight, [slopes[1], slopes[0]], &[other; 4], &[one; 4]);
                assert_eq!(gain, -loss);
                assert!(gain.abs() <= (other - one).abs() / 18);
                assert!(gain.signum() * (other - one).signum() >= 0);
            }
        }
    }
}
