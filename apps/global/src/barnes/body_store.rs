//! Bodies in global memory, each at the rank that moves it.

use anyhow::{Result, ensure};
use clump::pgas::{CacheClass, Layout, ObjectCache, Pgas, Spread};
use clump_app_frame::barnes::body::{BodyMotion, COST, PlacedMass};
use clump_app_frame::barnes::shape::Bodies;

/// Place, mass and cost of a body: all that others need of it.
pub type Leaf = [f64; 5];

/// Velocity, acceleration and potential of a body, and its number.
type MovingBody = [f64; 8];

/// Position of the number, which takes the place of the cost.
const NUMBER: usize = COST;

/// A body of this rank.
#[derive(Debug, Clone, Copy)]
pub struct OwnBody {
    /// Index in global memory.
    pub index: usize,
    /// Number at the beginning.
    pub number: usize,
    /// Place and mass.
    pub placed: PlacedMass,
    /// Motion.
    pub motion: BodyMotion,
}

/// The bodies of all ranks, twice: those of the tree, and those of the next, which ranks write as
/// they find forces.
#[derive(Debug)]
pub struct BodyStore {
    gas: Pgas,
    leaves: [Spread<Leaf>; 2],
    moving: [Spread<MovingBody>; 2],
    moving_class: CacheClass<MovingBody>,
    leaf_class: CacheClass<Leaf>,
    /// Which of both the tree has.
    turn: usize,
    per_rank: usize,
    own: usize,
}

impl BodyStore {
    /// Allocates room for so many bodies. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn allocate(gas: &Pgas, cache: &ObjectCache, bodies: usize) -> Result<Self> {
        // Zones are equal in cost, not in bodies.
        let per_rank = bodies.min(3 * bodies / gas.nranks() + 512);
        let len = per_rank * gas.nranks();
        let leaves = [gas.spread(len, Layout::Block)?, gas.spread(len, Layout::Block)?];
        let moving = [gas.spread(len, Layout::Block)?, gas.spread(len, Layout::Block)?];
        let (moving_class, leaf_class) = (cache.class(), cache.class());
        let gas = gas.clone();
        Ok(Self { gas, leaves, moving, moving_class, leaf_class, turn: 0, per_rank, own: 0 })
    }

    /// Returns most bodies of a rank.
    pub fn per_rank(&self) -> usize {
        self.per_rank
    }

    /// Returns places, masses and costs in the tree's turn.
    pub fn leaves(&self) -> &Spread<Leaf> {
        &self.leaves[self.turn]
    }

    /// Returns lookups of places, masses and costs.
    pub fn leaf_class(&self) -> &CacheClass<Leaf> {
        &self.leaf_class
    }

    /// Returns the indexes of this rank's bodies.
    pub fn own(&self) -> std::ops::Range<usize> {
        let first = self.gas.rank() * self.per_rank;
        first..first + self.own
    }

    /// Returns a body of this rank's next turn to its place among these.
    ///
    /// # Errors
    /// Fails if it does not fit.
    pub fn put(&self, slot: usize, body: &OwnBody) -> Result<()> {
        let [x, y, z, mass] = body.placed;
        let next = 1 - self.turn;
        self.leaves[next].local().set(slot, [x, y, z, mass, body.motion[COST]])?;
        let mut moving = body.motion;
        moving[NUMBER] = body.number as f64;
        Ok(self.moving[next].local().set(slot, moving)?)
    }

    /// Makes the next turn the tree's, with `own` bodies of this rank; the caller lets all ranks
    /// meet.
    ///
    /// # Errors
    /// Fails if there are too many.
    pub fn turn_over(&mut self, own: usize) -> Result<()> {
        ensure!(own <= self.per_rank, "a rank's zone has more than {} bodies", self.per_rank);
        (self.turn, self.own) = (1 - self.turn, own);
        Ok(())
    }

    /// Returns bodies of any ranks, by their indexes.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn bodies(&self, indexes: &[usize]) -> Result<Vec<OwnBody>> {
        ensure!(indexes.len() <= self.per_rank, "a zone of more than {} bodies", self.per_rank);
        let leaves = self.leaf_class.get_many(self.leaves(), indexes)?;
        let moving = self.moving_class.get_many(&self.moving[self.turn], indexes)?;
        let together = indexes.iter().zip(leaves).zip(moving);
        let one = |((&index, leaf), moving): ((&usize, Leaf), MovingBody)| {
            let ([x, y, z, mass, cost], number) = (leaf, moving[NUMBER] as usize);
            let mut motion = moving;
            motion[COST] = cost;
            OwnBody { index, number, placed: [x, y, z, mass], motion }
        };
        Ok(together.map(one).collect())
    }

    /// Returns all bodies by number at rank 0, and none at others. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if bodies are.
    pub fn collect(&self, bodies: usize) -> Result<Option<Bodies>> {
        let counts = self.gas.team().all_gather(self.own as u64)?;
        if self.gas.rank() > 0 {
            return Ok(None);
        }
        let (mut placed, mut motions) = (vec![[0.0; 4]; bodies], vec![[0.0; 8]; bodies]);
        let mut is_there = vec![false; bodies];
        for (rank, count) in counts.into_iter().enumerate() {
            let (mut leaves, mut moving) =
                (vec![[0.0; 5]; count as usize], vec![[0.0; 8]; count as usize]);
            let from = (self.leaves().on(rank), self.moving[self.turn].on(rank));
            if let (Some(leaf), Some(motion)) = from {
                self.gas.bulk_get(leaf, &mut leaves)?;
                self.gas.bulk_get(motion, &mut moving)?;
            }
            for ([x, y, z, mass, cost], mut motion) in leaves.into_iter().zip(moving) {
                let number = motion[NUMBER] as usize;
                ensure!(number < bodies && !is_there[number], "body {number} is there twice");
                motion[COST] = cost;
                (placed[number], motions[number]) = ([x, y, z, mass], motion);
                is_there[number] = true;
            }
        }
        ensure!(is_there.iter().all(|it| *it), "bodies are lost");
        Ok(Some((placed, motions)))
    }
}
