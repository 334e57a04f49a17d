//! Scenes of our own, as texts in the neutral file format: a flake of balls, and a field of objects
//! of all kinds.

use crate::random::Random;
use crate::rays::vector::{Vector, along, cross, unit};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Objects of the floor of a field: two triangles.
const FLOOR: usize = 2;

/// Returns the text of a scene's head, of a picture of so many columns and rows.
fn head(from: Vector, at: Vector, angle: f64, (columns, rows): (usize, usize)) -> String {
    let show = |place: Vector| place.map(|part| part.to_string()).join(" ");
    format!(
        "v\nfrom {}\nat {}\nup 0 1 0\nangle {angle}\nhither 0.01\nresolution {columns} {rows}\n\
         b 0.35 0.5 0.7\nl 30 60 40\nl -50 40 20\n",
        show(from),
        show(at),
    )
}

/// Adds a line of numbers.
fn line(text: &mut String, word: &str, numbers: &[f64]) {
    text.push_str(word);
    for number in numbers {
        // Writing to a text cannot fail.
        let _ = write!(text, " {number}");
    }
    text.push('\n');
}

/// Returns a flake: a mirroring ball with nine smaller ones around it, which have smaller ones
/// themselves, up to `count` objects with the floor.
pub fn flake(count: usize, size: (usize, usize)) -> String {
    let mut text = head([2.1, 1.7, 3.3], [0.0, 0.05, 0.0], 42.0, size);
    text.push_str("f 0.75 0.7 0.6 0.8 0.15 20 0 0\np 4\n");
    for (x, z) in [(-12.0, 12.0), (12.0, 12.0), (12.0, -12.0), (-12.0, -12.0)] {
        line(&mut text, "", &[x, -1.0, z]);
    }
    text.push_str("f 1 0.9 0.7 0.4 0.45 60 0 0\n");
    let mut open = VecDeque::from([([0.0; 3], 0.5, [0.0, 1.0, 0.0])]);
    for _ in FLOOR..count.max(FLOOR + 1) {
        let Some((middle, radius, axis)): Option<(Vector, f64, Vector)> = open.pop_front() else {
            break;
        };
        line(&mut text, "s", &[middle[0], middle[1], middle[2], radius]);
        let beside = if axis[0].abs() < 0.6 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
        let right = unit(cross(axis, beside));
        let ahead = cross(axis, right);
        for child in 0..9 {
            // Six around the equator, three above.
            let (rise, turn) = if child < 6 {
                (0.0_f64, f64::from(child) * 60.0)
            } else {
                (60.0, f64::from(child) * 120.0 + 30.0)
            };
            let (up, out) = rise.to_radians().sin_cos();
            let (sine, cosine) = turn.to_radians().sin_cos();
            let round = along(right.map(|part| part * cosine), sine, ahead);
            let way = unit(along(axis.map(|part| part * up), out, round));
            open.push_back((along(middle, radius * 4.0 / 3.0, way), radius / 3.0, way));
        }
    }
    text
}

/// Returns a field of `count` random objects, with the floor.
pub fn field(count: usize, seed: u64, size: (usize, usize)) -> String {
    let objects = count.max(FLOOR + 1) - FLOOR;
    let side = (objects as f64).sqrt().ceil();
    let far = side / 2.0 + 1.0;
    let mut text = head([0.0, 0.55 * far + 1.0, 1.5 * far], [0.0, 0.0, 0.1 * far], 45.0, size);
    text.push_str("f 0.6 0.6 0.55 0.9 0 1 0 0\np 4\n");
    for (x, z) in [(-far, far), (far, far), (far, -far), (-far, -far)] {
        line(&mut text, "", &[x, 0.0, z]);
    }
    for number in 0..objects {
        let mut random = Random::from(seed, number as u64 * 32);
        let mut within = |least: f64, most: f64| least + (most - least) * random.share();
        let colour = [within(0.3, 1.0), within(0.3, 1.0), within(0.3, 1.0)];
        let kind = within(0.0, 10.0);
        let [diffuse, specular, shine, passed, index] = match within(0.0, 10.0) {
            share if share < 1.0 => [0.1, 0.1, 40.0, 0.8, 1.5],
            share if share < 3.0 => [0.3, 0.6, 60.0, 0.0, 0.0],
            _ => [0.8, within(0.0, 0.1), 15.0, 0.0, 0.0],
        };
        let finish = [diffuse, specular, shine, passed, index];
        line(&mut text, "f", &[&colour[..], &finish].concat());
        let (column, row) = (number as f64 % side, (number as f64 / side).floor());
        let at = [column - side / 2.0 + within(0.3, 0.7), 0.0, row - side / 2.0 + within(0.3, 0.7)];
        let radius = within(0.15, 0.4);
        let high = within(0.3, 1.2);
        if kind < 6.0 {
            line(&mut text, "s", &[at[0], radius + within(0.0, 0.4), at[2], radius]);
        } else if kind < 8.0 {
            let narrow = if kind < 7.0 { radius * 0.8 } else { radius * within(0.0, 0.6) };
            let top = [at[0] + within(-0.1, 0.1), high, at[2]];
            line(&mut text, "c", &[at[0], 0.0, at[2], radius, top[0], top[1], top[2], narrow]);
        } else {
            let turn = within(-0.7, 0.7);
            let (sine, cosine) = turn.sin_cos();
            let corners = [
                [at[0] - radius * cosine, 0.0, at[2] + radius * sine],
                [at[0] + radius * cosine, 0.0, at[2] - radius * sine],
                [at[0], high, at[2] - 0.1],
            ];
            let is_patch = kind >= 9.0;
            line(&mut text, if is_patch { "pp 3" } else { "p 3" }, &[]);
            for (corner, lean) in corners.iter().zip([-0.5, 0.5, 0.0]) {
                let normal = [sine + lean * cosine, 0.2, cosine - lean * sine];
                let numbers = if is_patch { [*corner, normal].concat() } else { corner.to_vec() };
                line(&mut text, "", &numbers);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{field, flake};
    use crate::rays::nff::read;

    #[test]
    fn scenes_have_as_many_objects_as_asked_for() {
        for count in [3, 12, 1000] {
            for text in [flake(count, (8, 8)), field(count, 1, (8, 8))] {
                let scene = read(&text).unwrap();
                assert_eq!((scene.scene.shapes.len(), scene.empty), (count, 0));
            }
        }
        assert_ne!(field(9, 1, (8, 8)), field(9, 2, (8, 8)));
    }
}
