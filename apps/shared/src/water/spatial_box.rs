//! The molecules of all ranks in shared memory, cube by cube.

use crate::water::cube_grid::CubeGrid;
use crate::water::energy_sum::EnergySum;
use crate::water::gear::{self, Motion};
use crate::water::molecule::{Atoms, Cell, add, at_first, pair, springs};
use clump::svm::{Home, SharedArray, SharedLocks, Svm};
use std::collections::BTreeMap;
use std::ops::Range;

/// Molecules in a periodic box that is divided into cubes. A rank has some cubes, and the molecules
/// that are in them.
#[derive(Debug)]
pub struct SpatialBox {
    svm: Svm,
    cell: Cell,
    grid: CubeGrid,
    /// Cubes of this rank.
    own: Range<usize>,
    places: SharedArray<Atoms>,
    forces: SharedArray<Atoms>,
    motions: SharedArray<Motion>,
    /// The first molecule of each cube and the next of each molecule, plus 1; 0 at the end.
    firsts: SharedArray<u64>,
    nexts: SharedArray<u64>,
    /// A lock a cube, for its list and for the forces on its molecules.
    locks: SharedLocks,
    energies: EnergySum,
    /// Molecules of this rank that have changed cubes.
    moved: u64,
}

/// Forces on the molecules of cubes, collected in private memory.
type CollectedForces = BTreeMap<usize, BTreeMap<usize, Atoms>>;

impl SpatialBox {
    /// Allocates molecules, and puts them at their first places. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn fill(svm: &Svm, count: usize, seed: u64) -> clump::Result<Self> {
        let cell = Cell::of(count);
        let grid = CubeGrid::of(&cell);
        let firsts = svm.array(grid.cubes(), Home::Block)?;
        let water = Self {
            svm: svm.clone(),
            cell,
            grid,
            own: firsts.own_block(),
            places: svm.array(count, Home::Block)?,
            forces: svm.array(count, Home::Block)?,
            motions: svm.array(count, Home::Block)?,
            firsts,
            nexts: svm.array(count, Home::Block)?,
            locks: svm.locks(grid.cubes())?,
            energies: EnergySum::of(svm)?,
            moved: 0,
        };
        for molecule in 0..count {
            let motion = gear::begin(at_first(seed, count, molecule));
            let cube = grid.cube_of(&motion[0]);
            if water.own.contains(&cube) {
                water.motions.set(molecule, motion);
                water.push(cube, molecule);
            }
        }
        svm.barrier()?;
        Ok(water)
    }

    /// Returns places, or forces, of all molecules.
    pub fn all(&self, forces: bool) -> Vec<Atoms> {
        let from = if forces { &self.forces } else { &self.places };
        let mut all = vec![[0.0; 9]; from.len()];
        from.read(0, &mut all);
        all
    }

    /// Returns the number of molecules of this rank that have changed cubes.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Returns the number of molecules in the lists of this rank's cubes, and how many of them lie
    /// in other cubes.
    pub fn listed(&self) -> (u64, u64) {
        self.own.clone().fold((0, 0), |(listed, misplaced), cube| {
            let here = self.placed(cube);
            let elsewhere = here.iter().filter(|(_, at)| self.grid.cube_of(at) != cube).count();
            (listed + here.len() as u64, misplaced + elsewhere as u64)
        })
    }

    /// Puts a molecule into the list of a cube that no other rank reads or writes meanwhile.
    fn push(&self, cube: usize, molecule: usize) {
        self.nexts.set(molecule, self.firsts.get(cube));
        self.firsts.set(cube, molecule as u64 + 1);
    }

    /// Returns the molecules of a cube, in order.
    fn molecules(&self, cube: usize) -> Vec<usize> {
        let next = |molecule: u64| molecule.checked_sub(1).map(|at| at as usize);
        let first = next(self.firsts.get(cube));
        let mut all: Vec<_> =
            std::iter::successors(first, |&one| next(self.nexts.get(one))).collect();
        all.sort_unstable();
        all
    }

    /// Makes a step, and returns the energy of places and of motion; barriers are in it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn step(&mut self) -> clump::Result<[f64; 2]> {
        let leavers = self.predict();
        self.energies.clear()?;
        self.svm.barrier()?;
        self.moved += leavers.len() as u64;
        for (molecule, cube) in leavers {
            let held = self.locks.lock(cube)?;
            self.push(cube, molecule);
            held.release()?;
        }
        self.svm.barrier()?;
        let potential = self.add_forces()?;
        self.svm.barrier()?;
        let mut kinetic = 0.0;
        for molecule in self.own.clone().flat_map(|cube| self.molecules(cube)) {
            let mut motion = self.motions.get(molecule);
            gear::correct(&mut motion, &self.forces.get(molecule));
            kinetic += gear::kinetic(&motion);
            self.motions.set(molecule, motion);
        }
        self.energies.sum([potential, kinetic])
    }

    /// Predicts the molecules of this rank, and takes those that leave their cubes out of their
    /// lists; returns these, with the cubes that they go to.
    fn predict(&self) -> Vec<(usize, usize)> {
        let mut leavers = Vec::new();
        for cube in self.own.clone() {
            let molecules = self.molecules(cube);
            let before = leavers.len();
            let mut stayed = Vec::with_capacity(molecules.len());
            for molecule in molecules {
                let mut motion = self.motions.get(molecule);
                gear::predict(&mut motion);
                self.motions.set(molecule, motion);
                self.places.set(molecule, motion[0]);
                self.forces.set(molecule, [0.0; 9]);
                match self.grid.cube_of(&motion[0]) {
                    to if to == cube => stayed.push(molecule),
                    to => leavers.push((molecule, to)),
                }
            }
            if leavers.len() > before {
                self.firsts.set(cube, 0);
                stayed.into_iter().for_each(|molecule| self.push(cube, molecule));
            }
        }
        leavers
    }

    /// Returns molecules of a cube with their places.
    fn placed(&self, cube: usize) -> Vec<(usize, Atoms)> {
        let molecules = self.molecules(cube).into_iter();
        molecules.map(|molecule| (molecule, self.places.get(molecule))).collect()
    }

    /// Adds the forces of pairs that are made at this rank's cubes; returns their energy.
    fn add_forces(&self) -> clump::Result<f64> {
        let (mut energy, mut collected) = (0.0, CollectedForces::new());
        for cube in self.own.clone() {
            let here = self.placed(cube);
            let mut on_here = vec![[0.0; 9]; here.len()];
            for (at, (_, places)) in here.iter().enumerate() {
                energy += springs(places, &mut on_here[at]);
                for (other, (_, others)) in here.iter().enumerate().skip(at + 1) {
                    if let Some((more, on_a, on_b)) = pair(&self.cell, places, others) {
                        energy += more;
                        add(&mut on_here[at], &on_a);
                        add(&mut on_here[other], &on_b);
                    }
                }
            }
            for partner in self.grid.partners(cube) {
                for (other, others) in self.placed(partner) {
                    for ((_, places), on_one) in here.iter().zip(&mut on_here) {
                        let Some((more, on_a, on_b)) = pair(&self.cell, places, &others) else {
                            continue;
                        };
                        energy += more;
                        add(on_one, &on_a);
                        let there = collected.entry(partner).or_default();
                        add(there.entry(other).or_insert([0.0; 9]), &on_b);
                    }
                }
            }
            let there = collected.entry(cube).or_default();
            for ((molecule, _), forces) in here.iter().zip(&on_here) {
                add(there.entry(*molecule).or_insert([0.0; 9]), forces);
            }
        }
        // Each rank begins with its own cubes, so that not all wait for the first.
        let (before, behind): (Vec<_>, Vec<_>) =
            collected.iter().partition(|(cube, _)| **cube < self.own.start);
        for (&cube, forces) in behind.into_iter().chain(before) {
            let held = self.locks.lock(cube)?;
            for (&molecule, more) in forces {
                let mut sum = self.forces.get(molecule);
                add(&mut sum, more);
                self.forces.set(molecule, sum);
            }
            held.release()?;
        }
        Ok(energy)
    }
}
