//! The eye: where rays begin, and where each pixel's goes.

use crate::rays::vector::{Ray, Vector, along, cross, dot, minus, unit};

/// Viewpoint of a scene.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// The eye.
    pub from: Vector,
    /// The place in the middle of the picture.
    pub at: Vector,
    /// Direction that is up.
    pub up: Vector,
    /// Degrees from the middle of the top row of pixels to that of the bottom row.
    pub angle: f64,
    /// Distance of the plane before which nothing is seen.
    pub hither: f64,
    /// Columns and rows.
    pub size: (usize, usize),
}

/// Directions of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureFrame {
    from: Vector,
    ahead: Vector,
    right: Vector,
    up: Vector,
    /// Distance of two pixels, at distance 1 of the eye.
    pitch: f64,
    hither: f64,
    size: (usize, usize),
}

impl View {
    /// Returns the directions of the picture; `None` if the eye has no direction, or up is none.
    pub fn frame(&self) -> Option<PictureFrame> {
        let ahead = unit(minus(self.at, self.from));
        let right = unit(cross(ahead, self.up));
        let up = cross(right, ahead);
        let is_sound = [ahead, right, up].as_flattened().iter().all(|part| part.is_finite());
        let rows = self.size.1.saturating_sub(1).max(1) as f64;
        let pitch = 2.0 * (self.angle.to_radians() / 2.0).tan() / rows;
        let View { from, hither, size, .. } = *self;
        is_sound.then_some(PictureFrame { from, ahead, right, up, pitch, hither, size })
    }
}

impl PictureFrame {
    /// Returns columns and rows.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Returns the ray of a pixel, counted row by row from the top left. It begins at the hither
    /// plane.
    pub fn ray(&self, pixel: usize) -> Ray {
        let (columns, rows) = self.size;
        debug_assert!(pixel < columns * rows, "a pixel of the picture");
        let (column, row) = (pixel % columns, pixel / columns);
        let across = (column as f64 - (columns - 1) as f64 / 2.0) * self.pitch;
        let down = (row as f64 - (rows - 1) as f64 / 2.0) * self.pitch;
        let way = unit(along(along(self.ahead, across, self.right), -down, self.up));
        let begins = self.hither / dot(way, self.ahead);
        Ray { from: along(self.from, begins, way), way }
    }
}

#[cfg(test)]
mod tests {
    use super::View;

    #[test]
    fn the_angle_is_that_between_outer_rows() {
        let view = View {
            from: [0.0, 0.0, 5.0],
            at: [0.0; 3],
            up: [0.0, 1.0, 0.0],
            angle: 90.0,
            hither: 0.0,
            size: (3, 3),
        };
        let frame = view.frame().unwrap();
        let slope = |pixel: usize| frame.ray(pixel).way.map(|part| (part * 1e6).round() / 1e6);
        assert_eq!(slope(4), [0.0, 0.0, -1.0]);
        let half = (0.5_f64.sqrt() * 1e6).round() / 1e6;
        assert_eq!((slope(1), slope(5)), ([0.0, half, -half], [half, 0.0, -half]));
        assert_eq!(View { up: [0.0, 0.0, 2.0], ..view }.frame(), None, "up is ahead");
        let near = View { hither: 2.0, ..view }.frame().unwrap();
        assert_eq!(near.ray(4).from, [0.0, 0.0, 3.0]);
    }
}
