//! Signs of determinants of points, exactly.

/// Bits of a coordinate: determinants of them fit into 128 bits.
pub const COORDINATE_BITS: u32 = 20;

/// A point: whole numbers from 0 to 2^20 - 1.
pub type GridPoint = [i32; 3];

/// Relative error of a determinant in floating point, of the sum of its terms' sizes. Differences
/// and products of two are exact; the eight roundings that follow are less than a tenth of this.
const INSPHERE_ERROR: f64 = 1e-14;

fn minus(a: GridPoint, b: GridPoint) -> [i64; 3] {
    debug_assert!(a.iter().chain(&b).all(|part| (0..1 << COORDINATE_BITS).contains(part)));
    std::array::from_fn(|part| i64::from(a[part]) - i64::from(b[part]))
}

/// Returns six times the volume of a tetrahedron: above 0 if `d` lies on the side of the plane
/// through `a`, `b` and `c` from which they turn counter-clockwise, 0 if in it.
pub fn orientation(a: GridPoint, b: GridPoint, c: GridPoint, d: GridPoint) -> i128 {
    let ([ax, ay, az], [bx, by, bz]) = (minus(b, a), minus(c, a));
    let [cx, cy, cz] = minus(d, a).map(i128::from);
    // Products of two differences are below 2^40.
    let wide = |x: i64| i128::from(x);
    cx * wide(ay * bz - az * by) + cy * wide(az * bx - ax * bz) + cz * wide(ax * by - ay * bx)
}

/// Returns true if `e` lies inside the sphere through the corners of a tetrahedron whose
/// [`orientation`] is above 0, not on it.
pub fn inside_sphere([a, b, c, d]: [GridPoint; 4], e: GridPoint) -> bool {
    debug_assert!(orientation(a, b, c, d) > 0, "corners in the right order");
    let corners = [a, b, c, d].map(|corner| minus(corner, e));
    let (value, error) = insphere(corners.map(|corner| corner.map(|part| part as f64)));
    if value.abs() > error {
        return value > 0.0;
    }
    exact_insphere(corners.map(|corner| corner.map(i128::from))) > 0
}

/// Evaluates the determinant in floating point; returns it with a bound of its error.
fn insphere(corners: [[f64; 3]; 4]) -> (f64, f64) {
    let (mut value, mut size) = (0.0, 0.0);
    for (at, [x, y, z]) in corners.into_iter().enumerate() {
        let [p, q, r]: [[f64; 3]; 3] = others(corners, at);
        let minors = [
            (p[0], q[1] * r[2], q[2] * r[1]),
            (p[1], q[2] * r[0], q[0] * r[2]),
            (p[2], q[0] * r[1], q[1] * r[0]),
        ];
        let square = x * x + y * y + z * z;
        let volume: f64 = minors.iter().map(|(p, a, b)| p * (a - b)).sum();
        let most: f64 = minors.iter().map(|(p, a, b)| p.abs() * (a.abs() + b.abs())).sum();
        value += if at % 2 == 0 { square * volume } else { -square * volume };
        size += square * most;
    }
    (value, size * INSPHERE_ERROR)
}

fn exact_insphere(corners: [[i128; 3]; 4]) -> i128 {
    let term = |(at, [x, y, z]): (usize, [i128; 3])| {
        let [p, q, r] = others(corners, at);
        let volume = p[0] * (q[1] * r[2] - q[2] * r[1])
            + p[1] * (q[2] * r[0] - q[0] * r[2])
            + p[2] * (q[0] * r[1] - q[1] * r[0]);
        // Below 2^42 times 2^63: no overflow.
        let product = (x * x + y * y + z * z) * volume;
        if at % 2 == 0 { product } else { -product }
    };
    corners.into_iter().enumerate().map(term).sum()
}

/// Returns all corners but one.
fn others<T: Copy>(corners: [T; 4], but: usize) -> [T; 3] {
    std::array::from_fn(|at| corners[at + usize::from(at >= but)])
}

#[cfg(test)]
mod tests {
    use super::{GridPoint, inside_sphere, orientation};

    const CORNERS: [GridPoint; 4] = [[2, 2, 2], [6, 2, 2], [2, 6, 2], [2, 2, 6]];

    #[test]
    fn the_sphere_around_a_corner_of_a_cube_is_that_of_the_cube() {
        let [a, b, c, d] = CORNERS;
        assert_eq!(orientation(a, b, c, d), 64);
        assert_eq!(orientation(a, c, b, d), -64);
        // Center 4, 4, 4; radius squared 12.
        for x in 0..9 {
            for y in 0..9 {
                for z in 0..9 {
                    let far = [x, y, z].map(|part: i32| (part - 4).pow(2)).iter().sum::<i32>();
                    assert_eq!(inside_sphere(CORNERS, [x, y, z]), far < 12, "{x} {y} {z}");
                }
            }
        }
    }

    #[test]
    fn points_beside_a_sphere_as_large_as_the_grid_are_told_apart() {
        let most = (1 << 20) - 1;
        let corners = [[0, 0, 0], [most, 0, 0], [0, most, 0], [0, 0, most]];
        assert!(!inside_sphere(corners, [most, most, most]), "on the sphere");
        assert!(!inside_sphere(corners, [most, most, 0]), "on the sphere");
        assert!(inside_sphere(corners, [most - 1, most, most]));
        assert!(inside_sphere(corners, [1, most, most]));
    }
}
