//! One object of a scene: balls, triangles, cones and cylinders, as numbers that are sent as they
//! are; and what rays do to it.

use crate::rays::vector::{Ray, Vector, along, cross, dot, meets_ball, minus, unit};

/// Shape of an object, as numbers: its kind; 1 if both sides can be met, else 0; then, of a ball
/// the middle and the radius, of a triangle the corners, of a cone both ends, each with its radius.
/// A radius below 0: its inside is what can be met.
pub type ObjectShape = [f64; 11];

/// Surface of an object, as numbers: normals at the corners of a patch, colour, and [`Surface`].
pub type ObjectFinish = [f64; 17];

/// Kinds of shapes.
const BALL: f64 = 0.0;
const TRIANGLE: f64 = 1.0;
const PATCH: f64 = 2.0;
const CONE: f64 = 3.0;

/// Surface that objects of a scene have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Surface {
    /// Red, green, blue.
    pub colour: Vector,
    /// Share of light that it scatters in all directions.
    pub diffuse: f64,
    /// Share of light that it mirrors.
    pub specular: f64,
    /// Exponent of Phong's highlights.
    pub shine: f64,
    /// Share of light that passes through it.
    pub transmitted: f64,
    /// Index of refraction.
    pub refraction: f64,
}

/// Place where a ray meets an object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObjectHit {
    /// Distance along the ray.
    pub far: f64,
    /// Weights of the second and third corner of a triangle.
    pub weights: [f64; 2],
}

/// Returns the shape of a ball.
pub fn ball(middle: Vector, radius: f64) -> ObjectShape {
    shape(BALL, &[middle, [radius, 0.0, 0.0]].concat())
}

/// Returns the shape of a triangle, seen from where its corners go round counterclockwise.
pub fn triangle(corners: &[Vector; 3]) -> ObjectShape {
    shape(TRIANGLE, corners.as_flattened())
}

/// Returns the shape of a triangle whose normal differs from place to place.
pub fn patch(corners: &[Vector; 3]) -> ObjectShape {
    shape(PATCH, corners.as_flattened())
}

/// Returns the shape of a cone or cylinder without end caps.
pub fn cone(base: Vector, base_radius: f64, apex: Vector, apex_radius: f64) -> ObjectShape {
    let ends = [base[0], base[1], base[2], base_radius, apex[0], apex[1], apex[2], apex_radius];
    shape(CONE, &ends)
}

fn shape(kind: f64, numbers: &[f64]) -> ObjectShape {
    debug_assert!(numbers.len() <= 9, "a triangle has most");
    let mut shape = [0.0; 11];
    shape[0] = kind;
    shape[2..].iter_mut().zip(numbers).for_each(|(to, number)| *to = *number);
    shape
}

/// Returns the shape, with both sides to be met.
pub fn two_sided(mut shape: ObjectShape) -> ObjectShape {
    shape[1] = 1.0;
    shape
}

/// Returns numbers `at`, `at + 1` and `at + 2` of a shape or a finish.
fn three(numbers: &[f64], at: usize) -> Vector {
    [numbers[at], numbers[at + 1], numbers[at + 2]]
}

/// Returns the finish of an object with a surface; `normals`: of a patch.
pub fn finish(surface: &Surface, normals: &[Vector; 3]) -> ObjectFinish {
    let Surface { colour: [red, green, blue], .. } = *surface;
    let Surface { diffuse, specular, shine, transmitted, refraction, .. } = *surface;
    let mut finish = [0.0; 17];
    finish[..9].copy_from_slice(normals.as_flattened());
    let numbers = [red, green, blue, diffuse, specular, shine, transmitted, refraction];
    finish[9..].copy_from_slice(&numbers);
    finish
}

/// Returns the surface of a finish.
pub fn surface(finish: &ObjectFinish) -> Surface {
    let [diffuse, specular, shine, transmitted, refraction] =
        [finish[12], finish[13], finish[14], finish[15], finish[16]];
    let colour = three(finish, 9);
    Surface { colour, diffuse, specular, shine, transmitted, refraction }
}

/// Returns the least and the greatest corner of the box around an object.
pub fn bounds(shape: &ObjectShape) -> [Vector; 2] {
    let (a, b, c) = (three(shape, 2), three(shape, 5), three(shape, 8));
    match shape[0] {
        BALL => {
            let radius = shape[5].abs();
            [a.map(|part| part - radius), a.map(|part| part + radius)]
        }
        CONE => {
            let (apex, radii) = (three(shape, 6), [shape[5].abs(), shape[9].abs()]);
            let axis = unit(minus(apex, a));
            // A circle reaches as far along an axis as the sine of its angle to that says.
            let reach = |part: usize| (1.0 - axis[part] * axis[part]).max(0.0).sqrt();
            let end = |part: usize, sign: f64| {
                [
                    a[part] + sign * reach(part) * radii[0],
                    apex[part] + sign * reach(part) * radii[1],
                ]
            };
            [
                std::array::from_fn(|part| end(part, -1.0).into_iter().fold(f64::MAX, f64::min)),
                std::array::from_fn(|part| end(part, 1.0).into_iter().fold(f64::MIN, f64::max)),
            ]
        }
        _ => [
            std::array::from_fn(|part| a[part].min(b[part]).min(c[part])),
            std::array::from_fn(|part| a[part].max(b[part]).max(c[part])),
        ],
    }
}

/// Returns the first place farther than `near` where a ray meets an object.
#[inline]
pub fn meets(shape: &ObjectShape, ray: &Ray, near: f64) -> Option<ObjectHit> {
    match shape[0] {
        BALL => {
            let both = meets_ball(three(shape, 2), shape[5], ray)?;
            // The nearer place is outside, the farther one inside.
            let sides = [shape[5] > 0.0, shape[5] < 0.0].map(|side| side || shape[1] > 0.0);
            let mut met = both.into_iter().zip(sides);
            let (far, _) = met.find(|(far, is_seen)| *is_seen && *far > near)?;
            Some(ObjectHit { far, weights: [0.0; 2] })
        }
        CONE => {
            let is_seen = |far: f64| {
                let outside = dot(cone_normal(shape, along(ray.from, far, ray.way)), ray.way) < 0.0;
                shape[1] > 0.0 || outside == (shape[5] + shape[9] > 0.0)
            };
            let far =
                cone_roots(shape, ray)?.into_iter().find(|&far| far > near && is_seen(far))?;
            Some(ObjectHit { far, weights: [0.0; 2] })
        }
        _ => meets_triangle(shape, ray, near),
    }
}

/// Möller and Trumbore, 1997.
fn meets_triangle(shape: &ObjectShape, ray: &Ray, near: f64) -> Option<ObjectHit> {
    let a = three(shape, 2);
    let (second, third) = (minus(three(shape, 5), a), minus(three(shape, 8), a));
    let across = cross(ray.way, third);
    let scale = dot(second, across);
    if scale == 0.0 || (scale < 0.0 && shape[1] == 0.0) {
        return None;
    }
    let from = minus(ray.from, a);
    let u = dot(from, across) / scale;
    if !(0.0..=1.0).contains(&u) {
        return None;
    }
    let turned = cross(from, second);
    let v = dot(ray.way, turned) / scale;
    let far = dot(third, turned) / scale;
    let is_met = v >= 0.0 && u + v <= 1.0 && far > near;
    is_met.then_some(ObjectHit { far, weights: [u, v] })
}

/// Axis of a cone, its length, its base radius, and what the radius grows by along it.
fn cone_axis(shape: &ObjectShape) -> (Vector, f64, f64, f64) {
    let axis = minus(three(shape, 6), three(shape, 2));
    let length = dot(axis, axis).sqrt();
    let (base, apex) = (shape[5].abs(), shape[9].abs());
    (axis.map(|part| part / length), length, base, (apex - base) / length)
}

/// Returns the distances at which a line meets a cone, in order; those that are none are not
/// numbers.
fn cone_roots(shape: &ObjectShape, ray: &Ray) -> Option<[f64; 2]> {
    let (axis, length, base, growth) = cone_axis(shape);
    let from = minus(ray.from, three(shape, 2));
    let (up, climb) = (dot(from, axis), dot(ray.way, axis));
    let (away, turn) = (along(from, -up, axis), along(ray.way, -climb, axis));
    let radius = base + growth * up;
    let a = dot(turn, turn) - growth * growth * climb * climb;
    let b = dot(away, turn) - growth * climb * radius;
    let c = dot(away, away) - radius * radius;
    let mut roots = if a.abs() < 1e-12 {
        [-c / (2.0 * b), f64::NAN]
    } else {
        let square = b * b - a * c;
        if square < 0.0 {
            return None;
        }
        let half = square.sqrt();
        [(-b - half) / a, (-b + half) / a]
    };
    if roots[0] > roots[1] {
        roots.swap(0, 1);
    }
    let is_on = |far: f64| (0.0..=length).contains(&(up + far * climb));
    Some(roots.map(|far| if is_on(far) { far } else { f64::NAN }))
}

/// Returns the normal of a cone, outwards, at a place on it.
fn cone_normal(shape: &ObjectShape, at: Vector) -> Vector {
    let (axis, _, _, growth) = cone_axis(shape);
    let from = minus(at, three(shape, 2));
    let away = along(from, -dot(from, axis), axis);
    let length = dot(away, away).sqrt();
    if length == 0.0 {
        return axis;
    }
    unit(along(away.map(|part| part / length), -growth, axis))
}

/// Returns the outward normal of an object where a ray met it, by its shape and as its light is
/// found with.
pub fn normals(
    shape: &ObjectShape,
    finish: &ObjectFinish,
    at: Vector,
    hit: &ObjectHit,
) -> [Vector; 2] {
    match shape[0] {
        BALL => {
            let out = minus(at, three(shape, 2)).map(|part| part / shape[5].abs());
            [out; 2]
        }
        CONE => [cone_normal(shape, at); 2],
        kind => {
            let a = three(shape, 2);
            let flat = unit(cross(minus(three(shape, 5), a), minus(three(shape, 8), a)));
            let [u, v] = hit.weights;
            let part =
                |at: usize| (1.0 - u - v) * finish[at] + u * finish[at + 3] + v * finish[at + 6];
            let bent = if kind == PATCH { unit([part(0), part(1), part(2)]) } else { flat };
            [flat, if bent.iter().all(|part| part.is_finite()) { bent } else { flat }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Surface, ball, bounds, cone, finish, meets, normals, surface, triangle, two_sided,
    };
    use crate::rays::vector::{Ray, Vector, along, unit};

    const NEAR: f64 = 1e-6;

    fn far(shape: &super::ObjectShape, from: Vector, to: Vector) -> Option<f64> {
        let way = unit(std::array::from_fn(|at| to[at] - from[at]));
        meets(shape, &Ray { from, way }, NEAR).map(|hit| (hit.far * 1e6).round() / 1e6)
    }

    #[test]
    fn one_side_is_met_and_both_where_light_passes() {
        let (out, middle) = ([0.0, 0.0, -5.0], [0.0; 3]);
        let [solid, hollow] = [2.0, -2.0].map(|radius| ball(middle, radius));
        assert_eq!([far(&solid, out, middle), far(&hollow, out, middle)], [Some(3.0), Some(7.0)]);
        assert_eq!(
            [far(&solid, middle, out), far(&two_sided(solid), middle, out)],
            [None, Some(2.0)]
        );
        let corners = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        let flat = triangle(&corners);
        let (front, back, inside) = ([0.2, 0.2, 3.0], [0.2, 0.2, -3.0], [0.2, 0.2, 0.0]);
        assert_eq!([far(&flat, front, inside), far(&flat, back, inside)], [Some(3.0), None]);
        assert_eq!(far(&two_sided(flat), back, inside), Some(3.0));
        assert_eq!(far(&flat, [0.9, 0.9, 3.0], [0.9, 0.9, 0.0]), None);
    }

    #[test]
    fn a_cylinder_and_a_cone_are_open_at_their_ends() {
        let tube = cone([0.0; 3], 1.0, [0.0, 4.0, 0.0], 1.0);
        assert_eq!(far(&tube, [-5.0, 2.0, 0.0], [0.0, 2.0, 0.0]), Some(4.0));
        assert_eq!(far(&tube, [0.0, 9.0, 0.0], [0.0, 0.0, 0.0]), None);
        assert_eq!(far(&tube, [0.0, 2.0, 0.0], [5.0, 2.0, 0.0]), None, "its inside");
        assert_eq!(far(&two_sided(tube), [0.0, 2.0, 0.0], [5.0, 2.0, 0.0]), Some(1.0));
        let hat = cone([0.0; 3], 2.0, [0.0, 2.0, 0.0], 0.0);
        assert_eq!(far(&hat, [-5.0, 1.0, 0.0], [0.0, 1.0, 0.0]), Some(4.0));
        assert_eq!(far(&hat, [-5.0, 2.5, 0.0], [0.0, 2.5, 0.0]), None, "above its apex");
        assert_eq!(bounds(&hat), [[-2.0, 0.0, -2.0], [2.0, 2.0, 2.0]]);
        let plain = finish(&Surface::default(), &[[0.0; 3]; 3]);
        let ray = Ray { from: [-5.0, 1.0, 0.0], way: [1.0, 0.0, 0.0] };
        let hit = meets(&hat, &ray, NEAR).unwrap();
        let [normal, _] = normals(&hat, &plain, along(ray.from, hit.far, ray.way), &hit);
        let slope = 0.5_f64.sqrt();
        assert!((normal[0] + slope).abs() < 1e-9 && (normal[1] - slope).abs() < 1e-9);
    }

    #[test]
    fn a_surface_is_kept_in_the_finish() {
        let some = Surface {
            colour: [0.1, 0.2, 0.3],
            diffuse: 0.4,
            specular: 0.5,
            shine: 6.0,
            transmitted: 0.7,
            refraction: 1.8,
        };
        assert_eq!(surface(&finish(&some, &[[0.0; 3]; 3])), some);
    }
}
