//! The world of the application Raytrace: balls over a chequered floor, made of random numbers, in
//! a grid of boxes.

use crate::random::Random;
use crate::rays::tracer::{FurtherRays, PixelWalk, RayWorld};
use crate::rays::vector::{Ray, Vector, along, dot, meets_ball, minus, pixel_word, unit};
use clump_bug::bug;
use std::convert::Infallible;

/// A ball: middle and radius, colour and the share of light that it mirrors.
pub type Ball = [f64; 8];

/// Boxes of a side of the grid over the floor.
pub const BOXES: usize = 8;

/// Returns ball `at` of a scene.
pub fn ball(seed: u64, at: usize) -> Ball {
    let mut random = Random::from(seed, at as u64 * 8);
    let mut share = || random.share();
    let radius = 0.1 + 0.35 * share();
    let middle = [10.0 * share() - 5.0, radius + 1.5 * share(), 10.0 * share() - 5.0];
    let colour = [0.3 + 0.7 * share(), 0.3 + 0.7 * share(), 0.3 + 0.7 * share()];
    [middle[0], middle[1], middle[2], radius, colour[0], colour[1], colour[2], 0.6 * share()]
}

/// Lists of the balls over each field of the floor, as one array: for each field the place where
/// its list begins, one more place behind the last, and the lists.
pub fn fields(balls: &[Ball]) -> Vec<u32> {
    let field = |at: f64| (((at + 5.0) / 10.0 * BOXES as f64).max(0.0) as usize).min(BOXES - 1);
    let mut lists = vec![Vec::new(); BOXES * BOXES];
    for (number, ball) in (0..).zip(balls) {
        for z in field(ball[2] - ball[3])..=field(ball[2] + ball[3]) {
            for x in field(ball[0] - ball[3])..=field(ball[0] + ball[3]) {
                lists[z * BOXES + x].push(number);
            }
        }
    }
    let head = BOXES * BOXES + 1;
    let mut all = vec![0; head];
    for (at, list) in lists.iter().enumerate() {
        all[at] = all.len() as u32;
        all.extend(list);
        all[at + 1] = all.len() as u32;
    }
    all
}

/// Balls and lists of them, in any memory.
pub trait BallScene {
    /// Returns a ball.
    fn ball(&self, number: usize) -> Ball;
    /// Returns a word of the lists of fields.
    fn field(&self, at: usize) -> u32;
}

/// Mirrors that a ray is followed through.
const MAX_MIRRORS: usize = 4;
const LIGHT: Vector = [4.0, 9.0, -3.0];
const NEAR: f64 = 1e-6;

/// The balls of a scene, their floor and their sky.
#[derive(Debug)]
pub struct BallWorld<'a, S>(&'a S);

/// A point of a ball or of the floor.
#[derive(Debug)]
pub struct BallPoint {
    at: Vector,
    normal: Vector,
    colour: Vector,
    mirrored: f64,
}

/// Returns the distance at which a ray meets a ball.
fn meets(ball: &Ball, ray: &Ray) -> Option<f64> {
    let both = meets_ball([ball[0], ball[1], ball[2]], ball[3], ray)?;
    both.into_iter().find(|&far| far > NEAR)
}

/// Returns the first ball that a ray meets, field by field of the floor, and its distance.
fn first_ball(scene: &impl BallScene, ray: &Ray) -> Option<(f64, Ball)> {
    let Ray { from, way } = *ray;
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
                if let Some(far) = meets(&ball, ray)
                    && far < best
                {
                    (best, found) = (far, Some(ball));
                }
            }
        }
    }
    found.map(|ball| (best, ball))
}

impl<S: BallScene> RayWorld for BallWorld<'_, S> {
    type Error = Infallible;
    type Search = ();
    type Point = BallPoint;

    fn first(&self, ray: &Ray, (): &mut ()) -> Result<Option<Option<BallPoint>>, Infallible> {
        let Ray { from, way } = *ray;
        let floor = if way[1] < 0.0 { -from[1] / way[1] } else { f64::INFINITY };
        let ball = first_ball(self.0, ray).filter(|(far, _)| *far < floor);
        let point = match ball {
            Some((far, ball)) => {
                let at = along(from, far, way);
                let normal = minus(at, [ball[0], ball[1], ball[2]]).map(|part| part / ball[3]);
                let colour = [ball[4], ball[5], ball[6]];
                Some(BallPoint { at, normal, colour, mirrored: ball[7] })
            }
            None if !floor.is_finite() || floor <= NEAR => None,
            None => {
                let at = along(from, floor, way);
                let dark = (at[0].floor() + at[2].floor()).rem_euclid(2.0) < 1.0;
                let colour = if dark { [0.2; 3] } else { [0.8; 3] };
                Some(BallPoint { at, normal: [0.0, 1.0, 0.0], colour, mirrored: 0.1 })
            }
        };
        Ok(Some(point))
    }

    fn is_blocked(&self, ray: &Ray, _: f64, (): &mut ()) -> Result<Option<bool>, Infallible> {
        Ok(Some(first_ball(self.0, ray).is_some()))
    }

    fn lights(&self) -> usize {
        1
    }

    fn to_light(&self, point: &BallPoint, _: usize) -> Option<(Ray, f64)> {
        let way = unit(minus(LIGHT, point.at));
        let is_turned = dot(point.normal, way) > 0.0;
        is_turned.then_some((Ray { from: point.at, way }, f64::INFINITY))
    }

    fn ambient(&self, _: &BallPoint) -> Vector {
        [0.2; 3]
    }

    fn lit(&self, _: &Ray, point: &BallPoint, _: usize, to: Vector) -> Vector {
        [0.8 * dot(point.normal, to).max(0.0); 3]
    }

    fn own_colour(&self, point: &BallPoint, lights: Vector) -> Vector {
        std::array::from_fn(|part| point.colour[part] * lights[part])
    }

    fn further(&self, ray: &Ray, point: &BallPoint) -> (f64, FurtherRays) {
        let mirrored = point.mirrored;
        if mirrored == 0.0 {
            return (1.0, [None; 2]);
        }
        let way = unit(along(ray.way, -2.0 * dot(ray.way, point.normal), point.normal));
        (1.0 - mirrored, [Some((Ray { from: point.at, way }, mirrored)), None])
    }

    fn background(&self, ray: &Ray) -> Vector {
        let height = (ray.way[1] + 1.0) / 2.0;
        [0.5 * height, 0.7 * height, height]
    }
}

/// Returns a pixel of a picture of `side` times `side`, as red, green, blue.
pub fn pixel(scene: &impl BallScene, side: usize, row: usize, column: usize) -> u32 {
    let place = |at: usize| (at as f64 + 0.5) / side as f64 - 0.5;
    let way = unit([place(column), -place(row) - 0.25, 1.0]);
    let mut walk = PixelWalk::new(MAX_MIRRORS);
    walk.begin(Ray { from: [0.0, 3.0, -8.0], way });
    match walk.advance(&BallWorld(scene)) {
        Ok(Some(light)) => pixel_word(light),
        Ok(None) => {
            bug!("a scene that is all there has no missing part");
            0
        }
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::{BOXES, ball, fields};

    #[test]
    fn every_ball_is_in_some_field() {
        let balls: Vec<_> = (0..40).map(|at| ball(3, at)).collect();
        let fields = fields(&balls);
        assert_eq!(fields[0] as usize, BOXES * BOXES + 1);
        assert_eq!(fields[BOXES * BOXES] as usize, fields.len());
        let listed = &fields[BOXES * BOXES + 1..];
        assert!((0..40).all(|number| listed.contains(&number)));
    }
}
