//! The tree in shared memory, its sums, and the shares of its bodies.

use anyhow::{Result, ensure};
use clump::pgas::CostZones;
use clump::svm::{Home, SharedArray, SharedLocks, Svm};
use clump_app_frame::barnes::body::{BodyMotion, COST, PlacedMass};
use clump_app_frame::barnes::moments::{self, CELL_COST, CellMoments};
use clump_app_frame::barnes::walk::{OctantChild, OctantWord, Octree};
use std::ops::Range;

/// The tree of all ranks. Each makes cells in a part of the arrays of its own.
#[derive(Debug)]
pub struct SharedOctree {
    svm: Svm,
    placed: SharedArray<PlacedMass>,
    motions: SharedArray<BodyMotion>,
    /// Eight words a cell.
    octants: SharedArray<OctantWord>,
    moments: SharedArray<CellMoments>,
    /// A lock a cell.
    locks: SharedLocks,
    /// Cells that a rank can make.
    per_rank: usize,
    /// Cells that this rank has made, with their levels.
    made: Vec<(usize, usize)>,
}

impl SharedOctree {
    /// Allocates a tree for the bodies of two arrays. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(
        svm: &Svm,
        placed: &SharedArray<PlacedMass>,
        motions: &SharedArray<BodyMotion>,
    ) -> clump::Result<Self> {
        // Memory that no cell is made in costs nothing.
        let per_rank = 2 * placed.len() + 1024;
        let cells = per_rank * svm.nranks();
        Ok(Self {
            svm: svm.clone(),
            placed: placed.clone(),
            motions: motions.clone(),
            octants: svm.array(8 * cells, Home::Block)?,
            moments: svm.array(cells, Home::Block)?,
            locks: svm.locks(cells)?,
            per_rank,
            made: Vec::new(),
        })
    }

    /// Returns the locks of cells.
    pub fn locks(&self) -> &SharedLocks {
        &self.locks
    }

    /// Forgets all cells of this rank.
    pub fn clear(&mut self) {
        self.made.clear();
    }

    /// Returns the number of cells that this rank has made.
    pub fn made(&self) -> usize {
        self.made.len()
    }

    /// Returns the largest level of a cell that this rank has made.
    pub fn deepest(&self) -> usize {
        self.made.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// Makes a cell of this rank, at `level`, with the parts `octants`.
    ///
    /// # Errors
    /// Fails if this rank has made as many as it can.
    pub fn make(&mut self, level: usize, octants: &[OctantWord; 8]) -> Result<usize> {
        ensure!(self.made.len() < self.per_rank, "a rank needs more than {} cells", self.per_rank);
        let cell = self.svm.rank() * self.per_rank + self.made.len();
        self.octants.write(8 * cell, octants);
        self.made.push((cell, level));
        Ok(cell)
    }

    /// Sets one part of a cell.
    pub fn set_octant(&self, cell: usize, octant: usize, child: OctantChild) {
        debug_assert!(octant < 8, "a cell has eight parts");
        self.octants.set(8 * cell + octant, child.word());
    }

    /// Returns the moments of part of a cell.
    fn moments_of(&self, child: OctantChild) -> CellMoments {
        match child {
            OctantChild::Body(body) => {
                moments::of_body(&self.placed.get(body), self.motions.get(body)[COST])
            }
            OctantChild::Cell(cell) => self.moments.get(cell),
        }
    }

    /// Sums the cells of this rank up, level by level, the deepest first; each level ends with a
    /// barrier. A collective: all ranks pass the deepest level of all.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn sum_up(&self, deepest: usize) -> Result<()> {
        let mut parts = Vec::with_capacity(8);
        for level in (0..=deepest).rev() {
            for &(cell, _) in self.made.iter().filter(|(_, of)| *of == level) {
                parts.clear();
                let children = self.octants(cell).into_iter().filter_map(OctantChild::of);
                parts.extend(children.map(|child| self.moments_of(child)));
                self.moments.set(cell, moments::of_parts(&parts));
            }
            self.svm.barrier()?;
        }
        Ok(())
    }

    /// Returns the bodies whose costs, added up in the order of the tree, begin in this rank's
    /// share of the cost of all (cost zones).
    pub fn own_zone(&self) -> Vec<usize> {
        let all = self.moments.get(0)[CELL_COST] as u64;
        let zone = CostZones::new(all, self.svm.nranks()).zone(self.svm.rank());
        let (mut before, mut bodies) = (0, Vec::new());
        self.collect_zone(0, &zone, &mut before, &mut bodies);
        bodies
    }

    fn collect_zone(&self, cell: usize, zone: &Range<u64>, before: &mut u64, to: &mut Vec<usize>) {
        for child in self.octants(cell).into_iter().filter_map(OctantChild::of) {
            if *before >= zone.end {
                return;
            }
            let cost = self.moments_of(child)[CELL_COST] as u64;
            match child {
                OctantChild::Cell(part) if *before + cost > zone.start => {
                    self.collect_zone(part, zone, before, to);
                    continue;
                }
                OctantChild::Body(body) if *before >= zone.start => to.push(body),
                _ => {}
            }
            *before += cost;
        }
    }
}

impl Octree for SharedOctree {
    #[inline]
    fn octants(&self, cell: usize) -> [OctantWord; 8] {
        let mut octants = [0; 8];
        self.octants.read(8 * cell, &mut octants);
        octants
    }

    #[inline]
    fn moments(&self, cell: usize) -> CellMoments {
        self.moments.get(cell)
    }

    #[inline]
    fn placed(&self, body: usize) -> PlacedMass {
        self.placed.get(body)
    }
}
