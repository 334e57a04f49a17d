//! The serial oracle: the same steps on plain arrays, and forces as differences of the energy.

use crate::water::gear;
use crate::water::molecule::{Atoms, Cell, at_first, pair, springs};

/// Result of a run.
#[derive(Debug)]
pub struct WaterRun {
    /// Places of the last step.
    pub places: Vec<Atoms>,
    /// Forces of the last step.
    pub forces: Vec<Atoms>,
    /// Energy behind each step.
    pub energies: Vec<f64>,
}

/// Returns the energy of all molecules, pair by pair in order.
pub fn energy(cell: &Cell, places: &[Atoms]) -> f64 {
    let mut sum = 0.0;
    for (at, one) in places.iter().enumerate() {
        sum += springs(one, &mut [0.0; 9]);
        let pairs = places[at + 1..].iter().filter_map(|other| pair(cell, one, other));
        sum += pairs.map(|(energy, ..)| energy).sum::<f64>();
    }
    sum
}

/// Makes steps of so many molecules.
pub fn run(seed: u64, count: usize, steps: usize) -> WaterRun {
    let cell = Cell::of(count);
    let mut motions: Vec<_> = (0..count).map(|at| gear::begin(at_first(seed, count, at))).collect();
    let (mut places, mut forces, mut energies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..steps {
        motions.iter_mut().for_each(gear::predict);
        places = motions.iter().map(|motion| motion[0]).collect();
        forces = vec![[0.0; 9]; count];
        let mut all = 0.0;
        for one in 0..count {
            all += springs(&places[one], &mut forces[one]);
            for other in one + 1..count {
                if let Some((more, on_a, on_b)) = pair(&cell, &places[one], &places[other]) {
                    all += more;
                    for at in 0..9 {
                        forces[one][at] += on_a[at];
                        forces[other][at] += on_b[at];
                    }
                }
            }
        }
        for (motion, forces) in motions.iter_mut().zip(&forces) {
            gear::correct(motion, forces);
            all += gear::kinetic(motion);
        }
        energies.push(all);
    }
    WaterRun { places, forces, energies }
}

/// Returns the largest difference between some forces and those that the energy alone implies, in
/// parts of the largest force.
pub fn force_error(cell: &Cell, places: &[Atoms], forces: &[Atoms], samples: usize) -> f64 {
    const FAR: f64 = 1e-6;
    let largest = forces.iter().flatten().fold(0.0_f64, |most, force| most.max(force.abs()));
    let error = |sample: usize| {
        let (molecule, at) = (sample * 7 % places.len(), sample * 5 % 9);
        // Only what the molecule takes part in changes.
        let alone = |far: f64| {
            let mut moved = places[molecule];
            moved[at] += far;
            let others = places.iter().enumerate().filter(|(other, _)| *other != molecule);
            let pairs = others.filter_map(|(_, other)| pair(cell, &moved, other));
            springs(&moved, &mut [0.0; 9]) + pairs.map(|(energy, ..)| energy).sum::<f64>()
        };
        let implied = -(alone(FAR) - alone(-FAR)) / (2.0 * FAR);
        (implied - forces[molecule][at]).abs() / largest
    };
    (0..samples).map(error).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{energy, force_error, run};
    use crate::water::molecule::Cell;

    #[test]
    fn forces_are_slopes_of_the_energy_and_energy_stays() {
        let serial = run(1, 64, 20);
        let cell = Cell::of(64);
        let error = force_error(&cell, &serial.places, &serial.forces, 40);
        assert!(error < 1e-6, "{error}");
        let (first, last) = (serial.energies[5], serial.energies[19]);
        assert!((last - first).abs() < 1e-4 * energy(&cell, &serial.places).abs().max(1.0));
        for part in 0..3 {
            let sum: f64 =
                serial.forces.iter().flat_map(|f| [f[part], f[3 + part], f[6 + part]]).sum();
            assert!(sum.abs() < 1e-6, "{sum}");
        }
    }
}
