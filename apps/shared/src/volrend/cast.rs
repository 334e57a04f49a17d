//! Rays through a volume, in parallel, from front to back.

use crate::volrend::pyramid::{PyramidShape, ScannedVolume};

/// Distance of samples on a ray, in voxels.
pub const STEP: f64 = 1.0;
/// Opacity from which on a ray ends: what lies behind it changes no pixel by more than 3 of 255.
const DENSE: f64 = 0.99;
/// Tilt of the view, in radians.
const TILT: f64 = 0.35;
/// Slope of density from which on a surface has the light of its direction alone.
const STEEP: f64 = 12.0;

/// Point or direction, in voxels.
pub type VolumePoint = [f64; 3];

/// A picture's plane before a volume.
#[derive(Debug, Clone, Copy)]
pub struct Viewpoint {
    /// Voxels of a side of the volume.
    side: usize,
    /// Pixels of a side of the picture.
    pixels: usize,
    /// Directions of rays, of columns and of rows, and to the light.
    way: VolumePoint,
    right: VolumePoint,
    down: VolumePoint,
    light: VolumePoint,
}

fn dot(a: VolumePoint, b: VolumePoint) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn along(from: VolumePoint, far: f64, way: VolumePoint) -> VolumePoint {
    std::array::from_fn(|part| from[part] + far * way[part])
}

/// Light so far, and how opaque what it came through is.
#[derive(Debug, Clone, Copy, Default)]
struct RayLight {
    bright: f64,
    opaque: f64,
}

impl Viewpoint {
    /// Returns the view of a volume of `side` slices, turned around its y axis by so many degrees.
    pub fn turned(side: usize, pixels: usize, degrees: f64) -> Self {
        let ((sine, cosine), (up, level)) = (degrees.to_radians().sin_cos(), TILT.sin_cos());
        let way = [sine * level, up, cosine * level];
        let right = [cosine, 0.0, -sine];
        let down = [-sine * up, level, -cosine * up];
        // From behind the viewer, above and to the left.
        let light =
            std::array::from_fn(|part| -0.8 * way[part] - 0.5 * down[part] - 0.33 * right[part]);
        Self { side, pixels, way, right, down, light }
    }

    /// Returns the point that a pixel lies at, in a plane through the middle of the volume.
    pub fn at_pixel(&self, row: usize, column: usize) -> VolumePoint {
        let most = (self.side - 1) as f64;
        let place = |at: usize| ((at as f64 + 0.5) / self.pixels as f64 - 0.5) * 1.75 * most;
        along(along([most / 2.0; 3], place(column), self.right), place(row), self.down)
    }

    /// Returns the direction of all rays.
    pub fn way(&self) -> VolumePoint {
        self.way
    }

    /// Returns the first and the last distance from the plane at which a ray is in a box.
    fn inside(&self, at: VolumePoint, low: VolumePoint, high: VolumePoint) -> (f64, f64) {
        (0..3).fold((f64::NEG_INFINITY, f64::INFINITY), |(first, last), part| {
            let (way, low, high) = (self.way[part], low[part] - at[part], high[part] - at[part]);
            if way == 0.0 {
                let within = low <= 0.0 && high >= 0.0;
                return if within { (first, last) } else { (f64::INFINITY, f64::NEG_INFINITY) };
            }
            (first.max((low / way).min(high / way)), last.min((low / way).max(high / way)))
        })
    }

    /// Adds a sample to a ray.
    fn sample(&self, volume: &impl ScannedVolume, at: VolumePoint, ray: &mut RayLight) {
        let (cell, side) = (self.cell(at), self.side);
        let far: VolumePoint = std::array::from_fn(|part| at[part] - cell[part] as f64);
        let (mut opacity, mut slope) = (0.0, [0.0; 3]);
        for corner in 0..8 {
            let to = [corner & 1, corner >> 1 & 1, corner >> 2];
            let weight = |part: usize| if to[part] == 1 { far[part] } else { 1.0 - far[part] };
            let weight = weight(0) * weight(1) * weight(2);
            let [x, y, z] = [cell[0] + to[0], cell[1] + to[1], cell[2] + to[2]];
            let voxel = volume.voxel(x + side * (y + side * z));
            opacity += weight * f64::from(voxel[0]);
            for (slope, part) in slope.iter_mut().zip(&voxel[1..]) {
                *slope += weight * (f64::from(*part) - 128.0);
            }
        }
        if opacity <= 0.0 {
            return;
        }
        // Density grows inwards, so surfaces look against their slope.
        let steep = dot(slope, slope).sqrt();
        let lit = (-dot(slope, self.light) / steep.max(STEEP)).max(0.0);
        let opacity = (opacity / 255.0).min(1.0);
        ray.bright += (1.0 - ray.opaque) * opacity * (0.25 + 0.75 * lit.min(1.0));
        ray.opaque += (1.0 - ray.opaque) * opacity;
    }

    /// Returns the cell that a point lies in.
    fn cell(&self, at: VolumePoint) -> [usize; 3] {
        at.map(|part| (part.max(0.0) as usize).min(self.side - 2))
    }

    /// Returns a pixel: by leaps over the empty nodes of a pyramid, or, without one, by every
    /// sample.
    pub fn pixel(
        &self,
        volume: &impl ScannedVolume,
        leaps: Option<&PyramidShape>,
        (row, column): (usize, usize),
    ) -> u8 {
        debug_assert!(row < self.pixels && column < self.pixels, "inside the picture");
        let plane = self.at_pixel(row, column);
        let (first, last) = self.inside(plane, [0.0; 3], [(self.side - 1) as f64; 3]);
        let mut ray = RayLight::default();
        let mut number = (first / STEP).ceil();
        while number * STEP <= last && ray.opaque < DENSE {
            let at = along(plane, number * STEP, self.way);
            let empty = leaps.and_then(|shape| shape.empty_around(volume, self.cell(at)));
            match empty {
                None => {
                    self.sample(volume, at, &mut ray);
                    number += 1.0;
                }
                Some((from, cells)) => {
                    let low = from.map(|part| part as f64);
                    let (_, leaves) = self.inside(plane, low, low.map(|part| part + cells as f64));
                    // Rounded down: a sample too many adds nothing, one too few might.
                    number = (leaves / STEP).floor().max(number + 1.0);
                }
            }
        }
        (ray.bright * 255.0).round().min(255.0) as u8
    }
}
