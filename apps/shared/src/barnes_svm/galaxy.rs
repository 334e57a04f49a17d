//! The bodies of all ranks, and the steps they make.

use crate::barnes_svm::insertion;
use crate::barnes_svm::shared_octree::SharedOctree;
use crate::barnes_svm::subspaces::SpaceDivision;
use anyhow::Result;
use clump::svm::{Home, SharedArray, Svm};
use clump::{Max, Sum};
use clump_app_frame::barnes::body::{self, BodyMotion, PlacedMass};
use clump_app_frame::barnes::key::cube_side;
use clump_app_frame::barnes::shape::GalaxyShape;
use clump_app_frame::barnes::walk::{BodyWalk, Opening, attraction};
use clump_app_frame::barnes::{GalaxyLog, TreeCounts};

/// Method by which ranks build the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeBuilding {
    /// Body by body, under the locks of cells.
    Locked,
    /// Subtrees of parts of space, merged.
    Merged,
}

/// Bodies that attract each other.
#[derive(Debug)]
pub struct Galaxy {
    svm: Svm,
    shape: GalaxyShape,
    placed: SharedArray<PlacedMass>,
    motions: SharedArray<BodyMotion>,
    tree: SharedOctree,
    division: SpaceDivision,
    /// Bodies of this rank.
    own: Vec<usize>,
}

impl Galaxy {
    /// Allocates bodies, and puts them at their first places. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn make(svm: &Svm, shape: GalaxyShape) -> clump::Result<Self> {
        let placed = svm.array(shape.bodies, Home::Block)?;
        let motions = svm.array(shape.bodies, Home::Block)?;
        let own: Vec<_> = placed.own_block().collect();
        for &number in &own {
            let (at, motion) = body::body(shape.seed, shape.bodies, number);
            placed.set(number, at);
            motions.set(number, motion);
        }
        let tree = SharedOctree::allocate(svm, &placed, &motions)?;
        let division = SpaceDivision::allocate(svm, shape.bodies)?;
        Ok(Self { svm: svm.clone(), shape, placed, motions, tree, division, own })
    }

    /// Returns places and motions of all bodies.
    pub fn all(&self) -> (Vec<PlacedMass>, Vec<BodyMotion>) {
        let (mut placed, mut motions) =
            (vec![[0.0; 4]; self.shape.bodies], vec![[0.0; 8]; self.shape.bodies]);
        self.placed.read(0, &mut placed);
        self.motions.read(0, &mut motions);
        (placed, motions)
    }

    /// Makes all steps (kick, drift, kick), with a last evaluation behind them. A collective.
    ///
    /// # Errors
    /// Fails if two bodies are too close, or if a rank died.
    pub fn run(&mut self, building: TreeBuilding) -> Result<GalaxyLog> {
        let mut log = Vec::new();
        for step in 0..=self.shape.steps {
            let counts = self.evaluate(building)?;
            let mut energies = [0.0; 2];
            for &number in &self.own {
                let (mut placed, mut motion) = (self.placed.get(number), self.motions.get(number));
                let at = (step, self.shape.steps);
                let more = body::step((&mut placed, &mut motion), self.shape.time, at);
                energies.iter_mut().zip(more).for_each(|(sum, energy)| *sum += energy);
                if step < self.shape.steps {
                    self.placed.set(number, placed);
                }
                self.motions.set(number, motion);
            }
            self.svm.barrier()?;
            let team = self.svm.team();
            let [kinetic, potential] = energies;
            let energies = [team.all_reduce(kinetic, Sum)?, team.all_reduce(potential, Sum)?];
            log.push((counts, energies));
        }
        Ok(log)
    }

    /// Builds the tree, deals bodies out, and finds the forces on those of this rank; a barrier
    /// ends it.
    fn evaluate(&mut self, building: TreeBuilding) -> Result<TreeCounts> {
        let far = |number: &usize| {
            self.placed.get(*number)[..3].iter().fold(0.0_f64, |far, part| far.max(part.abs()))
        };
        let far = self.own.iter().map(far).fold(0.0, f64::max);
        let side = cube_side(self.svm.team().all_reduce(far, Max)?);
        self.tree.clear();
        match building {
            TreeBuilding::Locked => {
                if self.svm.rank() == 0 {
                    self.tree.make(0, &[0; 8])?;
                }
                self.svm.barrier()?;
                insertion::insert_all(&mut self.tree, &self.own, side)?;
                self.svm.barrier()?;
            }
            TreeBuilding::Merged => self.division.build(&mut self.tree, &self.own, side)?,
        }
        let team = self.svm.team().clone();
        let deepest = team.all_reduce(self.tree.deepest() as u64, Max)?;
        self.tree.sum_up(deepest as usize)?;
        self.own = self.tree.own_zone();
        // Costs are read until here, and written from here on.
        self.svm.barrier()?;
        let opening = Opening { side, angle: self.shape.angle };
        let (mut interactions, mut walk) = (0, BodyWalk::default());
        for &number in &self.own {
            let found = attraction(&self.tree, number, opening, &mut walk);
            let mut motion = self.motions.get(number);
            found.record(&mut motion);
            self.motions.set(number, motion);
            interactions += found.interactions;
        }
        self.svm.barrier()?;
        Ok(TreeCounts {
            cells: team.all_reduce(self.tree.made() as u64, Sum)?,
            depth: deepest,
            interactions: team.all_reduce(interactions, Sum)?,
        })
    }
}
