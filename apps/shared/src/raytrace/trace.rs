//! Rays, from the eye to what they meet.

use crate::raytrace::scene::{BOXES, Ball, Vector};

/// Objects that rays hit, in any memory.
pub trait Scene {
    /// Returns a ball.
    fn ball(&self, number: usize) -> Ball;
    /// Returns a word of the lists of fields.
    fn field(&self, at: usize) -> u32;
}

/// Mirrors that a ray is followed through.
const MAX_MIRRORS: u32 = 4;
const LIGHT: Vector = [4.0, 9.0, -3.0];
const NEAR: f64 = 1e-6;

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn along(from: Vector, far: f64, way: Vector) -> Vector {
    std::array::from_fn(|at| from[at] + far * way[at])
}

fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}

/// Returns the distance at which a ray meets a ball.
fn meets(ball: &Ball, from: Vector, way: Vector) -> Option<f64> {
    let to: Vector = std::array::from_fn(|at| ball[at] - from[at]);
    let nearest = dot(to, way);
    let inside = ball[3] * ball[3] - (dot(to, to) - nearest * nearest);
    if inside < 0.0 {
        return None;
    }
    let half = inside.sqrt();
    [nearest - half, nearest + half].into_iter().find(|&far| far > NEAR)
}

/// Returns the first ball that a ray meets, field by field of the floor, and its distance.
fn first_ball(scene: &impl Scene, from: Vector, way: Vector) -> Option<(f64, Ball)> {
    let width = 10.0 / BOXES as f64;
    let (mut best, mut found): (f64, Option<Ball>) = (f64::INFINITY, None);
    for z in 0..BOXES {
        for x in 0..BOXES {
            // The part of the ray over this field.
            let corner = [x as f64 * width - 5.0, z as f64 * width - 5.0];
            let (mut enters, mut leaves) = (0.0_f64, best);
            for (part, low) in [(0, corner[0]), (2, corner[1])] {
                let (a, b) =
                    ((low - from[part]) / way[part], (low + width - from[part]) / way[part]);
                if a.is_nan() || b.is_nan() {
                    continue;
                }
                (enters, leaves) = (enters.max(a.min(b)), leaves.min(a.max(b)));
            }
            if enters > leaves {
                continue;
            }
            let list = scene.field(z * BOXES + x)..scene.field(z * BOXES + x + 1);
            for at in list {
                let ball = scene.ball(scene.field(at as usize) as usize);
                if let Some(far) = meets(&ball, from, way)
                    && far < best
                {
                    (best, found) = (far, Some(ball));
                }
            }
        }
    }
    found.map(|ball| (best, ball))
}

/// Returns the colour that a ray brings.
fn colour(scene: &impl Scene, from: Vector, way: Vector, mirrors: u32) -> Vector {
    let floor = if way[1] < 0.0 { -from[1] / way[1] } else { f64::INFINITY };
    let ball = first_ball(scene, from, way).filter(|(far, _)| *far < floor);
    if ball.is_none() && (!floor.is_finite() || floor <= NEAR) {
        let height = (way[1] + 1.0) / 2.0;
        return [0.5 * height, 0.7 * height, height];
    }
    let (far, normal, own, mirrored) = match ball {
        Some((far, ball)) => {
            let at = along(from, far, way);
            let out = std::array::from_fn(|part| (at[part] - ball[part]) / ball[3]);
            (far, out, [ball[4], ball[5], ball[6]], ball[7])
        }
        None => {
            let at = along(from, floor, way);
            let dark = (at[0].floor() + at[2].floor()).rem_euclid(2.0) < 1.0;
            (floor, [0.0, 1.0, 0.0], if dark { [0.2; 3] } else { [0.8; 3] }, 0.1)
        }
    };
    let at = along(from, far, way);
    let to_light = unit(std::array::from_fn(|part| LIGHT[part] - at[part]));
    let lit = dot(normal, to_light).max(0.0);
    let shaded = lit > 0.0 && first_ball(scene, at, to_light).is_some();
    let bright = 0.2 + if shaded { 0.0 } else { 0.8 * lit };
    let direct = own.map(|part| part * bright);
    if mirrored == 0.0 || mirrors == MAX_MIRRORS {
        return direct;
    }
    let back = along(way, -2.0 * dot(way, normal), normal);
    let seen = colour(scene, at, unit(back), mirrors + 1);
    std::array::from_fn(|part| direct[part] * (1.0 - mirrored) + seen[part] * mirrored)
}

/// Returns a pixel of a picture of `side` times `side`, as red, green, blue.
pub fn pixel(scene: &impl Scene, side: usize, row: usize, column: usize) -> u32 {
    let place = |at: usize| (at as f64 + 0.5) / side as f64 - 0.5;
    let way = unit([place(column), -place(row) - 0.25, 1.0]);
    let light = colour(scene, [0.0, 3.0, -8.0], way, 0);
    light.iter().fold(0, |all, part| all << 8 | (part.clamp(0.0, 1.0) * 255.0) as u32)
}
