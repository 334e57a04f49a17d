//! Gear's predictor-corrector of six values, for forces that do not depend on velocities.

use crate::water::molecule::{Atoms, MASSES};

/// Scaled derivatives of a molecule's places, from the places themselves to the fifth.
pub type Motion = [Atoms; 6];

/// Length of a step, in ps.
pub const STEP: f64 = 0.000_2;

/// Share of a correction for each derivative.
const CORRECTIONS: [f64; 6] = [3.0 / 20.0, 251.0 / 360.0, 1.0, 11.0 / 18.0, 1.0 / 6.0, 1.0 / 60.0];

/// Returns the motion of a molecule at the beginning.
pub fn begin((places, velocities): (Atoms, Atoms)) -> Motion {
    let mut motion = [[0.0; 9]; 6];
    motion[0] = places;
    motion[1] = velocities.map(|velocity| velocity * STEP);
    motion
}

/// Predicts a motion one step ahead.
pub fn predict(motion: &mut Motion) {
    // Pascal's triangle, by sums.
    for low in 0..5 {
        for order in (low..5).rev() {
            let next = motion[order + 1];
            motion[order].iter_mut().zip(next).for_each(|(value, more)| *value += more);
        }
    }
}

/// Corrects a motion by the forces at the predicted places.
pub fn correct(motion: &mut Motion, forces: &Atoms) {
    let error: Atoms =
        std::array::from_fn(|at| STEP * STEP / 2.0 * forces[at] / MASSES[at / 3] - motion[2][at]);
    for (values, share) in motion.iter_mut().zip(CORRECTIONS) {
        values.iter_mut().zip(error).for_each(|(value, error)| *value += share * error);
    }
}

/// Returns the kinetic energy of a molecule.
pub fn kinetic(motion: &Motion) -> f64 {
    let of = |(at, way): (usize, &f64)| MASSES[at / 3] * (way / STEP) * (way / STEP) / 2.0;
    motion[1].iter().enumerate().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::{STEP, begin, correct, predict};
    use crate::water::molecule::MASSES;

    #[test]
    fn an_oscillator_comes_back() {
        // A spring of a period of 100 steps, on the first number of the oxygen.
        let omega = std::f64::consts::TAU / (100.0 * STEP);
        let mut motion = begin(([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0; 9]));
        let force = |place: f64| {
            let mut forces = [0.0; 9];
            forces[0] = -MASSES[0] * omega * omega * place;
            forces
        };
        motion[2][0] = -STEP * STEP / 2.0 * omega * omega;
        for _ in 0..1000 {
            predict(&mut motion);
            let forces = force(motion[0][0]);
            correct(&mut motion, &forces);
        }
        assert!((motion[0][0] - 1.0).abs() < 1e-2, "{}", motion[0][0]);
    }
}
