//! The head of ellipsoids by Shepp and Logan, in three dimensions, with the contrast of its
//! modified form.

/// An ellipsoid: density that it adds, half axes, middle, and its turn around the z axis in
/// degrees; in a cube from -1 to 1.
type Ellipsoid = (f64, [f64; 3], [f64; 3], f64);

const HEAD: [Ellipsoid; 10] = [
    (1.0, [0.69, 0.92, 0.81], [0.0, 0.0, 0.0], 0.0),
    (-0.8, [0.6624, 0.874, 0.78], [0.0, -0.0184, 0.0], 0.0),
    (-0.2, [0.11, 0.31, 0.22], [0.22, 0.0, 0.0], -18.0),
    (-0.2, [0.16, 0.41, 0.28], [-0.22, 0.0, 0.0], 18.0),
    (0.1, [0.21, 0.25, 0.41], [0.0, 0.35, -0.15], 0.0),
    (0.1, [0.046, 0.046, 0.05], [0.0, 0.1, 0.25], 0.0),
    (0.1, [0.046, 0.046, 0.05], [0.0, -0.1, 0.25], 0.0),
    (0.1, [0.046, 0.023, 0.05], [-0.08, -0.605, 0.0], 0.0),
    (0.1, [0.023, 0.023, 0.02], [0.0, -0.606, 0.0], 0.0),
    (0.1, [0.023, 0.046, 0.02], [0.06, -0.605, 0.0], 0.0),
];

/// Density of a voxel where the ellipsoids' is 1.
pub const FULL: f64 = 200.0;

/// Returns the densities of slice `z` of a head in `side` slices, row by row.
pub fn slice(side: usize, z: usize) -> Vec<u8> {
    let place = |at: usize| (at as f64 + 0.5) / side as f64 * 2.0 - 1.0;
    let turns = HEAD.map(|(.., turn)| turn.to_radians().sin_cos());
    let density = |x: f64, y: f64, z: f64| -> f64 {
        let inside = HEAD.iter().zip(turns).filter(|((_, axes, middle, _), (sine, cosine))| {
            let (far_x, far_y) = (x - middle[0], y - middle[1]);
            let turned =
                [cosine * far_x + sine * far_y, cosine * far_y - sine * far_x, z - middle[2]];
            turned.iter().zip(axes).map(|(far, axis)| (far / axis).powi(2)).sum::<f64>() <= 1.0
        });
        inside.map(|((more, ..), _)| more).sum()
    };
    let voxel = |at: usize| (density(place(at % side), place(at / side), place(z)) * FULL).round();
    (0..side * side).map(|at| voxel(at) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::{FULL, slice};

    #[test]
    fn the_head_has_the_volume_of_its_ellipsoids() {
        const SIDE: usize = 64;
        let voxels: Vec<u8> = (0..SIDE).flat_map(|z| slice(SIDE, z)).collect();
        let share = voxels.iter().filter(|&&density| density > 0).count() as f64 / 8.0_f64.powi(6);
        // The largest one, without those of density 0 in it, of a cube of volume 8.
        let ball = |axes: [f64; 3]| axes.iter().product::<f64>() * std::f64::consts::PI * 4.0 / 3.0;
        let holes = ball([0.11, 0.31, 0.22]) + ball([0.16, 0.41, 0.28]);
        let due = (ball([0.69, 0.92, 0.81]) - holes) / 8.0;
        assert!((share - due).abs() < 0.01, "{share} {due}");
        let skull = voxels.iter().filter(|&&density| f64::from(density) == FULL).count();
        assert!(skull > 1000, "{skull}");
    }
}
