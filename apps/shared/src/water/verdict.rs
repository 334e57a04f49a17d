//! Judgement of a run: beside a serial one, and by the laws of motion.

use crate::water::check::{self, WaterRun};
use crate::water::molecule::{Atoms, Cell};
use clump_app_frame::AppReport;

/// Largest difference to a serial run, relative: of rounding alone.
const MAX_DIFFERENCE: f64 = 1e-10;
/// Largest error of a force, relative, by differences of the energy.
const MAX_FORCE_ERROR: f64 = 1e-6;
/// Steps that the integrator takes from a start without accelerations to its full order.
const SETTLED: usize = 4;
/// Largest change of the energy behind those, relative.
const MAX_DRIFT: f64 = 1e-4;

fn largest(values: &[Atoms]) -> f64 {
    values.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()))
}

/// Returns the largest difference between two runs, relative.
pub fn difference(found: &WaterRun, serial: &WaterRun) -> f64 {
    let far = |a: &[Atoms], b: &[Atoms]| {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.fold(0.0_f64, |far, (a, b)| far.max((a - b).abs())) / largest(b)
    };
    let energies = found.energies.iter().zip(&serial.energies);
    let energy = energies.fold(0.0_f64, |far, (a, b)| far.max(((a - b) / b).abs()));
    far(&found.places, &serial.places).max(far(&found.forces, &serial.forces)).max(energy)
}

/// Reports the errors of a run of more than [`SETTLED`] steps, and returns the number of those
/// that are too large.
pub fn wrong(found: &WaterRun, serial: &WaterRun, report: &mut AppReport) -> u64 {
    debug_assert!(found.energies.len() > SETTLED, "the integrator has settled");
    let WaterRun { places, forces, energies } = found;
    let difference = difference(found, serial);
    let force_error = check::force_error(&Cell::of(places.len()), places, forces, 30);
    let sum = |part: usize| forces.iter().map(|f| f[part] + f[3 + part] + f[6 + part]).sum::<f64>();
    let momentum = (0..3).map(|part| sum(part).abs()).fold(0.0, f64::max) / largest(forces);
    // Molecules begin without accelerations, and the predictor takes steps to reach its order.
    let last = energies.last().copied().unwrap_or(f64::NAN);
    let drift = (last - energies[SETTLED]).abs() / energies[SETTLED].abs();
    report.figure("largest difference to serial", difference);
    report.figure("largest error of a force", force_error);
    report.figure("sum of all forces, relative", momentum);
    report.figure("change of the energy, relative", drift);
    exceeds(difference, MAX_DIFFERENCE)
        + exceeds(force_error, MAX_FORCE_ERROR)
        + exceeds(momentum, MAX_DIFFERENCE)
        + exceeds(drift, MAX_DRIFT)
}

/// Returns 1 for a difference that rounding does not explain, else 0.
pub fn other(difference: f64) -> u64 {
    exceeds(difference, MAX_DIFFERENCE)
}

fn exceeds(value: f64, most: f64) -> u64 {
    u64::from(value.is_nan() || value > most)
}
