//! The serial version, whose tree is made of sorted bodies in private memory; and forces and
//! energies without a tree.

use crate::barnes::body::{self, BodyMotion, COST, PlacedMass};
use crate::barnes::key::{CubeKey, MAX_LEVELS, cube_side, in_tree_order, key_of, octant};
use crate::barnes::moments::{self, CellMoments, SOFTENING};
use crate::barnes::shape::{Bodies, GalaxyShape};
use crate::barnes::walk::{BodyWalk, OctantChild, OctantWord, Octree, Opening, attraction};
use crate::barnes::{GalaxyRun, TreeCounts};

struct SerialOctree<'a> {
    placed: &'a [PlacedMass],
    motions: &'a [BodyMotion],
    octants: Vec<[OctantWord; 8]>,
    moments: Vec<CellMoments>,
    depth: usize,
}

impl Octree for SerialOctree<'_> {
    fn octants(&self, cell: usize) -> [OctantWord; 8] {
        self.octants[cell]
    }

    fn moments(&self, cell: usize) -> CellMoments {
        self.moments[cell]
    }

    fn placed(&self, body: usize) -> PlacedMass {
        self.placed[body]
    }
}

impl SerialOctree<'_> {
    /// Makes the cell of sorted bodies at `level`, and returns it.
    fn make(&mut self, bodies: &[(CubeKey, usize)], level: usize) -> usize {
        debug_assert!(level < MAX_LEVELS, "the shared tree has the same bodies");
        let cell = self.octants.len();
        self.octants.push([0; 8]);
        self.moments.push([0.0; 12]);
        self.depth = self.depth.max(level);
        let (mut octants, mut parts) = ([0; 8], Vec::new());
        let mut rest = bodies;
        while let Some((first, number)) = rest.first() {
            let at = octant(first, level);
            let (these, others) =
                rest.split_at(rest.partition_point(|(key, _)| octant(key, level) <= at));
            let child = if these.len() == 1 {
                parts.push(moments::of_body(&self.placed[*number], self.motions[*number][COST]));
                OctantChild::Body(*number)
            } else {
                let part = self.make(these, level + 1);
                parts.push(self.moments[part]);
                OctantChild::Cell(part)
            };
            octants[at] = child.word();
            rest = others;
        }
        self.octants[cell] = octants;
        self.moments[cell] = moments::of_parts(&parts);
        cell
    }
}

/// Returns the side of the cube around bodies, and their keys in the order of the tree, with their
/// numbers.
pub fn sorted(placed: &[PlacedMass]) -> (f64, Vec<(CubeKey, usize)>) {
    let far = placed.iter().flat_map(|at| &at[..3]).fold(0.0_f64, |far, at| far.max(at.abs()));
    let side = cube_side(far);
    let mut keys: Vec<_> = placed.iter().map(|at| key_of(at, side)).zip(0..).collect();
    keys.sort_by(|a, b| in_tree_order(&a.0, &b.0));
    (side, keys)
}

/// Finds the forces on all bodies.
fn evaluate(shape: &GalaxyShape, placed: &[PlacedMass], motions: &mut [BodyMotion]) -> TreeCounts {
    let (side, keys) = sorted(placed);
    let (octants, moments) = Default::default();
    let before = motions.to_vec();
    let mut tree = SerialOctree { placed, motions: &before, octants, moments, depth: 0 };
    tree.make(&keys, 0);
    let opening = Opening { side, angle: shape.angle };
    let (mut interactions, mut walk) = (0, BodyWalk::default());
    for (_, number) in &keys {
        let found = attraction(&tree, *number, opening, &mut walk);
        found.record(&mut motions[*number]);
        interactions += found.interactions;
    }
    TreeCounts { cells: tree.octants.len() as u64, depth: tree.depth as u64, interactions }
}

/// Makes the steps of a run that begins with these bodies.
pub fn run(shape: &GalaxyShape, (mut placed, mut motions): Bodies) -> GalaxyRun {
    debug_assert_eq!(placed.len(), shape.bodies, "all bodies");
    let mut log = Vec::new();
    for step in 0..=shape.steps {
        let counts = evaluate(shape, &placed, &mut motions);
        let mut energies = [0.0; 2];
        for (placed, motion) in placed.iter_mut().zip(&mut motions) {
            let more = body::step((placed, motion), shape.time, (step, shape.steps));
            energies.iter_mut().zip(more).for_each(|(sum, energy)| *sum += energy);
        }
        log.push((counts, energies));
    }
    GalaxyRun { placed, motions, log }
}

/// Returns the root of the mean square of the errors of accelerations, in parts of that of
/// accelerations, at `samples` bodies: beside the sum over all other bodies.
pub fn force_error(placed: &[PlacedMass], motions: &[BodyMotion], samples: usize) -> f64 {
    let (mut errors, mut sizes) = (0.0, 0.0);
    let samples = samples.min(placed.len());
    for sample in 0..samples {
        let number = sample * placed.len() / samples;
        let (here, mut due) = (placed[number], [0.0; 3]);
        for (_, there) in placed.iter().enumerate().filter(|(other, _)| *other != number) {
            let way = [there[0] - here[0], there[1] - here[1], there[2] - here[2]];
            let far = (way[0] * way[0] + way[1] * way[1] + way[2] * way[2] + SOFTENING).sqrt();
            due.iter_mut().zip(way).for_each(|(due, way)| *due += there[3] * way / far.powi(3));
        }
        for (due, found) in due.iter().zip(&motions[number][3..6]) {
            errors += (due - found).powi(2);
            sizes += due.powi(2);
        }
    }
    (errors / sizes).sqrt()
}

/// Returns the sum of momenta, in parts of the sum of their sizes.
pub fn momentum(placed: &[PlacedMass], motions: &[BodyMotion]) -> [f64; 3] {
    let size = |motion: &BodyMotion| motion[..3].iter().map(|v| v * v).sum::<f64>().sqrt();
    let sizes: f64 = placed.iter().zip(motions).map(|(at, motion)| at[3] * size(motion)).sum();
    std::array::from_fn(|part| {
        placed.iter().zip(motions).map(|(at, motion)| at[3] * motion[part]).sum::<f64>() / sizes
    })
}

#[cfg(test)]
mod tests {
    use super::{SerialOctree, force_error, momentum, run};
    use crate::barnes::body::PlacedMass;
    use crate::barnes::key::{in_tree_order, key_of, octant};
    use crate::barnes::moments::{Attraction, CellMoments};
    use crate::barnes::shape::GalaxyShape;
    use crate::barnes::walk::{BodyWalk, OctantWord, Octree, Opening, PartialOctree, attraction};
    use crate::random::Random;
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::convert::Infallible;

    fn shape(bodies: usize, angle: f64, steps: usize) -> GalaxyShape {
        GalaxyShape { bodies, seed: 5, angle, time: 0.025, steps }
    }

    #[test]
    fn the_tree_orders_bodies_by_the_first_octants_that_differ() {
        let mut random = Random::from(1, 0);
        let mut key = || std::array::from_fn(|_| random.number() >> 16);
        for _ in 0..1000 {
            let (a, b) = (key(), key());
            let octants = |key| (0..48).map(move |level| octant(key, level));
            assert_eq!(in_tree_order(&a, &b), octants(&a).cmp(octants(&b)));
        }
    }

    #[test]
    fn a_body_is_not_attracted_by_the_cell_that_it_lies_in() {
        // In opposite corners of one octant: further from its centre than its side.
        let placed = [[0.01, 0.01, 0.01, 1.0], [0.98, 0.98, 0.98, 0.5], [-0.9, -0.9, -0.9, 1.0]];
        let keyed = [2, 0, 1].map(|number: usize| (key_of(&placed[number], 2.0), number));
        let (octants, moments) = Default::default();
        let motions = [[1.0; 8]; 3];
        let mut tree =
            SerialOctree { placed: &placed, motions: &motions, octants, moments, depth: 0 };
        tree.make(&keyed, 0);
        let opening = Opening { side: 2.0, angle: 1.0 };
        let found = attraction(&tree, 1, opening, &mut BodyWalk::default());
        let mut due = Attraction::default();
        [2, 0].iter().for_each(|&other: &usize| due.add_body(&[0.98; 3], &placed[other]));
        assert_eq!(found.interactions, 2);
        assert!((found.potential - due.potential).abs() < 1e-15, "{found:?} {due:?}");
    }

    /// A tree of which each part is missing when it is first looked up, and every second time.
    struct HaltingTree<'a>(&'a SerialOctree<'a>, RefCell<HashSet<(u8, usize)>>);

    impl HaltingTree<'_> {
        fn gives<T>(&self, part: (u8, usize), it: T) -> Result<Option<T>, Infallible> {
            let was_there = self.1.borrow_mut().remove(&part);
            if !was_there {
                self.1.borrow_mut().insert(part);
            }
            Ok(was_there.then_some(it))
        }
    }

    impl PartialOctree for HaltingTree<'_> {
        type Error = Infallible;

        fn try_octants(&self, cell: usize) -> Result<Option<[OctantWord; 8]>, Infallible> {
            self.gives((0, cell), self.0.octants(cell))
        }

        fn with_moments<R>(
            &self,
            cell: usize,
            run: impl FnOnce(&CellMoments) -> R,
        ) -> Result<Option<R>, Infallible> {
            Ok(self.gives((1, cell), self.0.moments(cell))?.as_ref().map(run))
        }

        fn try_placed(&self, body: usize) -> Result<Option<PlacedMass>, Infallible> {
            self.gives((2, body), self.0.placed(body))
        }
    }

    #[test]
    fn a_walk_goes_on_where_a_part_was_missing() {
        let (placed, motions) = shape(200, 0.7, 0).model();
        let side = 64.0;
        let mut keyed: Vec<_> = placed.iter().map(|at| key_of(at, side)).zip(0..).collect();
        keyed.sort_by(|a, b| in_tree_order(&a.0, &b.0));
        let (octants, moments) = Default::default();
        let mut tree =
            SerialOctree { placed: &placed, motions: &motions, octants, moments, depth: 0 };
        tree.make(&keyed, 0);
        let (opening, mut walk) = (Opening { side, angle: 0.7 }, BodyWalk::default());
        for body in [0, 7, 199] {
            let due = attraction(&tree, body, opening, &mut walk);
            let halting = HaltingTree(&tree, RefCell::default());
            walk.begin(body, &placed[body], side);
            let mut halts = 0;
            let found = loop {
                match walk.advance(&halting, opening).unwrap() {
                    Some(found) => break found,
                    None => halts += 1,
                }
            };
            assert_eq!(found, due);
            assert!(halts > due.interactions, "each part was missing once");
        }
    }

    #[test]
    fn forces_are_those_of_all_pairs_and_energy_and_momentum_stay() {
        let model = shape(600, 0.7, 12).model();
        let exact = run(&shape(600, 1e-9, 0), model.clone());
        assert!(force_error(&exact.placed, &exact.motions, 600) < 1e-13);
        assert_eq!(exact.log[0].0.interactions, 600 * 599);
        let serial = run(&shape(600, 0.7, 12), model);
        let error = force_error(&serial.placed, &serial.motions, 600);
        assert!((1e-7..0.012).contains(&error), "{error}");
        let energies: Vec<_> = serial.log.iter().map(|(_, [a, b])| a + b).collect();
        let drift = (energies[12] - energies[0]).abs() / energies[0].abs();
        assert!(drift < 2e-3, "{energies:?}");
        let (before, after) =
            (momentum(&exact.placed, &exact.motions), momentum(&serial.placed, &serial.motions));
        assert!((0..3).all(|part| (after[part] - before[part]).abs() < 1e-3));
    }
}
