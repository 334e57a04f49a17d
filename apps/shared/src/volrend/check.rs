//! The serial version in private memory.

use crate::volrend::cast::Viewpoint;
use crate::volrend::pyramid::{PyramidShape, ScannedVolume};
use crate::volrend::voxel::{self, OpacityTable, ShadedVoxel};

/// A volume in private memory.
#[derive(Debug)]
pub struct SerialScan {
    /// Levels of its pyramid.
    pub shape: PyramidShape,
    voxels: Vec<ShadedVoxel>,
    nodes: Vec<u8>,
}

impl ScannedVolume for SerialScan {
    #[inline]
    fn voxel(&self, at: usize) -> ShadedVoxel {
        self.voxels[at]
    }

    #[inline]
    fn node(&self, at: usize) -> u8 {
        self.nodes[at]
    }
}

impl SerialScan {
    /// Makes a volume of `side` slices of its densities.
    pub fn of(side: usize, densities: &[u8]) -> Self {
        debug_assert_eq!(densities.len(), side * side * side, "a cube of voxels");
        let table = OpacityTable::of(side);
        let density = |at: [usize; 3]| densities[at[0] + side * (at[1] + side * at[2])];
        let voxel = |at: usize| {
            let place = [at % side, at / side % side, at / side / side];
            voxel::shaded(&table, side, place, density)
        };
        let shape = PyramidShape::of(side);
        let voxels = (0..densities.len()).map(voxel).collect();
        let mut scan = Self { nodes: vec![0; shape.nodes()], shape, voxels };
        for level in 0..scan.shape.levels() {
            let (first, count) = scan.shape.level(level);
            for number in 0..count {
                scan.nodes[first + number] = scan.shape.make(&scan, level, number);
            }
        }
        scan
    }

    /// Returns a picture, with leaps over empty space.
    pub fn picture(&self, view: &Viewpoint, pixels: usize) -> Vec<u8> {
        let pixel = |at: usize| view.pixel(self, Some(&self.shape), (at / pixels, at % pixels));
        (0..pixels * pixels).map(pixel).collect()
    }

    /// Returns how many of a picture's pixels are others when rays make every sample.
    pub fn other_by_every_sample(&self, view: &Viewpoint, pixels: usize, picture: &[u8]) -> u64 {
        debug_assert_eq!(picture.len(), pixels * pixels, "a square");
        let every = |at: usize| view.pixel(self, None, (at / pixels, at % pixels));
        picture.iter().enumerate().filter(|(at, pixel)| every(*at) != **pixel).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::SerialScan;
    use crate::volrend::cast::Viewpoint;
    use crate::volrend::phantom;
    use crate::volrend::pyramid::ScannedVolume;

    const SIDE: usize = 48;
    const PIXELS: usize = 60;

    fn head() -> SerialScan {
        let densities: Vec<u8> = (0..SIDE).flat_map(|z| phantom::slice(SIDE, z)).collect();
        SerialScan::of(SIDE, &densities)
    }

    #[test]
    fn leaps_over_empty_space_change_no_pixel() {
        let scan = head();
        let (first, count) = scan.shape.level(0);
        let full = (first..first + count).filter(|&node| scan.node(node) > 0).count();
        assert!(full > count / 10 && full < count * 9 / 10, "{full} of {count}");
        for degrees in [0.0, 30.0, 90.0, 211.0] {
            let view = Viewpoint::turned(SIDE, PIXELS, degrees);
            let picture = scan.picture(&view, PIXELS);
            assert_eq!(scan.other_by_every_sample(&view, PIXELS, &picture), 0);
        }
    }

    #[test]
    fn the_outline_is_that_of_the_skull() {
        let scan = head();
        let view = Viewpoint::turned(SIDE, PIXELS, 40.0);
        let picture = scan.picture(&view, PIXELS);
        let mut others = 0;
        let middle = (SIDE - 1) as f64 / 2.0;
        for (at, pixel) in picture.iter().enumerate() {
            // The ray in units in which the ellipsoid is a ball of radius 1.
            let axes = [0.69, 0.92, 0.81].map(|axis| axis * SIDE as f64 / 2.0);
            let from = view.at_pixel(at / PIXELS, at % PIXELS);
            let from: [f64; 3] = std::array::from_fn(|p| (from[p] - middle) / axes[p]);
            let way: [f64; 3] = std::array::from_fn(|p| view.way()[p] / axes[p]);
            let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let nearest = dot(from, from) - dot(from, way).powi(2) / dot(way, way);
            others += usize::from((nearest < 1.0) != (*pixel > 0));
        }
        let lit = picture.iter().filter(|&&pixel| pixel > 0).count();
        // Voxels are wider than pixels: the outline is uncertain by about one all around.
        assert!(lit > PIXELS * PIXELS / 8 && others * 8 < lit, "{others} of {lit}");
    }
}
