//! The bodies of all ranks, and the steps they make.

use crate::barnes::body_store::OwnBody;
use crate::barnes::forces::find_forces;
use crate::barnes::global_octree::GlobalOctree;
use crate::barnes::{insertion, zone};
use crate::run::AppRun;
use anyhow::Result;
use clump::{Max, Sum};
use clump_app_frame::barnes::body;
use clump_app_frame::barnes::key::cube_side;
use clump_app_frame::barnes::serial;
use clump_app_frame::barnes::shape::{Bodies, GalaxyShape};
use clump_app_frame::barnes::walk::Opening;
use clump_app_frame::barnes::{GalaxyLog, TreeCounts};

/// Parts of a step.
const PHASES: [&str; 4] = ["tree", "sums", "zones", "forces"];

/// Bodies that attract each other.
#[derive(Debug)]
pub struct GlobalGalaxy {
    shape: GalaxyShape,
    tree: GlobalOctree,
    /// Walks of a rank at a time.
    window: usize,
    /// Seconds of this rank in each part of all steps.
    seconds: [f64; PHASES.len()],
}

impl GlobalGalaxy {
    /// Puts bodies into an empty tree, as many at each rank, neighbours together. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn make(
        run: &AppRun,
        shape: GalaxyShape,
        (placed, motions): &Bodies,
        mut tree: GlobalOctree,
        window: usize,
    ) -> Result<Self> {
        let (rank, ranks) = (run.gas().rank(), run.gas().nranks());
        // By place: ranks then insert them into different parts of the tree.
        let (_, keys) = serial::sorted(placed);
        let own = &keys[shape.bodies * rank / ranks..shape.bodies * (rank + 1) / ranks];
        for (slot, (_, number)) in own.iter().enumerate() {
            let number = *number;
            let (placed, motion) = (placed[number], motions[number]);
            tree.bodies().put(slot, &OwnBody { index: 0, number, placed, motion })?;
        }
        tree.bodies_mut().turn_over(own.len())?;
        run.gas().barrier()?;
        Ok(Self { shape, tree, window, seconds: Default::default() })
    }

    /// Returns the tree.
    pub fn tree(&self) -> &GlobalOctree {
        &self.tree
    }

    /// Makes all steps (kick, drift, kick), with a last evaluation behind them, and reports the
    /// times of their parts. A collective.
    ///
    /// # Errors
    /// Fails if two bodies are too close, if attempts at naive locks never end, or if a rank is
    /// lost.
    pub fn run(&mut self, run: &mut AppRun) -> Result<GalaxyLog> {
        let mut log = Vec::new();
        for step in 0..=self.shape.steps {
            let (counts, mut bodies) = self.evaluate(run)?;
            let mut energies = [0.0; 2];
            for (slot, body) in bodies.iter_mut().enumerate() {
                let (at, moves) = ((step, self.shape.steps), (&mut body.placed, &mut body.motion));
                let more = body::step(moves, self.shape.time, at);
                energies.iter_mut().zip(more).for_each(|(sum, energy)| *sum += energy);
                self.tree.bodies().put(slot, body)?;
            }
            self.tree.bodies_mut().turn_over(bodies.len())?;
            self.tree.clear();
            run.gas().barrier()?;
            let team = run.gas().team();
            let [kinetic, potential] = energies;
            let energies = [team.all_reduce(kinetic, Sum)?, team.all_reduce(potential, Sum)?];
            log.push((counts, energies));
        }
        for (name, seconds) in PHASES.into_iter().zip(self.seconds) {
            run.took(name, seconds)?;
        }
        Ok(log)
    }

    /// Builds the tree, deals bodies out, and finds the forces on those of this rank.
    fn evaluate(&mut self, run: &AppRun) -> Result<(TreeCounts, Vec<OwnBody>)> {
        let (gas, tree) = (run.gas(), &self.tree);
        let own: Vec<usize> = tree.bodies().own().collect();
        let far = tree.bodies().bodies(&own)?;
        let far = far.iter().flat_map(|body| &body.placed[..3]);
        let far = far.fold(0.0_f64, |far, part| far.max(part.abs()));
        let side = cube_side(run.largest(far)?);
        let phase = run.timed(PHASES[0]);
        if gas.rank() == 0 {
            tree.make(0, &[0; 8])?;
        }
        gas.barrier()?;
        insertion::insert_all(tree, side)?;
        gas.all_store_sync()?;
        self.seconds[0] += phase.end();

        let phase = run.timed(PHASES[1]);
        let deepest = gas.team().all_reduce(tree.deepest() as u64, Max)?;
        tree.sum_up(deepest as usize)?;
        self.seconds[1] += phase.end();

        let phase = run.timed(PHASES[2]);
        let zone = zone::own_zone(tree, gas.rank(), gas.nranks())?;
        let mut bodies = tree.bodies().bodies(&zone)?;
        gas.barrier()?;
        self.seconds[2] += phase.end();

        let phase = run.timed(PHASES[3]);
        self.tree.copy_near()?;
        let tree = &self.tree;
        let opening = Opening { side, angle: self.shape.angle };
        let interactions = find_forces(tree, opening, &mut bodies, self.window)?;
        gas.barrier()?;
        self.seconds[3] += phase.end();
        let counts = TreeCounts {
            cells: run.total(tree.made() as u64)?,
            depth: deepest,
            interactions: run.total(interactions)?,
        };
        Ok((counts, bodies))
    }
}
