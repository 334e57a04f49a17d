//! The molecules of all ranks, in shared memory.

use crate::water::energy_sum::EnergySum;
use crate::water::gear::{self, Motion};
use crate::water::molecule::{Atoms, Cell, add, at_first, pair, springs};
use clump::svm::{Home, SharedArray, SharedLocks, Svm};
use std::ops::Range;

/// Way in which forces are added to molecules of other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adding {
    /// Pair by pair, under the lock of the molecule.
    PairByPair,
    /// Once a step, collected in private memory.
    Collected,
}

/// Molecules in a periodic box.
#[derive(Debug)]
pub struct WaterBox {
    svm: Svm,
    cell: Cell,
    own: Range<usize>,
    places: SharedArray<Atoms>,
    forces: SharedArray<Atoms>,
    locks: SharedLocks,
    energies: EnergySum,
    /// Motions of own molecules.
    motions: Vec<Motion>,
}

/// Returns the partners with which molecule `one` of `count` makes pairs: half of the others,
/// around a ring, so that each pair is made once.
pub fn partners(one: usize, count: usize) -> impl Iterator<Item = usize> {
    let half = (count - 1) / 2;
    let opposite = count.is_multiple_of(2) && one < count / 2;
    (1..=half + usize::from(opposite)).map(move |far| (one + far) % count)
}

impl WaterBox {
    /// Allocates molecules, and puts them at their first places. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn fill(svm: &Svm, count: usize, seed: u64) -> clump::Result<Self> {
        let places = svm.array(count, Home::Block)?;
        let own = places.own_block();
        let motions = own.clone().map(|at| gear::begin(at_first(seed, count, at))).collect();
        Ok(Self {
            svm: svm.clone(),
            cell: Cell::of(count),
            own,
            places,
            forces: svm.array(count, Home::Block)?,
            locks: svm.locks(count)?,
            energies: EnergySum::of(svm)?,
            motions,
        })
    }

    /// Returns places, or forces, of all molecules.
    pub fn all(&self, forces: bool) -> Vec<Atoms> {
        let from = if forces { &self.forces } else { &self.places };
        let mut all = vec![[0.0; 9]; from.len()];
        from.read(0, &mut all);
        all
    }

    /// Makes a step, and returns the energy of places and of motion; barriers are in it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn step(&mut self, adding: Adding) -> clump::Result<[f64; 2]> {
        for (at, motion) in self.own.clone().zip(&mut self.motions) {
            gear::predict(motion);
            self.places.set(at, motion[0]);
            self.forces.set(at, [0.0; 9]);
        }
        self.energies.clear()?;
        self.svm.barrier()?;
        let potential = self.add_forces(adding)?;
        self.svm.barrier()?;
        let mut kinetic = 0.0;
        for (at, motion) in self.own.clone().zip(&mut self.motions) {
            gear::correct(motion, &self.forces.get(at));
            kinetic += gear::kinetic(motion);
        }
        self.energies.sum([potential, kinetic])
    }

    /// Adds the forces of own molecules and of the pairs that they make; returns the energy.
    fn add_forces(&self, adding: Adding) -> clump::Result<f64> {
        let count = self.places.len();
        let mut energy = 0.0;
        let mut collected = vec![None; count];
        for one in self.own.clone() {
            let here = self.places.get(one);
            let mut on_one = [0.0; 9];
            energy += springs(&here, &mut on_one);
            for other in partners(one, count) {
                let Some((pair_energy, on_a, on_b)) =
                    pair(&self.cell, &here, &self.places.get(other))
                else {
                    continue;
                };
                energy += pair_energy;
                add(&mut on_one, &on_a);
                match adding {
                    Adding::PairByPair => self.add_to(other, &on_b)?,
                    Adding::Collected => add(collected[other].get_or_insert([0.0; 9]), &on_b),
                }
            }
            match adding {
                Adding::PairByPair => self.add_to(one, &on_one)?,
                Adding::Collected => add(collected[one].get_or_insert([0.0; 9]), &on_one),
            }
        }
        // Each rank begins with its own molecules, so that not all wait for the first.
        for turn in 0..count {
            let at = (self.own.start + turn) % count;
            if let Some(forces) = &collected[at] {
                self.add_to(at, forces)?;
            }
        }
        Ok(energy)
    }

    /// Adds forces to a molecule under its lock.
    fn add_to(&self, at: usize, forces: &Atoms) -> clump::Result<()> {
        let held = self.locks.lock(at)?;
        let mut sum = self.forces.get(at);
        add(&mut sum, forces);
        self.forces.set(at, sum);
        Ok(held.release()?)
    }
}

#[cfg(test)]
mod tests {
    use super::partners;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_is_made_once() {
        for count in [1_usize, 2, 5, 8, 27] {
            let made: Vec<_> = (0..count)
                .flat_map(|one| partners(one, count).map(move |two| (one.min(two), one.max(two))))
                .collect();
            let distinct: BTreeSet<_> = made.iter().copied().collect();
            assert_eq!((made.len(), distinct.len()), (count * (count - 1) / 2, made.len()));
            assert!(distinct.iter().all(|(one, two)| one != two));
        }
    }
}
