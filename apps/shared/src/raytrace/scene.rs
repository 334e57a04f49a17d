//! The scene: balls over a chequered floor, made of random numbers, in a grid of boxes.

use clump_app_frame::random::Random;

/// Point or direction.
pub type Vector = [f64; 3];

/// A ball: middle and radius, colour and the share of light that it mirrors.
pub type Ball = [f64; 8];

/// Boxes of a side of the grid over the floor.
pub const BOXES: usize = 8;

/// Returns ball `at` of a scene.
pub fn ball(seed: u64, at: usize) -> Ball {
    let mut random = Random::from(seed, at as u64 * 8);
    let mut share = || (random.number() >> 11) as f64 / (1_u64 << 53) as f64;
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
