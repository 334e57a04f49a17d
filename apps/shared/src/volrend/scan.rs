//! The volume in shared memory.

use crate::volrend::pyramid::{PyramidShape, ScannedVolume};
use crate::volrend::voxel::{self, OpacityTable, ShadedVoxel};
use anyhow::Result;
use clump::svm::{Home, SharedArray, Svm};
use std::ops::Range;

/// A volume that all ranks make and see.
#[derive(Debug)]
pub struct SharedScan {
    svm: Svm,
    side: usize,
    shape: PyramidShape,
    densities: SharedArray<u8>,
    voxels: SharedArray<ShadedVoxel>,
    nodes: SharedArray<u8>,
}

impl SharedScan {
    /// Allocates a volume of `side` slices. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, side: usize) -> clump::Result<Self> {
        let shape = PyramidShape::of(side);
        let nodes = svm.array(shape.nodes(), Home::Block)?;
        let voxels = side * side * side;
        Ok(Self {
            svm: svm.clone(),
            side,
            shape,
            densities: svm.array(voxels, Home::Block)?,
            voxels: svm.array(voxels, Home::Block)?,
            nodes,
        })
    }

    /// Returns the levels of its pyramid.
    pub fn shape(&self) -> &PyramidShape {
        &self.shape
    }

    /// Returns this rank's share of `all` parts.
    fn share(&self, all: usize) -> Range<usize> {
        let (rank, ranks) = (self.svm.rank(), self.svm.nranks());
        all * rank / ranks..all * (rank + 1) / ranks
    }

    /// Fills this rank's slices with what `slice` returns; a barrier ends it. A collective.
    ///
    /// # Errors
    /// Fails as `slice` does, or if a rank died.
    pub fn fill(&self, slice: impl Fn(usize) -> Result<Vec<u8>>) -> Result<()> {
        for z in self.share(self.side) {
            self.densities.write(z * self.side * self.side, &slice(z)?);
        }
        Ok(self.svm.barrier()?)
    }

    /// Finds opacities and slopes of this rank's slices; a barrier ends it. A collective.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn shade(&self) -> Result<()> {
        let (side, table) = (self.side, OpacityTable::of(self.side));
        let density = |at: [usize; 3]| self.densities.get(at[0] + side * (at[1] + side * at[2]));
        for z in self.share(side) {
            for y in 0..side {
                let row: Vec<_> =
                    (0..side).map(|x| voxel::shaded(&table, side, [x, y, z], density)).collect();
                self.voxels.write(side * (y + side * z), &row);
            }
        }
        Ok(self.svm.barrier()?)
    }

    /// Makes the pyramid, level by level, each by all ranks. A collective.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn find_empty(&self) -> Result<()> {
        for level in 0..self.shape.levels() {
            let (first, count) = self.shape.level(level);
            for number in self.share(count) {
                self.nodes.set(first + number, self.shape.make(self, level, number));
            }
            self.svm.barrier()?;
        }
        Ok(())
    }
}

impl ScannedVolume for SharedScan {
    #[inline]
    fn voxel(&self, at: usize) -> ShadedVoxel {
        self.voxels.get(at)
    }

    #[inline]
    fn node(&self, at: usize) -> u8 {
        self.nodes.get(at)
    }
}
