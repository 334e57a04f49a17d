//! Points and directions, rays, and colours as numbers.

/// Point, direction, or colour.
pub type Vector = [f64; 3];

/// A ray: where it begins, and its direction, of length 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ray {
    /// Its beginning.
    pub from: Vector,
    /// Direction.
    pub way: Vector,
}

/// Returns the scalar product.
#[inline]
pub fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Returns the vector product.
#[inline]
pub fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// Returns `from` moved `far` times `way`.
#[inline]
pub fn along(from: Vector, far: f64, way: Vector) -> Vector {
    std::array::from_fn(|at| from[at] + far * way[at])
}

/// Returns `a` without `b`.
#[inline]
pub fn minus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|at| a[at] - b[at])
}

/// Returns the direction of a vector, of length 1.
#[inline]
pub fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    a.map(|part| part / length)
}

/// Returns a colour as red, green, blue in one word.
pub fn pixel_word(light: Vector) -> u32 {
    light.iter().fold(0, |all, part| all << 8 | (part.clamp(0.0, 1.0) * 255.0) as u32)
}

/// Returns the bytes of pixels, three of each.
pub fn pixel_bytes(pixels: &[u32]) -> Vec<u8> {
    let bytes = |pixel: &u32| {
        let [_, red, green, blue] = pixel.to_be_bytes();
        [red, green, blue]
    };
    pixels.iter().flat_map(bytes).collect()
}

/// Returns both distances at which a line meets a ball, the nearer first.
#[inline]
pub fn meets_ball(middle: Vector, radius: f64, ray: &Ray) -> Option<[f64; 2]> {
    let to = minus(middle, ray.from);
    let nearest = dot(to, ray.way);
    let inside = radius * radius - (dot(to, to) - nearest * nearest);
    if inside < 0.0 {
        return None;
    }
    let half = inside.sqrt();
    Some([nearest - half, nearest + half])
}

#[cfg(test)]
mod tests {
    use super::{Ray, cross, dot, meets_ball, pixel_bytes, pixel_word, unit};

    #[test]
    fn products_and_pixels_are_those_of_the_textbook() {
        let (a, b) = ([1.0, 2.0, 3.0], [-2.0, 0.5, 4.0]);
        let normal = cross(a, b);
        assert_eq!((dot(normal, a), dot(normal, b)), (0.0, 0.0));
        assert_eq!(unit([0.0, 3.0, 4.0]), [0.0, 0.6, 0.8]);
        assert_eq!(pixel_word([1.5, 0.5, -1.0]), 0xff_7f_00);
        assert_eq!(pixel_bytes(&[0x01_02_03, 0xff_00_10]), [1, 2, 3, 255, 0, 16]);
    }

    #[test]
    fn a_line_meets_a_ball_twice_or_not_at_all() {
        let ray = Ray { from: [0.0, 0.0, -5.0], way: [0.0, 0.0, 1.0] };
        assert_eq!(meets_ball([0.0; 3], 2.0, &ray), Some([3.0, 7.0]));
        assert_eq!(meets_ball([3.0, 0.0, 0.0], 2.0, &ray), None);
    }
}
