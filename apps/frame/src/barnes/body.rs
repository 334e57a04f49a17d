//! Bodies of Plummer's model, in units in which the constant of gravity and the mass of all are 1,
//! and their energy is -1/4 (Aarseth, Henon and Wielen 1974).

use crate::random::Random;
use std::f64::consts::{PI, TAU};

/// Place and mass of a body.
pub type PlacedMass = [f64; 4];

/// Velocity and acceleration of a body, the potential at its place, and the interactions that its
/// force took.
pub type BodyMotion = [f64; 8];

/// Position of the potential in a motion.
pub const POTENTIAL: usize = 6;
/// Position of the number of interactions in a motion.
pub const COST: usize = 7;

/// Share of the model's mass within the radius where it is cut off.
const KEPT: f64 = 0.999;
/// Random numbers of a body, more than it ever takes.
const NUMBERS: u64 = 1 << 12;

/// Returns a vector of random direction.
fn towards(length: f64, mut share: impl FnMut() -> f64) -> [f64; 3] {
    let (height, turn) = (2.0 * share() - 1.0, TAU * share());
    let across = (1.0 - height * height).max(0.0).sqrt();
    [length * across * turn.cos(), length * across * turn.sin(), length * height]
}

/// Returns body `number` of `bodies` at the beginning.
pub fn body(seed: u64, bodies: usize, number: usize) -> (PlacedMass, BodyMotion) {
    debug_assert!(number < bodies, "body {number} of {bodies}");
    let mut random = Random::from(seed, number as u64 * NUMBERS);
    let mut share = move || (random.number() >> 11) as f64 / (1_u64 << 53) as f64;
    // The radius that contains a random share of the mass.
    let within = KEPT * (share() + f64::EPSILON).min(1.0);
    let radius = 1.0 / (within.powf(-2.0 / 3.0) - 1.0).sqrt();
    // The velocity, in shares of that of escape: by rejection, for the distribution.
    let velocity = loop {
        let (speed, height) = (share(), 0.1 * share());
        if height < speed * speed * (1.0 - speed * speed).powf(3.5) {
            break speed * 2.0_f64.sqrt() * (1.0 + radius * radius).powf(-0.25);
        }
    };
    let scale = 3.0 * PI / 16.0;
    let at = towards(scale * radius, &mut share);
    let way = towards(velocity / scale.sqrt(), &mut share);
    let placed = [at[0], at[1], at[2], 1.0 / bodies as f64];
    let mut motion = [0.0; 8];
    motion[..3].copy_from_slice(&way);
    motion[COST] = 1.0;
    (placed, motion)
}

/// Changes a velocity as the acceleration does in `time`.
fn kick(motion: &mut BodyMotion, time: f64) {
    for part in 0..3 {
        motion[part] += time * motion[3 + part];
    }
}

/// Changes a place as the velocity does in `time`.
fn drift(placed: &mut PlacedMass, motion: &BodyMotion, time: f64) {
    for part in 0..3 {
        placed[part] += time * motion[part];
    }
}

/// Makes the last half of a body's step before an evaluation, and the first half of the one behind
/// it (kick, drift, kick): there is none before the first evaluation, nor behind the last. Returns
/// the energies in between.
pub fn step(
    (placed, motion): (&mut PlacedMass, &mut BodyMotion),
    time: f64,
    (step, steps): (usize, usize),
) -> [f64; 2] {
    debug_assert!(step <= steps, "evaluation {step} of a run of {steps} steps");
    if step > 0 {
        kick(motion, time / 2.0);
    }
    let energies = energies(placed, motion);
    if step < steps {
        kick(motion, time / 2.0);
        drift(placed, motion, time);
    }
    energies
}

/// Returns the kinetic energy of a body, and its half of the potential energy.
fn energies(placed: &PlacedMass, motion: &BodyMotion) -> [f64; 2] {
    let square: f64 = motion[..3].iter().map(|part| part * part).sum();
    [placed[3] * square / 2.0, placed[3] * motion[POTENTIAL] / 2.0]
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn the_sphere_has_the_energies_of_the_model() {
        let bodies: Vec<_> = (0..2000).map(|number| body(3, 2000, number)).collect();
        let mut kinetic = 0.0;
        let mut potential = 0.0;
        for (at, (placed, motion)) in bodies.iter().enumerate() {
            kinetic += placed[3] * motion[..3].iter().map(|v| v * v).sum::<f64>() / 2.0;
            for (other, _) in &bodies[at + 1..] {
                let square: f64 = (0..3).map(|p| (placed[p] - other[p]).powi(2)).sum();
                potential -= placed[3] * other[3] / square.sqrt();
            }
        }
        assert!((kinetic - 0.25).abs() < 0.02, "{kinetic}");
        assert!((potential + 0.5).abs() < 0.03, "{potential}");
    }
}
