//! The serial version by cubes: what ranks are compared with for speed.

use crate::water::check::WaterRun;
use crate::water::cube_grid::CubeGrid;
use crate::water::gear;
use crate::water::molecule::{Atoms, Cell, add, at_first, pair, springs};

/// Adds the forces of a pair, if they see each other, and returns its energy.
fn add_pair(
    cell: &Cell,
    places: &[Atoms],
    forces: &mut [Atoms],
    (one, other): (usize, usize),
) -> f64 {
    let Some((energy, on_a, on_b)) = pair(cell, &places[one], &places[other]) else { return 0.0 };
    add(&mut forces[one], &on_a);
    add(&mut forces[other], &on_b);
    energy
}

/// Makes steps of so many molecules.
pub fn run(seed: u64, count: usize, steps: usize) -> WaterRun {
    let cell = Cell::of(count);
    let grid = CubeGrid::of(&cell);
    let mut motions: Vec<_> = (0..count).map(|at| gear::begin(at_first(seed, count, at))).collect();
    let (mut places, mut forces, mut energies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..steps {
        motions.iter_mut().for_each(gear::predict);
        places = motions.iter().map(|motion| motion[0]).collect();
        forces = vec![[0.0; 9]; count];
        let mut lists = vec![Vec::new(); grid.cubes()];
        places.iter().enumerate().for_each(|(at, of)| lists[grid.cube_of(of)].push(at));
        let mut energy = 0.0;
        for (cube, here) in lists.iter().enumerate() {
            let partners = grid.partners(cube);
            for (at, &one) in here.iter().enumerate() {
                energy += springs(&places[one], &mut forces[one]);
                let others = partners.iter().flat_map(|&partner| &lists[partner]);
                for &other in here[at + 1..].iter().chain(others) {
                    energy += add_pair(&cell, &places, &mut forces, (one, other));
                }
            }
        }
        for (motion, forces) in motions.iter_mut().zip(&forces) {
            gear::correct(motion, forces);
            energy += gear::kinetic(motion);
        }
        energies.push(energy);
    }
    WaterRun { places, forces, energies }
}

#[cfg(test)]
mod tests {
    use crate::water::{check, verdict};

    #[test]
    fn cubes_miss_no_pair() {
        // 5 cubes a side for as many molecules as have a box of 5 nm.
        for count in [27, 125, 2744] {
            let (by_cubes, by_pairs) = (super::run(2, count, 3), check::run(2, count, 3));
            let difference = verdict::difference(&by_cubes, &by_pairs);
            assert!(difference < 1e-11, "{count}: {difference}");
        }
    }
}
