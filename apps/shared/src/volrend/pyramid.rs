//! The octree over a volume, as levels of nodes: which of them are empty.

use crate::volrend::voxel::ShadedVoxel;

/// Cells of a side of a node of the lowest level. A cell lies between eight voxels.
const LEAF: usize = 4;

/// Levels of nodes, from fine to coarse; the coarsest is one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PyramidShape {
    /// Number of the first node, nodes of a side and cells of a node's side, of each level.
    levels: Vec<(usize, usize, usize)>,
    side: usize,
}

/// A volume, in any memory.
pub trait ScannedVolume {
    /// Returns voxel `at`: x + side * (y + side * z).
    fn voxel(&self, at: usize) -> ShadedVoxel;
    /// Returns 0 if node `at` of the pyramid is empty.
    fn node(&self, at: usize) -> u8;
}

impl PyramidShape {
    /// Returns the levels over a volume of `side` slices, at least 2.
    pub fn of(side: usize) -> Self {
        debug_assert!(side >= 2, "a volume has a cell");
        let (mut levels, mut first, mut cells) = (Vec::new(), 0, LEAF);
        loop {
            let per_side = (side - 1).div_ceil(cells);
            levels.push((first, per_side, cells));
            if per_side == 1 {
                return Self { levels, side };
            }
            (first, cells) = (first + per_side.pow(3), 2 * cells);
        }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.levels.iter().map(|(_, per_side, _)| per_side.pow(3)).sum()
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of the first node of a level, and how many there are.
    pub fn level(&self, level: usize) -> (usize, usize) {
        let (first, per_side, _) = self.levels[level];
        (first, per_side.pow(3))
    }

    /// Returns node `number` of a level: 1 if a voxel of its cells is not transparent. The level
    /// below is known.
    pub fn make(&self, volume: &impl ScannedVolume, level: usize, number: usize) -> u8 {
        let per_side = self.levels[level].1;
        let at = [number % per_side, number / per_side % per_side, number / per_side / per_side];
        let full =
            |from: [usize; 3], to: [usize; 3], full: &dyn Fn(usize, usize, usize) -> bool| {
                let places = (from[2]..to[2]).flat_map(|z| (from[1]..to[1]).map(move |y| (y, z)));
                places.into_iter().any(|(y, z)| (from[0]..to[0]).any(|x| full(x, y, z)))
            };
        let is_full = if level == 0 {
            let side = self.side;
            let to = at.map(|part| (part * LEAF + LEAF + 1).min(side));
            full(at.map(|part| part * LEAF), to, &|x, y, z| {
                volume.voxel(x + side * (y + side * z))[0] > 0
            })
        } else {
            let (first, below, _) = self.levels[level - 1];
            let to = at.map(|part| (2 * part + 2).min(below));
            full(at.map(|part| 2 * part), to, &|x, y, z| {
                volume.node(first + x + below * (y + below * z)) > 0
            })
        };
        u8::from(is_full)
    }

    /// Returns the largest empty node that a cell lies in: its first cell, and the cells of its
    /// side.
    pub fn empty_around(
        &self,
        volume: &impl ScannedVolume,
        cell: [usize; 3],
    ) -> Option<([usize; 3], usize)> {
        self.levels.iter().rev().find_map(|&(first, per_side, cells)| {
            let at = cell.map(|part| part / cells);
            let node = first + at[0] + per_side * (at[1] + per_side * at[2]);
            (volume.node(node) == 0).then(|| (at.map(|part| part * cells), cells))
        })
    }
}
