//! The comparison of a run with the serial one, with forces without a tree, and with the laws of
//! motion.

use crate::AppReport;
use crate::barnes::GalaxyLog;
use crate::barnes::GalaxyRun;
use crate::barnes::serial;
use crate::barnes::shape::{Bodies, GalaxyShape};

/// Bodies whose forces are summed up without a tree.
const SAMPLES: usize = 512;
/// Largest error of forces, for cells opened at ratio 1: third moments are the first that are left
/// out, so that it falls with the fourth power of the ratio.
const MAX_FORCE_ERROR: f64 = 0.05;
/// Largest change of the energy, relative.
const MAX_DRIFT: f64 = 5e-3;
/// Largest change of a part of the momentum, in parts of all momenta, a step.
const MAX_MOMENTUM: f64 = 1e-3;
/// Largest difference of energies from the serial ones, relative: of the order of sums alone.
const MAX_ROUNDING: f64 = 1e-11;

/// Returns the number of evaluations whose counts or energies are not the serial ones.
fn other_evaluations(found: &GalaxyLog, serial: &GalaxyLog) -> u64 {
    let same = |a: f64, b: f64| (a - b).abs() <= MAX_ROUNDING * b.abs();
    let pairs = found.iter().zip(serial);
    let other = pairs.filter(|((counts, energies), (due, dues))| {
        counts != due || !energies.iter().zip(dues).all(|(a, b)| same(*a, *b))
    });
    (other.count() + found.len().abs_diff(serial.len())) as u64
}

/// Compares a run that began with `first` with the serial one and with the laws of motion; returns
/// the number of what is wrong.
pub fn wrong(
    shape: &GalaxyShape,
    (placed, motions): &Bodies,
    found: &GalaxyRun,
    expected: &GalaxyRun,
    report: &mut AppReport,
) -> u64 {
    let bits = |number: usize, of: &GalaxyRun| {
        let (at, motion) = (of.placed[number], of.motions[number]);
        (at.map(f64::to_bits), motion.map(f64::to_bits))
    };
    let other =
        (0..shape.bodies).filter(|&at| bits(at, found) != bits(at, expected)).count() as u64;
    let evaluations = other_evaluations(&found.log, &expected.log);
    let error = serial::force_error(&found.placed, &found.motions, SAMPLES);
    let (before, after) = (&found.log[0], &found.log[shape.steps]);
    let energy = |(_, [kinetic, potential]): &(_, [f64; 2])| kinetic + potential;
    let drift = ((energy(after) - energy(before)) / energy(before)).abs();
    let first = serial::momentum(placed, motions);
    let last = serial::momentum(&found.placed, &found.motions);
    let moved = (0..3).map(|part| (last[part] - first[part]).abs()).fold(0.0, f64::max);
    report.count("bodies other than serially", other);
    report.count("evaluations other than serially", evaluations);
    report.count("cells of the last tree", after.0.cells);
    report.count("levels of the last tree", after.0.depth);
    report.count("interactions of the last forces", after.0.interactions);
    report.figure("error of forces, 1e-6", error * 1e6);
    report.figure("change of the energy, 1e-6", drift * 1e6);
    report.figure("change of the momentum, 1e-6", moved * 1e6);
    let exceeds = |value: f64, most: f64| u64::from(value.is_nan() || value > most);
    other
        + evaluations
        + exceeds(error, MAX_FORCE_ERROR * shape.angle.powi(4) + MAX_ROUNDING)
        + exceeds(drift, MAX_DRIFT)
        + exceeds(moved, MAX_MOMENTUM * shape.steps as f64)
}
